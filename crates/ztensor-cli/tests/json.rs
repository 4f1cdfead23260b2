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
}
