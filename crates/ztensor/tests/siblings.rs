//! What is opened besides regular files: links to them, pipes that the user names, and nothing else. A shard that is a device or a pipe must
//! neither be read without end nor waited for.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use ztensor::archive::{ArchiveOptions, archive};
use ztensor::{Kind, Limits, OpenOptions};

fn safetensors(name: &str) -> Vec<u8> {
    let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}}}"#);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[1, 2, 3]].concat()
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// A model of two shards, of which the second is not there yet.
fn model(folder: &Path) -> (PathBuf, PathBuf) {
    let (index, second) = (folder.join("model.safetensors.index.json"), folder.join("two.safetensors"));
    std::fs::write(&index, r#"{"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}"#).unwrap();
    std::fs::write(folder.join("one.safetensors"), safetensors("a")).unwrap();
    (index, second)
}

#[test]
fn shards_are_regular_files_or_links_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let (index, second) = model(folder.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let blob = elsewhere.path().join("blob");
    std::fs::write(&blob, safetensors("b")).unwrap();
    symlink(&blob, &second).unwrap();
    assert_eq!(ztensor::open(&index).unwrap().len(), 2);

    std::fs::remove_file(&second).unwrap();
    symlink("/dev/zero", &second).unwrap();
    let error = ztensor::open(&index).unwrap_err();
    assert!(error.kind() == Kind::InvalidArgument && error.to_string().contains("a device"), "{error}");

    std::fs::remove_file(&second).unwrap();
    pipe(&second);
    let error = ztensor::open(&index).unwrap_err();
    assert!(error.to_string().contains("a pipe") && error.path() == Some(&second), "{error}");
}

#[test]
fn a_shard_may_be_archived() {
    let folder = tempfile::tempdir().unwrap();
    let (index, second) = model(folder.path());
    let plain = folder.path().join("plain");
    std::fs::write(&plain, safetensors("b")).unwrap();
    archive(&plain, &second, &ArchiveOptions::default(), &mut |_| Ok(())).unwrap();
    assert_eq!(*ztensor::open(&index).unwrap().bytes("b").unwrap(), [1, 2, 3]);
}

#[test]
fn the_base_of_a_delta_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let [base, tuned, delta] =
        ["base.safetensors", "tuned.safetensors", "tuned.z4dm"].map(|name| folder.path().join(name));
    let weights: Vec<u8> = (0..40_000u32).flat_map(|i| (1.0 + i as f32 * 1e-4).to_le_bytes()).collect();
    let header = r#"{"a":{"dtype":"F32","shape":[40000],"data_offsets":[0,160000]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &weights].concat();
    std::fs::write(&base, &file).unwrap();
    std::fs::write(&tuned, &file).unwrap();
    let reader = ztensor::open(&base).unwrap().into();
    ztensor::delta::make(&tuned, &[reader], &delta, &ArchiveOptions::default(), &mut |_| Ok(())).unwrap();
    assert_eq!(ztensor::open(&delta).unwrap().len(), 1);
    // The same bytes under another name would serve.
    std::fs::remove_file(&tuned).unwrap();
    std::fs::remove_file(&base).unwrap();
    pipe(&base);
    assert_eq!(ztensor::open(&delta).unwrap_err().kind(), Kind::WrongBase);
}

#[test]
fn what_the_user_names_is_a_file_or_a_pipe_of_bounded_length() {
    let error = ztensor::open("/dev/zero").unwrap_err();
    assert!(error.to_string().contains("a device"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    pipe(&path);
    let mut limits = Limits::default();
    for (most, opens) in [(1 << 20, true), (60, false)] {
        limits.stream_bytes = most;
        let options = OpenOptions { limits: limits.clone(), ..OpenOptions::default() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                // A reader that has seen enough closes the pipe.
                let _ = writer.write_all(&safetensors("a"));
            });
            match options.open(&path) {
                Ok(reader) => assert!(opens && reader.len() == 1),
                Err(error) => {
                    assert!(!opens && error.kind() == Kind::Limit, "{error}");
                    let told = error.told(ztensor::Caller::Shell).to_string();
                    assert!(told.contains("--limit stream="), "{told}");
                }
            }
        });
    }
}

#[test]
fn an_index_of_very_many_shards_is_refused_in_a_few_words() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("model.safetensors.index.json");
    let map: Vec<String> =
        (0..20_000).map(|number| format!(r#""{number}":"shard-{number}.safetensors""#)).collect();
    std::fs::write(&index, format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","))).unwrap();
    let message = ztensor::open(&index).unwrap_err().to_string();
    assert!(message.contains("20000 of 20000 shards") && message.contains("and 19990 more"), "{message}");
    assert!(message.len() < 1000, "{message}");
}
