//! Golden frames: `conformance/versions/<version>/z4ai/` has a frame of every model and of every form that
//! was ever written; they decode to the same bytes forever. Beside that, encoders write the same frames as
//! before unless somebody decides otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cases;

use cases::{Case, forms, handmade};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_128;

/// The folder of this release. Frames are added with `Z4AI_WRITE_GOLDEN` set, never changed.
fn folder(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/versions").join(version).join("z4ai")
}

fn digest(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

fn encode(case: &Case, reference: Option<&[u8]>) -> Vec<u8> {
    if case.streamed {
        let mut encoder = z4ai::Encoder::new(Vec::new(), case.options.clone()).unwrap();
        encoder.write_all(&case.bytes).unwrap();
        return encoder.finish().unwrap();
    }
    match reference {
        Some(reference) => z4ai::compress_delta(&case.bytes, reference, &case.options).unwrap(),
        None => z4ai::compress(&case.bytes, &case.options).unwrap(),
    }
}

/// Every case with the frame that the encoder makes of it.
fn encoded() -> Vec<(Case, Vec<u8>)> {
    let cases = cases::all();
    let bytes: BTreeMap<String, Vec<u8>> =
        cases.iter().map(|case| (case.name.clone(), case.bytes.clone())).collect();
    let frames = cases.into_iter().map(|case| {
        let reference = case.against.as_ref().map(|name| &bytes[name][..]);
        let frame = encode(&case, reference);
        (case, frame)
    });
    frames.collect()
}

#[test]
fn golden_frames_decode_to_the_same_bytes() {
    let mut checked = 0;
    for version in folder("").parent().unwrap().read_dir().unwrap() {
        let folder = version.unwrap().path().join("z4ai");
        let Ok(lines) = std::fs::read_to_string(folder.join("digests.tsv")) else { continue };
        let mut decoded: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for line in lines.lines() {
            let [name, against, expected] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let frame = std::fs::read(folder.join(format!("{name}.z4ai"))).unwrap();
            let bytes = match decoded.get(against) {
                Some(reference) => {
                    z4ai::Frame::open(&frame).and_then(|frame| frame.against(reference)?.read())
                }
                None => z4ai::decompress(&frame),
            };
            let bytes = bytes.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(digest(&bytes), expected, "{name}");
            decoded.insert(name.to_owned(), bytes);
            checked += 1;
        }
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn encoders_write_the_same_frames_as_before() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/encoded.tsv");
    let frames = encoded();
    let lines: String = frames
        .iter()
        .map(|(case, frame)| format!("{}\t{}\t{}\n", case.name, frame.len(), digest(frame)))
        .collect();
    if std::env::var_os("Z4AI_WRITE_ENCODED").is_some() {
        std::fs::write(&list, &lines).unwrap();
    }
    let expected = std::fs::read_to_string(&list).unwrap();
    let changed: Vec<(&str, &str)> =
        expected.lines().zip(lines.lines()).filter(|(before, now)| before != now).collect();
    assert!(
        changed.is_empty() && expected.lines().count() == frames.len(),
        "encoders write other frames (if that is what you want: Z4AI_WRITE_ENCODED=1): {changed:#?}"
    );
}

#[test]
fn frames_made_by_hand_decode() {
    for made in handmade::all() {
        let bytes = z4ai::decompress(&made.frame).unwrap_or_else(|error| panic!("{}: {error}", made.name));
        assert!(bytes == made.bytes, "{}", made.name);
    }
}

#[test]
fn every_form_has_a_golden_frame() {
    let folder = folder("0.1.0");
    if std::env::var_os("Z4AI_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        let mut digests = String::new();
        for (case, frame) in encoded() {
            let path = folder.join(format!("{}.z4ai", case.name));
            if !path.exists() {
                std::fs::write(path, frame).unwrap();
            }
            let against = case.against.unwrap_or_default();
            digests += &format!("{}\t{against}\t{}\n", case.name, digest(&case.bytes));
        }
        for made in handmade::all() {
            let path = folder.join(format!("handmade-{}.z4ai", made.name));
            if !path.exists() {
                std::fs::write(path, made.frame).unwrap();
            }
            digests += &format!("handmade-{}\t\t{}\n", made.name, digest(&made.bytes));
        }
        std::fs::write(folder.join("digests.tsv"), digests).unwrap();
    }
    let mut found = BTreeSet::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "z4ai") {
            found.extend(forms::of(&std::fs::read(path).unwrap()));
        }
    }
    let expected = include_str!("cases/forms.txt").lines().map(str::to_owned);
    let missing: Vec<String> = expected.filter(|form| !found.contains(form)).collect();
    assert!(missing.is_empty(), "no golden frame has {missing:#?}; there are {found:#?}");
}
