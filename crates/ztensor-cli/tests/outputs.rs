//! What the commands do to files that are there already, to files they cannot open, and to those who read their output.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use ztensor::{Checksum, Compression, Reader, TensorInput, Version, Writer};

fn ztensor(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ztensor"))
        .args(arguments.iter().map(|argument| argument.as_ref()))
        .output()
        .unwrap()
}

fn z4ai(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_z4ai"))
        .args(arguments.iter().map(|argument| argument.as_ref()))
        .output()
        .unwrap()
}

fn complaint(output: &Output, code: i32) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// A folder with one model, `name`, that holds one tensor.
fn model(folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    let mut writer = Writer::create(&path).unwrap();
    writer.add("weight", &[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    writer.finish().unwrap();
    path
}

fn write_with(path: &Path, version: Version, checksum: Checksum) {
    let mut writer = Writer::create_version(path, version).unwrap();
    let bytes: Vec<u8> = (0..4096u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
    let input = TensorInput::dense([4096], ztensor::DType::U32, &bytes);
    writer.write_batch(&[("weight", input)], Compression::None, checksum).unwrap();
    writer.finish().unwrap();
}

#[test]
fn inputs_that_would_become_one_file_are_refused_before_anything_is_written() {
    let folder = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let (one, two) = (model(&folder, "model.zt"), model(&other, "model.zt"));
    let target = TempDir::new().unwrap();
    let result = ztensor(&[&"convert", &one, &two, &"-o", &target.path(), &"--force", &"--delete-original"]);
    assert!(complaint(&result, 2).contains("two of the inputs"));
    assert!(one.exists() && two.exists());
    assert_eq!(target.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_name_of_a_format_that_is_not_written_is_refused() {
    let folder = TempDir::new().unwrap();
    let input = model(&folder, "model.zt");
    for command in ["convert", "merge", "compress"] {
        let output = folder.path().join("model.gguf");
        let result = ztensor(&[&command, &input, &"-o", &output]);
        assert!(complaint(&result, 2).contains("read, not written"), "{command}");
        assert!(!output.exists());
    }
}

#[test]
fn files_that_exist_are_replaced_on_request_only() {
    let folder = TempDir::new().unwrap();
    let input = model(&folder, "model.zt");
    let output = folder.path().join("precious.zt");
    for command in [&["merge"][..], &["compress"], &["decompress"], &["migrate"], &["convert"]] {
        std::fs::write(&output, "precious").unwrap();
        let result = ztensor(&[&command[0], &input, &"-o", &output]);
        assert!(complaint(&result, 2).contains("--force"), "{command:?}");
        assert_eq!(std::fs::read(&output).unwrap(), b"precious");
        complaint(&ztensor(&[&command[0], &input, &"-o", &output, &"--force"]), 0);
        assert_eq!(ztensor::open(&output).unwrap().len(), 1);
    }
    std::fs::write(&output, "precious").unwrap();
    for command in ["remove", "cat"] {
        let result = ztensor(&[&command, &input, &"weight", &"-o", &output]);
        assert!(complaint(&result, 2).contains("--force"), "{command}");
        assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    }
    // The index is the last that is written, and found before the first shard is.
    let index = folder.path().join("model.safetensors.index.json");
    std::fs::write(&index, "precious").unwrap();
    assert!(complaint(&ztensor(&[&"split", &input]), 2).contains("--force"));
    assert_eq!(std::fs::read(&index).unwrap(), b"precious");
    let shard = folder.path().join("model-00001-of-00001.safetensors");
    assert!(!shard.exists());
    complaint(&ztensor(&[&"split", &input, &"--force"]), 0);
    assert_eq!(ztensor::open(&index).unwrap().len(), 1);
}

#[test]
fn a_rewrite_keeps_version_and_checksums() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.zt");
    let digest = |reader: &Reader| {
        let component = reader.object("weight").unwrap().component("data").unwrap();
        component.digest.as_ref().map(|digest| digest.value.to_string())
    };
    for (version, number, checksum, kind) in [
        (Version::One, "1.", Checksum::Sha256, Some("sha256:")),
        (Version::One, "1.", Checksum::Crc32c, Some("crc32c:")),
        (Version::One, "1.", Checksum::None, None),
        (Version::Two, "2", Checksum::Sha256, Some("sha256:")),
    ] {
        write_with(&path, version, checksum);
        for command in ["compress", "decompress"] {
            complaint(&ztensor(&[&command, &path]), 0);
            let reader = ztensor::open(&path).unwrap();
            assert!(reader.index().version.starts_with(number), "{command}");
            let found = digest(&reader);
            assert_eq!(found.is_some(), kind.is_some(), "{command} {found:?}");
            assert!(found.unwrap_or_default().starts_with(kind.unwrap_or_default()));
        }
    }
}

#[test]
fn archives_are_neither_archived_again_nor_rewritten_in_place() {
    let folder = TempDir::new().unwrap();
    let input = model(&folder, "model.zt");
    let archive = folder.path().join("model.zt.zstn");
    complaint(&ztensor(&[&"archive", &input]), 0);
    let before = std::fs::read(&archive).unwrap();
    assert!(complaint(&ztensor(&[&"archive", &archive]), 2).contains("archive already"));
    let delta = folder.path().join("model.z4dm");
    let result = ztensor(&[&"delta", &"make", &archive, &"--base", &input, &"-o", &delta]);
    assert!(complaint(&result, 2).contains("archive already"));
    assert!(complaint(&ztensor(&[&"compress", &archive]), 2).contains("--output"));
    assert_eq!(std::fs::read(&archive).unwrap(), before);
    assert!(!folder.path().join("model.zt.zstn.zstn").exists() && !delta.exists());
}

#[test]
fn a_file_that_does_not_open_leaves_the_others_checked() {
    let folder = TempDir::new().unwrap();
    let input = model(&folder, "model.zt");
    let result = ztensor(&[&"verify", &folder.path().join("missing.zt"), &input, &"--json"]);
    assert_eq!(result.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&result.stdout).unwrap();
    let documents = &document["result"];
    assert_eq!(documents[0]["error"]["kind"], "not_found");
    assert_eq!(documents[1]["tensors"], 1);
    let result = ztensor(&[&"verify", &folder.path().join("missing.zt"), &input]);
    assert!(complaint(&result, 2).contains("missing.zt"));
    assert!(
        String::from_utf8(result.stdout)
            .unwrap()
            .contains("readable; 1 tensor; nothing stored to check it against")
    );
}

#[test]
fn verify_checks_that_an_archive_restores_its_original() {
    let folder = TempDir::new().unwrap();
    let input = model(&folder, "model.zt");
    let archive = folder.path().join("model.zt.zstn");
    complaint(&ztensor(&[&"archive", &input]), 0);
    let good = ztensor(&[&"verify", &archive]);
    assert_eq!((good.status.code(), good.stdout.ends_with(b"1 checksum\n")), (Some(0), true));
    let mut bytes = std::fs::read(&archive).unwrap();
    // The manifest names the original's digest, which nothing but restoring it can check.
    let digest = bytes.windows(7).position(|window| window == b"fsha256").unwrap();
    bytes[digest + 15] ^= 1;
    std::fs::write(&archive, bytes).unwrap();
    assert_eq!(ztensor(&[&"verify", &archive]).status.code(), Some(1));
}

#[test]
fn archives_of_several_files_make_one_document() {
    let folder = TempDir::new().unwrap();
    let (one, two) = (model(&folder, "one.zt"), model(&folder, "two.zt"));
    let result = ztensor(&[&"archive", &one, &two, &"--json"]);
    let document: serde_json::Value = serde_json::from_slice(&result.stdout).unwrap();
    let documents = &document["result"];
    assert_eq!(documents.as_array().unwrap().len(), 2);
    assert_eq!(documents[1]["path"], two.display().to_string());
}

#[test]
fn shards_of_a_sharded_model_are_named_after_the_model() {
    let folder = TempDir::new().unwrap();
    let input = model(&folder, "model.zt");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    complaint(&ztensor(&[&"split", &input, &"-o", &first]), 0);
    let index = first.join("model.safetensors.index.json");
    complaint(&ztensor(&[&"split", &index, &"-o", &second]), 0);
    assert_eq!(ztensor::open(second.join("model.safetensors.index.json")).unwrap().len(), 1);
}

#[test]
fn shards_of_a_failed_split_are_taken_away() {
    let (folder, target) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = folder.path().join("model.zt");
    let mut writer = Writer::create(&path).unwrap();
    for name in ["a", "b", "c"] {
        let bytes: Vec<u8> = (0..4096u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        let input = TensorInput::dense([4096], ztensor::DType::U32, &bytes);
        writer.write_batch(&[(name, input)], Compression::Zstd(3), Checksum::Crc32c).unwrap();
    }
    writer.finish().unwrap();
    let place = Reader::open(&path).unwrap().object("b").unwrap().components[0].1.data.first_span().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(place.offset + place.length / 2) as usize] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let kept = target.path().join("model-00001-of-00003.safetensors");
    std::fs::write(&kept, "before").unwrap();
    let split: [&dyn AsRef<std::ffi::OsStr>; 7] =
        [&"split", &path, &"-o", &target.path(), &"--max-size", &"16KB", &"--force"];
    assert!(complaint(&ztensor(&split), 2).contains("\"b\""));
    assert_eq!(target.path().read_dir().unwrap().count(), 1);
    std::fs::remove_file(&kept).unwrap();
    complaint(&ztensor(&split), 2);
    assert_eq!(target.path().read_dir().unwrap().count(), 0);
}

/// Runs the command with a file's bytes on its standard input.
fn piped(path: &Path, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_ztensor"))
        .args(arguments.iter().map(|argument| argument.as_ref()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses standard input does not read it.
    let _ = child.stdin.take().unwrap().write_all(&std::fs::read(path).unwrap());
    child.wait_with_output().unwrap()
}

#[test]
fn standard_input_is_taken_or_refused_by_its_name() {
    let folder = TempDir::new().unwrap();
    let path = model(&folder, "model.zt");
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let safe = piped(&path, &[&"scan", &"-"]);
    assert_eq!(safe.status.code(), Some(0));
    assert!(text(&safe).contains("-: safe"));
    let evil = folder.path().join("evil.pkl");
    std::fs::write(&evil, b"cos\nsystem\n(S'true'\ntR.").unwrap();
    let found = piped(&evil, &[&"scan", &"-"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(text(&found).contains("os.system('true')"));
    // Whoever names the pipe by its path gets the same: it is read once.
    #[cfg(target_os = "linux")]
    assert!(text(&piped(&path, &[&"scan", &"/dev/stdin"])).contains("safe"));
    let shards = folder.path().join("shards");
    assert!(piped(&path, &[&"split", &"-", &"-o", &shards]).status.success());
    assert!(shards.join("model.safetensors.index.json").exists());
    for command in
        [&["manifest", "-"][..], &["restore", "-"], &["remove", "-", "x"], &["meta", "set", "-", "a=b"]]
    {
        let words: Vec<&dyn AsRef<std::ffi::OsStr>> =
            command.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>).collect();
        let told = complaint(&piped(&path, &words), 2);
        assert!(told.contains("does not take standard input"), "{command:?}: {told}");
    }
}

#[test]
fn urls_are_taken_wherever_files_are_read_and_refused_where_they_are_changed() {
    let folder = TempDir::new().unwrap();
    let path = model(&folder, "model.zt");
    let url = |name: &str| format!("file://{}", folder.path().join(name).display());
    let run = |program: &str, words: &[&str]| {
        Command::new(program).current_dir(folder.path()).args(words).output().unwrap()
    };
    let (z4ai, ztensor) = (env!("CARGO_BIN_EXE_z4ai"), env!("CARGO_BIN_EXE_ztensor"));
    let succeed = |program: &str, words: &[&str]| complaint(&run(program, words), 0);
    let here = |name: &str| folder.path().join("here").join(name);
    std::fs::create_dir(folder.path().join("here")).unwrap();
    let beside = |program: &str, words: &[&str]| {
        let ran = Command::new(program).current_dir(folder.path().join("here")).args(words).output();
        complaint(&ran.unwrap(), 0)
    };
    // What a command names after a URL lies where it runs.
    beside(z4ai, &["compress", &url("model.zt"), "--dtype", "f32"]);
    std::fs::rename(here("model.zt.z4ai"), folder.path().join("model.zt.z4ai")).unwrap();
    succeed(z4ai, &["info", &url("model.zt.z4ai")]);
    beside(z4ai, &["decompress", &url("model.zt.z4ai")]);
    assert_eq!(std::fs::read(here("model.zt")).unwrap(), std::fs::read(&path).unwrap());
    succeed(z4ai, &["delta", &url("model.zt"), "--reference", &url("model.zt.z4ai"), "-o", "d.z4ai"]);
    succeed(z4ai, &["apply", &url("d.z4ai"), "--reference", &url("model.zt.z4ai"), "-o", "again"]);
    assert_eq!(std::fs::read(folder.path().join("again")).unwrap(), std::fs::read(&path).unwrap());
    succeed(ztensor, &["manifest", "model.zt", "-o", "list"]);
    succeed(ztensor, &["verify", "--manifest", &url("list")]);
    // A list elsewhere may name files by URL; one that names none checks nothing, and says so.
    succeed(ztensor, &["manifest", &url("model.zt"), "-o", "here/list"]);
    succeed(ztensor, &["verify", "--manifest", "here/list"]);
    std::fs::write(folder.path().join("none"), "\n").unwrap();
    assert!(complaint(&run(ztensor, &["verify", "--manifest", "none"]), 2).contains("names no file"));
    succeed(ztensor, &["store", "init", "store"]);
    succeed(ztensor, &["store", "add", &url("model.zt"), "-n", "a", "--store", "store"]);
    succeed(ztensor, &["store", "get", "a", "-o", "restored.zt", "--store", "store"]);
    assert_eq!(std::fs::read(folder.path().join("restored.zt")).unwrap(), std::fs::read(&path).unwrap());
    for words in [
        &["meta", "set", &url("model.zt"), "a=b"][..],
        &["append", &url("model.zt"), "model.zt"],
        &["repair", &url("model.zt")],
    ] {
        let told = complaint(&run(ztensor, words), 2);
        assert!(told.contains("changed in folders only"), "{words:?}: {told}");
    }
}

#[test]
fn names_cannot_control_the_terminal() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("evil.zt");
    let mut writer = Writer::create(&path).unwrap();
    writer.add("\u{1b}[2Jcleared", &[1], &[1f32]).unwrap();
    writer.finish().unwrap();
    for result in [
        ztensor(&[&"info", &path]),
        ztensor(&[&"diff", &path, &model(&folder, "other.zt")]),
        ztensor(&[&"cat", &path, &"\u{1b}missing"]),
    ] {
        assert!(!result.stdout.contains(&0x1b) && !result.stderr.contains(&0x1b));
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("weights.bin");
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::fs::write(&path, (0..4 << 20).map(|_| random()).collect::<Vec<u8>>()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_z4ai"))
        .args(["compress".as_ref(), path.as_os_str(), "-o".as_ref(), "-".as_ref()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let result = child.wait_with_output().unwrap();
    assert_eq!(complaint(&result, 0), "");
}

#[cfg(unix)]
#[test]
fn outputs_have_the_mode_of_the_file_they_replace() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let input = model(&folder, "model.zt");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let ordinary = folder.path().join("ordinary");
    std::fs::write(&ordinary, "").unwrap();
    let (packed, tensor) = (folder.path().join("model.z4ai"), folder.path().join("weight.npy"));
    complaint(&z4ai(&[&"compress", &input, &"-o", &packed]), 0);
    complaint(&ztensor(&[&"cat", &input, &"weight", &"-o", &tensor]), 0);
    assert_eq!((mode(&packed), mode(&tensor)), (mode(&ordinary), mode(&ordinary)));
    std::fs::set_permissions(&packed, std::fs::Permissions::from_mode(0o600)).unwrap();
    complaint(&z4ai(&[&"compress", &input, &"-o", &packed, &"--force"]), 0);
    assert_eq!(mode(&packed), 0o600);
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What a link leads to: a file with this content, outside the folder.
    struct Outside(TempDir);

    impl Outside {
        fn new() -> Self {
            Outside(TempDir::new().unwrap())
        }

        /// A link of this name to a file that is not there yet, or to one that is.
        fn link(&self, name: &Path, exists: bool) {
            let target = self.0.path().join("target");
            let _ = std::fs::remove_file(&target);
            if exists {
                std::fs::write(&target, "precious").unwrap();
            }
            let _ = std::fs::remove_file(name);
            symlink(target, name).unwrap();
        }

        fn assert_untouched(&self, exists: bool) {
            let found = std::fs::read(self.0.path().join("target")).ok();
            assert_eq!(found.as_deref(), exists.then_some(&b"precious"[..]));
        }
    }

    #[test]
    fn names_that_a_command_chooses_are_never_followed() {
        let (folder, outside) = (TempDir::new().unwrap(), Outside::new());
        let input = model(&folder, "model.zt");
        let path = |name: &str| folder.path().join(name);
        complaint(&ztensor(&[&"archive", &input, &"-o", &path("packed.zt.zstn")]), 0);
        complaint(&z4ai(&[&"compress", &input, &"-o", &path("frame.bin.z4ai")]), 0);
        model(&folder, "base.zt");
        let commands: [(&[&str], &str); 8] = [
            (&["ztensor", "archive", "model.zt"], "model.zt.zstn"),
            (&["ztensor", "restore", "packed.zt.zstn"], "packed.zt"),
            (&["ztensor", "convert", "model.zt", "--to", "safetensors"], "model.safetensors"),
            (&["ztensor", "convert", "model.zt", "--to", "safetensors", "-o", "."], "model.safetensors"),
            (&["ztensor", "split", "model.zt"], "model.safetensors.index.json"),
            (&["ztensor", "delta", "make", "model.zt", "--base", "base.zt"], "model.z4dm"),
            (&["z4ai", "compress", "model.zt"], "model.zt.z4ai"),
            (&["z4ai", "decompress", "frame.bin.z4ai"], "frame.bin"),
        ];
        for (words, name) in commands {
            let run = |force: bool| {
                let program = match words[0] {
                    "z4ai" => env!("CARGO_BIN_EXE_z4ai"),
                    _ => env!("CARGO_BIN_EXE_ztensor"),
                };
                let mut command = Command::new(program);
                command.current_dir(folder.path()).args(&words[1..]).args(force.then_some("--force"));
                command.output().unwrap()
            };
            for exists in [false, true] {
                let _ = std::fs::remove_file(path("model-00001-of-00001.safetensors"));
                outside.link(&path(name), exists);
                let text = complaint(&run(false), 2);
                assert!(text.contains("is a symbolic link") && text.contains("--force"), "{words:?}: {text}");
                outside.assert_untouched(exists);
                complaint(&run(true), 0);
                outside.assert_untouched(exists);
                assert!(!path(name).is_symlink() && path(name).is_file(), "{words:?}");
            }
        }
    }

    #[test]
    fn a_name_that_the_user_gives_may_be_a_link() {
        let (folder, outside) = (TempDir::new().unwrap(), Outside::new());
        let (input, output) = (model(&folder, "model.zt"), folder.path().join("output.zt"));
        outside.link(&output, false);
        complaint(&ztensor(&[&"convert", &input, &"-o", &output]), 0);
        assert!(output.is_symlink());
        assert_eq!(ztensor::open(outside.0.path().join("target")).unwrap().len(), 1);
    }

    #[test]
    fn hydrate_writes_into_the_folder_only() {
        let (folder, outside) = (TempDir::new().unwrap(), Outside::new());
        let path = |name: &str| folder.path().join(name);
        let input = model(&folder, "plain.zt");
        complaint(&ztensor(&[&"convert", &input, &"-o", &path("model.safetensors")]), 0);
        complaint(
            &ztensor(&[&"archive", &path("model.safetensors"), &"-o", &path("model.z4ai.safetensors")]),
            0,
        );
        let plain = std::fs::read(path("model.safetensors")).unwrap();
        let index = r#"{"weight_map":{"weight":"model.z4ai.safetensors"}}"#;
        std::fs::write(path("model.safetensors.index.z4ai.json"), index).unwrap();
        for name in ["model.safetensors", "model.safetensors.index.json"] {
            for exists in [false, true] {
                let _ = std::fs::remove_file(path("model.safetensors"));
                let _ = std::fs::remove_file(path("model.safetensors.index.json"));
                outside.link(&path(name), exists);
                let text = complaint(&ztensor(&[&"hydrate", &folder.path()]), 2);
                assert!(text.contains("is a symbolic link"), "{text}");
                outside.assert_untouched(exists);
                complaint(&ztensor(&[&"hydrate", &folder.path(), &"--force"]), 0);
                outside.assert_untouched(exists);
                assert!(!path(name).is_symlink());
                assert_eq!(ztensor::open(path("model.safetensors.index.json")).unwrap().len(), 1);
            }
        }
        // An index that somebody has edited is not replaced in silence; one that is right stays.
        complaint(&ztensor(&[&"hydrate", &folder.path()]), 0);
        std::fs::write(path("model.safetensors.index.json"), "precious").unwrap();
        assert!(complaint(&ztensor(&[&"hydrate", &folder.path()]), 2).contains("exists"));
        assert_eq!(std::fs::read(path("model.safetensors.index.json")).unwrap(), b"precious");
        // A link to the original itself, as caches have them, is as good as the file.
        std::fs::remove_file(path("model.safetensors.index.json")).unwrap();
        std::fs::write(outside.0.path().join("blob"), &plain).unwrap();
        std::fs::remove_file(path("model.safetensors")).unwrap();
        symlink(outside.0.path().join("blob"), path("model.safetensors")).unwrap();
        complaint(&ztensor(&[&"hydrate", &folder.path()]), 0);
        assert!(path("model.safetensors").is_symlink());
    }
}

#[test]
fn names_from_files_stay_on_their_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.zt");
    let mut writer = Writer::create(&path).unwrap();
    let name = "a\nforged: 1 tensor\u{202e}\u{200b}\u{1b}[2J";
    writer.set_attribute("k\ney", "v\u{2067}");
    writer.add(name, &[1], &[1u8]).unwrap();
    writer.finish().unwrap();
    let escaped = r"a\nforged: 1 tensor\u{202e}\u{200b}\u{1b}[2J";
    let shown = |output: &Output| String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap();
    let text = shown(&ztensor(&[&"info", &path]));
    assert!(text.contains(escaped) && text.contains(r"k\ney: v\u{2067}"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");

    let other = model(&folder, "other.zt");
    let text = shown(&ztensor(&[&"diff", &path, &other]));
    assert!(text.contains(escaped), "{text}");
    let text = shown(&ztensor(&[&"cat", &path, &"no\nsuch\u{202e}"]));
    assert!(text.contains(r"no\nsuch\u{202e}"), "{text}");
    let named = folder.path().join("file\nname\u{202e}");
    assert!(shown(&ztensor(&[&"info", &named])).contains(r"file\nname\u{202e}"));

    let text = shown(&ztensor(&[&"info", &path, &"--json"]));
    assert!(text.contains(r#""a\nforged: 1 tensor\u202e\u200b\u001b[2J""#), "{text}");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["result"]["tensors"][0]["name"], name);
}

#[test]
fn limits_are_set_by_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.zt");
    let mut writer = Writer::create(&path).unwrap();
    writer.add_with("weight", &[100_000], &[7u8; 100_000]).compress(Compression::Zstd(3)).write().unwrap();
    writer.finish().unwrap();
    let out = folder.path().join("out.zt");
    let text = complaint(&ztensor(&[&"convert", &path, &"-o", &out, &"--limit", &"decoded=1KiB"]), 2);
    assert!(text.contains("--limit decoded="), "{text}");
    complaint(
        &ztensor(&[&"--limit", &"decoded=1MiB", &"convert", &path, &"-o", &out, &"--limit", &"ratio=none"]),
        0,
    );
    let text = complaint(&ztensor(&[&"info", &path, &"--limit", &"header=10"]), 2);
    assert!(text.contains("--limit header="), "{text}");
    for wrong in ["decoded", "decoded=much", "speed=3"] {
        complaint(&ztensor(&[&"info", &path, &"--limit", &wrong]), 2);
    }
    let frame = folder.path().join("weights.z4ai");
    std::fs::write(&frame, z4ai::compress(&[0; 100_000], &z4ai::Options::default()).unwrap()).unwrap();
    let text = complaint(&z4ai(&[&"decompress", &frame, &"--max-output", &"99999"]), 2);
    assert!(text.contains("--max-output") && !folder.path().join("weights").exists(), "{text}");
    complaint(&z4ai(&[&"decompress", &frame, &"--max-output", &"100kB"]), 0);
}
