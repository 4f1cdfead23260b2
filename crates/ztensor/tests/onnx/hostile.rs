//! What wrong models do: an error, never a panic, and no memory or time out of proportion.

use std::time::{Duration, Instant};

use ztensor::{Kind, Reader, Result};

use crate::builder::*;
use crate::corpus::{everything, nested, raw_types, typed_fields};

fn read_all(bytes: Vec<u8>) -> Result<()> {
    let reader = Reader::from_bytes(bytes)?;
    for (name, object) in reader.objects() {
        for (role, _) in &object.components {
            reader.component_bytes(name, role)?;
        }
    }
    Ok(())
}

/// The same through a path, where the extension makes the parser run on anything.
fn read_file(folder: &tempfile::TempDir, bytes: &[u8]) -> Result<()> {
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    Reader::open(&path).map(drop)
}

#[test]
fn every_truncation_ends_in_a_result() {
    let folder = tempfile::tempdir().unwrap();
    for file in [raw_types(), typed_fields(), everything()] {
        for length in 0..file.len() {
            // Whole fields at the end may be missing without an error: protobuf has no end mark.
            let _ = read_all(file[..length].to_vec());
            let _ = read_file(&folder, &file[..length]);
        }
    }
}

#[test]
fn a_model_that_was_cut_off_is_named_as_truncated() {
    let file = model_of(&[raw("weight", 2, &[4000], &[7; 4000])]);
    for length in [60, 2000, 4000] {
        assert_eq!(read_all(file[..length].to_vec()).unwrap_err().kind(), Kind::Truncated, "{length}");
    }
}

#[test]
fn every_flipped_byte_ends_in_a_result() {
    for file in [raw_types(), typed_fields(), everything()] {
        for position in 0..file.len() {
            for mask in [0xFF, 0x01, 0x80, 0x08] {
                let mut changed = file.clone();
                changed[position] ^= mask;
                // Many flips leave a legal model; what counts is that nothing panics.
                let _ = read_all(changed);
            }
        }
    }
}

#[test]
fn nesting_is_bounded() {
    assert!(read_all(nested(60)).is_ok());
    assert_eq!(read_all(nested(100)).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn a_long_path_around_many_tensors_does_not_multiply() {
    let empty = node("Constant", "", &Message::new().bytes(1, "value_int"));
    let inner = (0..20_000).fold(Message::new(), |graph, _| graph.message(1, &empty));
    let branch = Message::new().bytes(1, "x".repeat(400_000)).message(6, &inner);
    let bytes = model(&Message::new().message(1, &node("If", "y", &branch))).build();
    let started = Instant::now();
    assert_eq!(read_all(bytes).unwrap_err().kind(), Kind::Limit);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn many_small_fields_cost_no_more_than_their_size() {
    // Two bytes each: attributes of one node, dimensions of one tensor, graphs of one attribute.
    let attributes = (0..500_000)
        .fold(Message::new().bytes(2, "y".repeat(100_000)).bytes(4, "Constant"), |node, _| node.bytes(5, []));
    let dimensions = tensor("a", 2, &vec![1; 64]).bytes(9, [1]);
    let graphs = (0..500_000).fold(Message::new().bytes(1, "g"), |attribute, _| attribute.bytes(11, []));
    let graph =
        Message::new().message(1, &attributes).message(5, &dimensions).message(1, &node("If", "z", &graphs));
    let started = Instant::now();
    let reader = Reader::from_bytes(model(&graph).build()).unwrap();
    assert_eq!(reader.len(), 1);
    let dimensions = tensor("a", 2, &vec![1; 500_000]).bytes(9, [1]);
    let error = Reader::from_bytes(model(&Message::new().message(5, &dimensions)).build()).unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[cfg(unix)]
#[test]
fn symbolic_links_may_not_lead_out() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), [0; 4]).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("weights.bin")).unwrap();
    let error =
        read_file(&folder, &model_of(&[external("a", &[1], &[("location", "weights.bin")])])).unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
    assert!(error.message().contains("leads out"), "{error}");
}

#[test]
fn unknown_types_spoil_one_tensor_only() {
    let odd = [
        raw("later", 99, &[1], &[1]),
        tensor("text", 8, &[1]).bytes(6, "hello"),
        tensor("undefined", 0, &[1]),
        three_floats("segment").message(3, &Message::new().varint(1, 0)),
    ];
    let reader = Reader::from_bytes(model_of(&[odd.as_slice(), &[three_floats("good")]].concat())).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["good"]);
    let skipped: Vec<&str> = reader.skipped().iter().map(|skipped| skipped.name.as_str()).collect();
    assert_eq!(skipped, ["later", "text", "undefined", "segment"]);
}
