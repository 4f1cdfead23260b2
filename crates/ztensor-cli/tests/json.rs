//! The envelope around everything that `--json` prints; `docs/json.md` describes it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

fn run(program: &str, words: &[&str], code: i32) -> Json {
    let output = Command::new(program).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["version"], 1, "{document}");
    assert_ne!(document.get("result").is_some(), document.get("error").is_some(), "{document}");
    document
}

fn ztensor(words: &[&str], code: i32) -> Json {
    run(env!("CARGO_BIN_EXE_ztensor"), words, code)
}

fn model(folder: &TempDir) -> String {
    let path = folder.path().join("model.zt");
    let mut writer = ztensor::Writer::create(&path).unwrap();
    writer.add("weight", &[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    writer.finish().unwrap();
    path.display().to_string()
}

#[test]
fn results_and_errors_of_every_command_come_in_one_envelope() {
    let folder = TempDir::new().unwrap();
    let model = model(&folder);
    let calls: &[(&[&str], &str)] = &[
        (&["info", "--json", &model], "ztensor info"),
        (&["verify", "--json", &model], "ztensor verify"),
        (&["diff", "--json", &model, &model], "ztensor diff"),
        (&["archive", "--json", &model], "ztensor archive"),
    ];
    for (words, command) in calls {
        assert_eq!(ztensor(words, 0)["command"], *command);
    }
    let error = ztensor(&["info", "--json", "/no/such/file"], 2);
    assert_eq!(error["command"], "ztensor info");
    assert_eq!(error["error"]["kind"], "not_found");
    assert_eq!(error["error"]["path"], "/no/such/file");
    let error = run(env!("CARGO_BIN_EXE_z4ai"), &["info", "--json", &model], 2);
    assert_eq!(error["command"], "z4ai info");
    let error = ztensor(&["delta", "info", "--json", &model], 2);
    assert_eq!(error["command"], "ztensor delta info");
    assert!(error["error"]["hint"].as_str().unwrap().contains("`ztensor archive`"), "{error}");
}

/// A path in the folder as text.
fn inside(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn commands_that_write_say_what_they_wrote() {
    let folder = TempDir::new().unwrap();
    let model = model(&folder);
    let other = inside(&folder, "other.zt");
    let mut writer = ztensor::Writer::create(&other).unwrap();
    writer.add("bias", &[4], &[0.5f32; 4]).unwrap();
    writer.finish().unwrap();
    let [small, plain, new, joined, shards] =
        ["small.zt", "plain.zt", "new.zt", "joined.zt", "shards"].map(|name| inside(&folder, name));
    for (words, output) in [
        (["compress", &model, "-o", &small], &small),
        (["decompress", &small, "-o", &plain], &plain),
        (["migrate", &plain, "-o", &new], &new),
    ] {
        let document = ztensor(&[&words[..], &["--json"]].concat(), 0);
        assert_eq!(document["command"], format!("ztensor {}", words[0]));
        let result = &document["result"];
        assert_eq!(result["path"], words[1]);
        assert_eq!(result["output"], **output);
        assert_eq!(result["output_bytes"], std::fs::metadata(output).unwrap().len());
        assert_eq!((&result["tensors"], &result["skipped"]), (&json!(1), &json!([])));
    }
    let result = &ztensor(&["merge", "--json", &model, &other, "-o", &joined], 0)["result"];
    assert_eq!(result["paths"], json!([model, other]));
    assert_eq!((&result["output"], &result["tensors"]), (&json!(joined), &json!(2)));
    let result = &ztensor(&["split", "--json", &joined, "-o", &shards, "--max-size", "20"], 0)["result"];
    assert_eq!((&result["bytes"], &result["tensors"]), (&json!(40), &json!(2)));
    for shard in result["shards"].as_array().unwrap() {
        ztensor::open(shard.as_str().unwrap()).unwrap();
    }
    assert_eq!(ztensor::open(result["index"].as_str().unwrap()).unwrap().len(), 2);
    let result = &ztensor(&["append", "--json", &model, &other], 0)["result"];
    assert_eq!((&result["path"], &result["added"]), (&json!(model), &json!(1)));
    let result = &ztensor(&["remove", "--json", &model, "bias"], 0)["result"];
    assert_eq!((&result["output"], &result["removed"]), (&json!(model), &json!(1)));
    let result = &ztensor(&["repair", "--json", &model], 0)["result"];
    assert_eq!(*result, json!({ "path": model, "removed_bytes": 0, "tensors": 1 }));
    let error = ztensor(&["compress", "--json", &model, "-o", &small], 2);
    assert_eq!(error["error"]["kind"], "invalid_argument");
}

#[test]
fn commands_that_archive_and_restore_say_what_they_wrote() {
    let folder = TempDir::new().unwrap();
    let plain = inside(&folder, "model.safetensors");
    ztensor(&["convert", "--json", &model(&folder), "-o", &plain], 0);
    std::fs::remove_file(inside(&folder, "model.zt")).unwrap();
    let original = std::fs::read(&plain).unwrap();
    let result = &ztensor(&["dehydrate", "--json", "--delete-original", &inside(&folder, "")], 0)["result"];
    let archive = inside(&folder, "model.z4ai.safetensors");
    assert_eq!(result["archives"][0]["output"], archive);
    assert_eq!((&result["kept"], &result["deleted"]), (&json!([]), &json!(true)));
    let result = &ztensor(&["hydrate", "--json", &inside(&folder, "")], 0)["result"];
    let restored = &result["restored"][0];
    assert_eq!((&restored["path"], &restored["output"]), (&json!(archive), &json!(plain)));
    assert_eq!((&restored["bytes"], &restored["unchanged"]), (&json!(original.len()), &json!(false)));
    assert_eq!(std::fs::read(&plain).unwrap(), original);
    for command in [&["restore"][..], &["delta", "apply"]] {
        let words = [command, &["--json", &archive]].concat();
        let document = ztensor(&words, 0);
        assert_eq!(document["command"], format!("ztensor {}", command.join(" ")));
        assert_eq!(document["result"][0]["unchanged"], true, "{document}");
        assert_eq!(document["result"][0]["files"], json!([plain]));
    }
}

fn z4ai(words: &[&str], code: i32) -> Json {
    run(env!("CARGO_BIN_EXE_z4ai"), words, code)
}

#[test]
fn the_codec_says_what_it_wrote() {
    let folder = TempDir::new().unwrap();
    let [old, new] = ["old.bin", "new.bin"].map(|name| inside(&folder, name));
    let weights: Vec<u8> = (0..20_000u32).flat_map(|number| (number as f32).sin().to_le_bytes()).collect();
    std::fs::write(&old, &weights).unwrap();
    std::fs::write(&new, [&weights[..], &[0; 8]].concat()).unwrap();
    let [small, delta, plain] = ["small.z4ai", "delta.z4ai", "plain.bin"].map(|name| inside(&folder, name));
    for (words, output) in [
        (&["compress", &*old, "--dtype", "fp32"][..], &small),
        (&["delta", &new, "--reference", &old, "--dtype", "fp32"], &delta),
    ] {
        for unchanged in [false, true] {
            let document = z4ai(&[words, &["-o", output, "--json"]].concat(), 0);
            assert_eq!(document["command"], format!("z4ai {}", words[0]));
            let (bytes, stored) =
                [words[1], output].map(|path| std::fs::metadata(path).unwrap().len()).into();
            let expected = json!({
                "path": words[1], "output": output, "bytes": bytes, "stored_bytes": stored,
                "ratio": bytes as f64 / stored as f64, "unchanged": unchanged,
            });
            assert_eq!(document["result"], expected);
        }
    }
    for (words, original) in
        [(&["decompress", &*small][..], &old), (&["apply", &delta, "--reference", &old], &new)]
    {
        for unchanged in [false, true] {
            let document = z4ai(&[words, &["-o", &plain, "--json"]].concat(), 0);
            assert_eq!(document["command"], format!("z4ai {}", words[0]));
            let bytes = std::fs::metadata(original).unwrap().len();
            let expected =
                json!({ "path": words[1], "output": plain, "bytes": bytes, "unchanged": unchanged });
            assert_eq!(document["result"], expected);
        }
        assert_eq!(std::fs::read(&plain).unwrap(), std::fs::read(original).unwrap());
        std::fs::remove_file(&plain).unwrap();
    }
    for (words, kind, path) in [
        (&["compress", "--json", "/no/such/file"][..], "not_found", json!("/no/such/file")),
        (&["decompress", "--json", &old, "-o", &plain], "not_a_frame", json!(old)),
        (&["apply", "--json", &delta, "--reference", &new, "-o", &plain], "wrong_reference", json!(new)),
        // Two documents do not fit on one standard output.
        (&["decompress", "--json", &small, "-o", "-"], "invalid_argument", json!(null)),
    ] {
        let error = &z4ai(words, 2)["error"];
        assert_eq!((&error["kind"], &error["path"]), (&json!(kind), &path), "{error}");
    }
    let mut damaged = std::fs::read(&small).unwrap();
    damaged.truncate(damaged.len() - 100);
    std::fs::write(&small, damaged).unwrap();
    let error = &z4ai(&["decompress", "--json", &small, "-o", &plain], 2)["error"];
    assert_eq!((&error["kind"], &error["path"]), (&json!("truncated"), &json!(small)), "{error}");
    assert!(!std::path::Path::new(&plain).exists());
}

#[test]
fn a_file_that_fails_among_others_is_described_like_a_failed_command() {
    let folder = TempDir::new().unwrap();
    let model = model(&folder);
    let document = ztensor(&["verify", "--json", &model, "/no/such/file"], 2);
    let files = document["result"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    assert_eq!(files[1]["error"]["kind"], "not_found");
    assert!(files[1]["error"]["message"].is_string(), "{document}");
}

#[test]
fn arguments_that_are_not_understood_are_an_error_in_the_envelope() {
    let document = ztensor(&["info", "--json", "--nonsense"], 2);
    assert_eq!(document["command"], "ztensor info");
    assert_eq!(document["error"]["kind"], "usage");
    assert!(document["error"]["message"].as_str().unwrap().contains("--nonsense"));
    assert_eq!(document["error"]["path"], json!(null));
    // A command below another one is named as it is where it runs, also by its alias.
    for (words, command) in [
        (&["store", "get", "x", "--json"][..], "ztensor store get"),
        (&["store", "ls", "--json", "--nonsense"], "ztensor store list"),
        (&["delta", "make", "--json"], "ztensor delta make"),
    ] {
        assert_eq!(ztensor(words, 2)["command"], command);
    }
    assert_eq!(ztensor(&["delta", "log", "/no/such/folder", "--json"], 2)["error"]["kind"], "not_found");
}
