//! Folders, bases, lists of digests and the vocabulary of the commands.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

fn run(program: &str, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let program = match program {
        "z4ai" => env!("CARGO_BIN_EXE_z4ai"),
        _ => env!("CARGO_BIN_EXE_ztensor"),
    };
    Command::new(program).args(arguments.iter().map(|argument| argument.as_ref())).output().unwrap()
}

/// Runs a command that must end with an exit code; returns what it printed.
fn expect(code: i32, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    let output = run("ztensor", arguments);
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

fn weights(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 24) as f32 - 0.5
    };
    (0..count).map(|_| 0.05 * (random() + random() + random())).collect()
}

fn safetensors(tensors: &[(&str, &[f32])]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({ "dtype": "F32", "shape": [values.len()], "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = Json::from(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A folder as diffusers lays it out: a sharded model, one in a file, and files that are no models.
fn pipeline(folder: &Path, seed: u32) {
    write(folder, "model_index.json", r#"{"_class_name": "Pipeline"}"#);
    write(folder, "unet/config.json", "{}");
    let (a, b) = (weights(4000, seed), weights(3000, seed + 1));
    write(folder, "unet/m-00001-of-00002.safetensors", safetensors(&[("a", &a)]));
    write(folder, "unet/m-00002-of-00002.safetensors", safetensors(&[("b", &b)]));
    let map = "{\"metadata\": {},\n\"weight_map\":{\"a\":\"m-00001-of-00002.safetensors\" , \"b\": \"m-00002-of-00002.safetensors\"}}";
    write(folder, "unet/m.safetensors.index.json", map);
    write(folder, "vae/model.safetensors", safetensors(&[("c", &weights(2000, seed + 2))]));
}

/// Every file of a folder and what it holds.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for path in ztensor::folder::all_files(folder).unwrap() {
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        found.push((name, std::fs::read(&path).unwrap()));
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    contents(folder).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn dehydrate_and_hydrate_are_inverse() {
    let folder = TempDir::new().unwrap();
    pipeline(folder.path(), 1);
    let before = contents(folder.path());
    expect(0, &[&"dehydrate", &folder.path()]);
    let both = names(folder.path());
    assert!(before.iter().all(|(name, _)| both.contains(name)));
    for name in [
        "unet/m.z4ai-00001-of-00002.safetensors",
        "unet/m.safetensors.index.z4ai.json",
        "vae/model.z4ai.safetensors",
    ] {
        assert!(both.contains(&name.to_owned()), "{name}");
    }
    // Once more finds everything done.
    assert!(expect(0, &[&"dehydrate", &folder.path()]).contains("is there already"));
    assert!(expect(0, &[&"dehydrate", &folder.path(), &"--delete-originals"]).contains("originals deleted"));
    let packed = names(folder.path());
    assert_eq!(packed.len(), before.len());
    assert!(!packed.contains(&"vae/model.safetensors".to_owned()));
    assert!(expect(0, &[&"verify", &folder.path()]).matches("good").count() >= 1);
    expect(0, &[&"hydrate", &folder.path()]);
    expect(0, &[&"hydrate", &folder.path(), &"--delete-archives"]);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn originals_are_kept_when_an_archive_is_wrong() {
    let folder = TempDir::new().unwrap();
    let path = write(folder.path(), "model.safetensors", safetensors(&[("c", &weights(2000, 3))]));
    expect(0, &[&"dehydrate", &folder.path()]);
    let packed = folder.path().join("model.z4ai.safetensors");
    let mut bytes = std::fs::read(&packed).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&packed, bytes).unwrap();
    expect(2, &[&"dehydrate", &folder.path(), &"--delete-originals"]);
    assert!(path.exists());
}

#[test]
fn dehydrate_into_another_folder_takes_everything_along() {
    let (folder, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    pipeline(folder.path(), 1);
    expect(0, &[&"dehydrate", &folder.path(), &"-o", &out.path()]);
    let written = names(out.path());
    assert!(written.contains(&"unet/config.json".to_owned()));
    assert!(!written.contains(&"vae/model.safetensors".to_owned()));
    expect(0, &[&"hydrate", &out.path(), &"--delete-archives"]);
    assert_eq!(contents(out.path()), contents(folder.path()));
}

#[test]
fn hydrate_goes_by_content() {
    let folder = TempDir::new().unwrap();
    let path = write(folder.path(), "deep/model.safetensors", safetensors(&[("c", &weights(2000, 3))]));
    let before = std::fs::read(&path).unwrap();
    expect(0, &[&"archive", &path, &"-o", &path, &"--force"]);
    assert!(expect(2, &[&"hydrate", &folder.path()]).contains("--delete-archives"));
    expect(0, &[&"hydrate", &folder.path(), &"--delete-archives"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn commands_take_folders() {
    let folder = TempDir::new().unwrap();
    pipeline(folder.path(), 1);
    let text = expect(0, &[&"info", &folder.path()]);
    assert!(text.contains("unet/m.safetensors.index.json:") && text.contains("vae/model.safetensors:"));
    let text = expect(0, &[&"info", &folder.path(), &"--json"]);
    let document: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(document["result"]["models"][1]["name"], "vae/model.safetensors");
    let text = expect(0, &[&"verify", &folder.path()]);
    assert_eq!(text.matches("nothing stored to check it against").count(), 2);
    assert!(expect(0, &[&"scan", &folder.path()]).contains("vae/model.safetensors: safe"));
    write(folder.path(), "evil/optimizer.pt", b"cos\nsystem\n(S'true'\ntR.");
    expect(1, &[&"scan", &folder.path()]);
    std::fs::remove_dir_all(folder.path().join("evil")).unwrap();
    assert!(expect(2, &[&"scan", &TempDir::new().unwrap().path()]).contains("there is no file in"));
    let out = TempDir::new().unwrap();
    expect(0, &[&"convert", &folder.path(), &"-o", &out.path()]);
    assert_eq!(names(out.path()), ["unet/m.zt", "vae/model.zt"]);
    // What was converted is compared with what it was made from.
    let text = expect(0, &[&"diff", &folder.path(), &out.path()]);
    assert_eq!(text.matches(" identical, 0 changed, 0 added, 0 removed").count(), 2, "{text}");
    std::fs::copy(out.path().join("vae/model.zt"), out.path().join("vae/model.pt")).unwrap();
    let text = expect(1, &[&"diff", &folder.path(), &out.path()]);
    assert!(text.contains("- ") && text.matches("\n+ ").count() == 2, "{text}");
    std::fs::remove_file(out.path().join("vae/model.pt")).unwrap();
    let archives = TempDir::new().unwrap();
    expect(0, &[&"archive", &folder.path(), &"-o", &archives.path()]);
    assert_eq!(names(archives.path()), ["unet/m.safetensors.zstn", "vae/model.safetensors.zstn"]);
    // The name of an archive is not taken for that of a folder.
    let one = archives.path().join("one.zstn");
    assert!(expect(2, &[&"archive", &folder.path(), &"-o", &one]).contains("several models; name a folder"));
    expect(0, &[&"archive", &folder.path().join("unet"), &"-o", &one]);
    assert!(one.is_file());
    std::fs::remove_file(one).unwrap();
    let restored = TempDir::new().unwrap();
    expect(0, &[&"restore", &archives.path(), &"-o", &restored.path()]);
    let weights = |folder: &Path| {
        let all = contents(folder).into_iter();
        all.filter(|(name, _)| name.contains("safetensors")).collect::<Vec<_>>()
    };
    assert_eq!(weights(restored.path()), weights(folder.path()));
    assert!(expect(0, &[&"restore", &archives.path(), &"-o", &restored.path()]).contains("is there already"));
    assert!(expect(0, &[&"diff", &folder.path(), &restored.path()]).contains("2 identical"));
    write(restored.path(), "vae/model.safetensors", safetensors(&[("c", &weights_of(7))]));
    let text = expect(1, &[&"diff", &folder.path(), &restored.path()]);
    assert!(text.contains("1 changed") && text.contains("2 identical"), "{text}");
    assert!(expect(2, &[&"restore", &archives.path(), &"-o", &restored.path()]).contains("--force"));
    assert!(
        expect(2, &[&"delta", &"make", &folder.path(), &"--base", &restored.path()]).contains("2 models")
    );
}

fn weights_of(seed: u32) -> Vec<f32> {
    weights(2000, seed)
}

#[test]
fn a_run_of_checkpoints_as_deltas_of_folders() {
    let folder = TempDir::new().unwrap();
    let step = |number: u32| {
        let path = folder.path().join(format!("step-{number}"));
        let mut values = weights(6000, 1);
        values.iter_mut().step_by(7).for_each(|value| *value *= 1.0 + 0.00001 * number as f32);
        let other: Vec<f32> = weights(3000, 2);
        write(&path, "m-00001-of-00002.safetensors", safetensors(&[("a", &values)]));
        write(&path, "m-00002-of-00002.safetensors", safetensors(&[("b", &other)]));
        let map = r#"{"weight_map":{"a":"m-00001-of-00002.safetensors","b":"m-00002-of-00002.safetensors"}}"#;
        write(&path, "m.safetensors.index.json", map);
        path
    };
    let steps: Vec<PathBuf> = (0..4).map(step).collect();
    let originals = contents(&steps[3]);
    for pair in steps.windows(2) {
        expect(0, &[&"delta", &"make", &pair[1], &"--base", &pair[0]]);
    }
    expect(0, &[&"archive", &steps[0]]);
    for step in &steps {
        std::fs::remove_dir_all(step).ok();
    }
    pipeline(&folder.path().join("other"), 9);
    assert!(expect(2, &[&"info", &folder.path().join("step-3.z4dm")]).contains("missing"));
    // The first step was archived in its own folder, which is gone with it.
    let steps: Vec<PathBuf> = (0..4).map(step).collect();
    let archives = folder.path().join("archives");
    expect(0, &[&"archive", &steps[0], &"-o", &archives]);
    steps.iter().for_each(|step| std::fs::remove_dir_all(step).unwrap());
    let last = folder.path().join("step-3.z4dm");
    assert!(expect(0, &[&"info", &last, &"--base", &archives]).contains("in 3 files"));
    assert!(expect(0, &[&"verify", &last, &"--base", &archives]).contains("good"));
    std::fs::rename(archives.join("m.safetensors.zstn"), folder.path().join("first.zstn")).unwrap();
    let tree = expect(0, &[&"delta", &"log", &folder.path()]);
    for line in ["first.zstn", "└─ step-1.z4dm", "   └─ step-2.z4dm", "      └─ step-3.z4dm"] {
        assert!(tree.lines().any(|found| found.starts_with(line)), "{tree}");
    }
    expect(0, &[&"delta", &"rebase", &last]);
    std::fs::remove_file(folder.path().join("step-2.z4dm")).unwrap();
    let out = folder.path().join("out");
    expect(0, &[&"restore", &last, &"-o", &out]);
    assert_eq!(contents(&out), originals);
    assert!(expect(0, &[&"delta", &"apply", &last, &"-o", &out]).contains("is there already"));
    std::fs::remove_file(folder.path().join("step-1.z4dm")).unwrap();
    let tree = expect(0, &[&"delta", &"log", &folder.path()]);
    assert!(tree.contains("(missing: "), "{tree}");
    let complaint = expect(2, &[&"verify", &last]);
    assert!(complaint.contains("missing") && !complaint.contains("damaged"), "{complaint}");
}

#[test]
fn lists_of_digests_are_those_of_sha256sum() {
    let folder = TempDir::new().unwrap();
    pipeline(folder.path(), 1);
    let list = folder.path().join("model.sha256");
    expect(0, &[&"manifest", &folder.path(), &"-o", &list]);
    assert!(expect(0, &[&"verify", &"--manifest", &list]).lines().all(|line| line.contains("good")));
    let path = folder.path().join("vae/model.safetensors");
    let text = std::fs::read_to_string(&list).unwrap();
    let digest =
        text.lines().find_map(|line| line.strip_suffix("  vae/model.safetensors")).unwrap().to_owned();
    if let Ok(theirs) = Command::new("sha256sum").arg("-c").arg(&list).current_dir(folder.path()).output() {
        assert!(theirs.status.success());
    }
    assert!(expect(0, &[&"verify", &path, &"--sha256", &digest.to_uppercase()]).contains("good"));
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    // The file itself has nothing to tell by.
    assert!(expect(0, &[&"verify", &path]).contains("nothing stored to check it against"));
    expect(1, &[&"verify", &path, &"--sha256", &digest]);
    assert!(expect(1, &[&"verify", &"--manifest", &list]).contains("changed"));
    expect(2, &[&"verify", &path, &"--sha256", &"abc"]);
}

#[test]
fn one_vocabulary() {
    let folder = TempDir::new().unwrap();
    let path = write(folder.path(), "model.safetensors", safetensors(&[("c", &weights(9000, 3))]));
    let encoding = |options: &[&str]| {
        let out = folder.path().join("out.zt");
        let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> =
            vec![&"convert", &path, &"-o", &out, &"--force"];
        arguments.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
        expect(0, &arguments);
        let reader = ztensor::open(&out).unwrap();
        reader.object("c").unwrap().component("data").unwrap().data.encoding_name().to_owned()
    };
    assert_eq!(encoding(&[]), "raw");
    for options in [
        &["--compress"][..],
        &["--codec", "z4ai"],
        &["--effort", "max"],
        &["--codec", "fast"],
        &["--codec", "z4ai", "--effort", "fast"],
    ] {
        assert_eq!(encoding(options), "z4ai", "{options:?}");
    }
    for options in [&["--codec", "zstd"][..], &["--level", "9"], &["--codec", "zstd", "--level", "1"]] {
        assert_eq!(encoding(options), "zstd", "{options:?}");
    }
    expect(2, &[&"convert", &path, &"--codec", &"z4ai", &"--level", &"9"]);
    expect(2, &[&"convert", &path, &"--codec", &"zstd", &"--effort", &"max"]);
    // z4ai unless something else is asked for; what a name cannot hold is refused.
    let out = folder.path().join("packed.zt");
    expect(0, &[&"compress", &path, &"-o", &out]);
    let reader = ztensor::open(&out).unwrap();
    assert_eq!(reader.object("c").unwrap().component("data").unwrap().data.encoding_name(), "z4ai");
    let plain = folder.path().join("b.safetensors");
    assert!(expect(2, &[&"compress", &path, &"-o", &plain]).contains("ztensor archive"));
    expect(2, &[&"convert", &path, &"-o", &plain, &"--codec", &"zstd"]);
    expect(2, &[&"convert", &path, &"-o", &plain, &"--checksum", &"crc32c"]);
    assert!(!plain.exists());
    expect(0, &[&"decompress", &out, &"-o", &plain]);
}

#[test]
fn bytes_that_are_there_already_are_no_obstacle() {
    let folder = TempDir::new().unwrap();
    let path = write(folder.path(), "weights.bin", safetensors(&[("c", &weights(9000, 3))]));
    let packed = folder.path().join("weights.z4ai");
    let said = |arguments: &[&dyn AsRef<std::ffi::OsStr>], code| {
        let output = run("z4ai", arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    };
    let text = said(&[&"compress", &path, &"-o", &packed], 0);
    assert!(
        text.contains("is a safetensors file")
            && text.contains("ztensor archive")
            && text.contains("about 1."),
        "{text}"
    );
    assert!(said(&[&"decompress", &packed, &"-o", &path], 0).contains("is there already"));
    assert!(said(&[&"compress", &path, &"-o", &packed], 0).contains("is there already"));
    let original = std::fs::read(&path).unwrap();
    for other in [&original[..original.len() - 1], &[&original[..], b"x"].concat(), b"precious"] {
        std::fs::write(&path, other).unwrap();
        assert!(said(&[&"decompress", &packed, &"-o", &path], 2).contains("--force"));
        assert_eq!(std::fs::read(&path).unwrap(), other);
    }
    said(&[&"decompress", &packed, &"-o", &path, &"--force"], 0);
    assert_eq!(std::fs::read(&path).unwrap(), original);
}
