//! `--delete-original` means the same everywhere: the input goes when the output was read back and holds the same, and stays otherwise.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use ztensor::Writer;

fn ztensor(words: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let words = words.iter().map(|word| word.as_ref());
    Command::new(env!("CARGO_BIN_EXE_ztensor")).args(words).output().unwrap()
}

fn succeed(words: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    let output = ztensor(words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fail(words: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    let output = ztensor(words);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// A model of two tensors as safetensors; later steps differ a little.
fn model(folder: &Path, name: &str, step: u32) -> PathBuf {
    let zt = folder.join("temporary.zt");
    let mut writer = Writer::create(&zt).unwrap();
    let values: Vec<f32> =
        (0..4096).map(|number| (number * number % 977 + step * (number % 5)) as f32).collect();
    writer.add("weight", &[64, 64], &values).unwrap();
    writer.add("bias", &[64], &values[..64]).unwrap();
    writer.finish().unwrap();
    let path = folder.join(name);
    succeed(&[&"convert", &zt, &"-o", &path]);
    std::fs::remove_file(zt).unwrap();
    path
}

#[test]
fn archives_and_deltas_replace_their_originals_and_give_them_back() {
    let folder = TempDir::new().unwrap();
    let base = model(folder.path(), "step-1.safetensors", 0);
    let tuned = model(folder.path(), "step-2.safetensors", 1);
    let originals = [std::fs::read(&base).unwrap(), std::fs::read(&tuned).unwrap()];
    succeed(&[&"delta", &"make", &tuned, &"--base", &base, &"--delete-original"]);
    assert!(base.exists() && !tuned.exists());
    succeed(&[&"archive", &base, &"--delete-original"]);
    assert!(!base.exists());
    // The delta's base is an archive that goes too: it is needed until both are restored.
    let archive = folder.path().join("step-1.safetensors.zstn");
    let delta = folder.path().join("step-2.z4dm");
    succeed(&[&"restore", &archive, &delta, &"-o", &folder.path(), &"--delete-original"]);
    assert!(!archive.exists() && !delta.exists());
    assert_eq!([std::fs::read(&base).unwrap(), std::fs::read(&tuned).unwrap()], originals);
}

#[test]
fn deltas_are_applied_many_at_a_time() {
    let folder = TempDir::new().unwrap();
    let base = model(folder.path(), "step-0.safetensors", 0);
    let tuned = [1, 2].map(|step| model(folder.path(), &format!("step-{step}.safetensors"), step));
    let deltas = [1, 2].map(|step| folder.path().join(format!("step-{step}.z4dm")));
    for path in &tuned {
        succeed(&[&"delta", &"make", path, &"--base", &base]);
    }
    let target = TempDir::new().unwrap();
    let said =
        succeed(&[&"delta", &"apply", &deltas[0], &deltas[1], &"--base", &base, &"-o", &target.path()]);
    assert_eq!(said.lines().count(), 2, "{said}");
    for path in &tuned {
        let restored = target.path().join(path.file_name().unwrap());
        assert_eq!(std::fs::read(restored).unwrap(), std::fs::read(path).unwrap());
    }
}

#[test]
fn a_delta_never_takes_its_base_away() {
    let folder = TempDir::new().unwrap();
    let base = model(folder.path(), "step-1.safetensors", 0);
    let delta = folder.path().join("self.z4dm");
    let complaint = fail(&[&"delta", &"make", &base, &"--base", &base, &"-o", &delta, &"--delete-original"]);
    assert!(complaint.contains("is kept: the delta needs it as its base"), "{complaint}");
    assert!(base.exists());
}

#[test]
fn rewritten_joined_and_split_files_replace_their_originals() {
    let folder = TempDir::new().unwrap();
    let one = model(folder.path(), "one.safetensors", 0);
    let small = folder.path().join("small.zt");
    succeed(&[&"compress", &one, &"-o", &small, &"--delete-original"]);
    assert!(!one.exists());
    let shards = folder.path().join("shards");
    succeed(&[&"split", &small, &"-o", &shards, &"--max-size", &"300", &"--delete-original"]);
    assert!(!small.exists());
    assert_eq!(shards.read_dir().unwrap().count(), 3);
    let index = shards.join("small.safetensors.index.json");
    let joined = folder.path().join("joined.zt");
    succeed(&[&"merge", &index, &"-o", &joined, &"--delete-original"]);
    assert_eq!(shards.read_dir().unwrap().count(), 0);
    let written = ztensor::open(&joined).unwrap();
    assert_eq!(written.len(), 2);
    // Rewritten in its own place, a file is its own original.
    succeed(&[&"compress", &joined, &"--delete-original"]);
    assert_eq!(ztensor::open(&joined).unwrap().len(), 2);
}

#[test]
fn what_could_not_be_read_keeps_the_original() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("objects.npy");
    // An object array: pickled Python objects.
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    bytes.extend_from_slice(format!("{header:<117}\n").as_bytes());
    bytes.extend_from_slice(b"\x80\x04K\x01.");
    std::fs::write(&path, bytes).unwrap();
    let output = folder.path().join("out.zt");
    let complaint = fail(&[&"compress", &path, &"-o", &output, &"--delete-original"]);
    assert!(complaint.contains("is kept: not everything in it could be read"), "{complaint}");
    assert!(path.exists());
}

#[test]
fn an_archive_that_is_there_already_is_said_to_be() {
    let folder = TempDir::new().unwrap();
    let path = model(folder.path(), "model.safetensors", 0);
    succeed(&[&"archive", &path]);
    let archive = folder.path().join("model.safetensors.zstn");
    let before = std::fs::read(&archive).unwrap();
    assert!(succeed(&[&"archive", &path]).contains("is there already and restores"));
    assert_eq!(std::fs::read(&archive).unwrap(), before);
    std::fs::write(&path, std::fs::read(model(folder.path(), "other.safetensors", 3)).unwrap()).unwrap();
    assert!(fail(&[&"archive", &path]).contains("exists; use --force"));
    assert!(fail(&[&"archive", &archive]).contains("this is an archive already"));
}

#[test]
fn scanning_keeps_to_the_limits_of_the_command() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.pkl");
    let long = format!("(lp0\nS'{}'\n.", "x".repeat(200_000));
    std::fs::write(&path, [b"\x80\x02".as_slice(), long.as_bytes()].concat()).unwrap();
    assert!(succeed(&[&"scan", &path]).contains("safe"));
    let output = ztensor(&[&"scan", &path, &"--limit", &"header=64KiB"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
}
