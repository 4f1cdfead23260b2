//! Frames that break a rule of `spec/z4ai.md`, as code: each file of `conformance/reject/z4ai/` is what its
//! entry here makes, and is refused with the kind and the words that its entry gives. With
//! `Z4AI_WRITE_GOLDEN` set, missing files are written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use z4ai::ErrorKind::{self, ChecksumMismatch, Corrupt, NotAFrame, Truncated, UnsupportedVersion};

/// Codes of dtypes.
const NONE: u8 = 0;
const BF16: u8 = 1;
const F32: u8 = 3;
const F64: u8 = 4;
const I16: u8 = 9;

/// A rule that a frame breaks: the file's name, the frame, the kind of the error and a part of its message.
type Rule = (&'static str, Vec<u8>, ErrorKind, &'static str);

fn sum(bytes: &[u8]) -> [u8; 8] {
    twox_hash::XxHash3_64::oneshot(bytes).to_le_bytes()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A header with these flags (beside the default effort), dtype and fields.
fn header(flags: u8, dtype: u8, fields: &[u8]) -> Vec<u8> {
    let mut bytes = [&b"Z4AI\x02"[..], &[flags | 0x10, dtype], fields].concat();
    let sum = sum(&bytes);
    bytes.extend_from_slice(&sum[..2]);
    bytes
}

/// A frame of one section in the short form.
fn short(dtype: u8, length: u64, model: &[u8], block: &[u8]) -> Vec<u8> {
    let mut frame = header(1, dtype, &varint(length));
    frame.push(0);
    frame.extend(varint(model.len() as u64));
    frame.extend(varint(block.len() as u64));
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(model);
    frame.extend_from_slice(block);
    frame
}

/// A frame without a length with one section in the long form, of these fields before its checksum.
fn long(fields: &[u8], rest: &[u8]) -> Vec<u8> {
    [&header(0, NONE, &[])[..], fields, &sum(fields)[..4], rest].concat()
}

fn header_rules() -> Vec<Rule> {
    let valid = short(NONE, 4, &[1], &[1, 1, 2, 3, 4]);
    let mut flipped = valid.clone();
    flipped[8] ^= 1;
    let shape = |sizes: &[u64]| -> Vec<u8> {
        varint(sizes.len() as u64).into_iter().chain(sizes.iter().flat_map(|&size| varint(size))).collect()
    };
    vec![
        ("magic-unknown", b"Z4AJ\x02\x11\0\0".to_vec(), NotAFrame, "does not begin"),
        ("version-1", b"Z4AI\x01\0\x02\0".to_vec(), UnsupportedVersion, "version 1"),
        ("version-unknown", b"Z4AI\x09\x11\0\0".to_vec(), UnsupportedVersion, "version 9"),
        ("header-truncated", valid[..6].to_vec(), Truncated, "ends inside"),
        ("header-checksum-wrong", flipped, ChecksumMismatch, "header's checksum"),
        ("effort-unknown", header(0xe1, NONE, &[0]), Corrupt, "effort"),
        ("dtype-unknown", header(1, 99, &[0]), Corrupt, "dtype code 99"),
        ("varint-longer-than-needed", header(1, NONE, &[0x84, 0]), Corrupt, "shortest"),
        ("varint-overflows", header(1, NONE, &[0xff; 10]), Corrupt, "shortest"),
        ("shape-of-65-dimensions", header(3, F32, &shape(&[1; 65])), Corrupt, "65 dimensions"),
        ("shape-overflows", header(3, F32, &shape(&[1 << 40, 1 << 40])), Corrupt, "shape"),
        ("numpy-dtype-not-utf8", header(5, NONE, &[0, 2, 0xff, 0xfe]), Corrupt, "UTF-8"),
    ]
}

fn section_rules() -> Vec<Rule> {
    let valid = short(NONE, 4, &[1], &[1, 1, 2, 3, 4]);
    let block = |payload: &[u8]| [&varint(payload.len() as u64)[..], &[0; 4]].concat();
    let section = |length: u64, block_length: u64, table: &[u8]| {
        [&varint(length << 1)[..], &varint(block_length), &[1], table, &[1]].concat()
    };
    let one = section(4, 0, &block(&[1, 1, 2, 3, 4]));
    let copies = |copies: &[[u64; 3]]| {
        let fields: Vec<u8> = copies.iter().flatten().flat_map(|&field| varint(field)).collect();
        let table = block(&[1, 1, 2, 3, 4]);
        [&varint(8 << 1 | 1)[..], &varint(copies.len() as u64), &fields, &[0, 1], &table, &[1]].concat()
    };
    let mut wrong_sum = long(&one, &[1, 1, 2, 3, 4, 0]);
    wrong_sum[12] ^= 1;
    vec![
        ("section-empty", short(NONE, 0, &[1], &[1]), Corrupt, "after"),
        ("section-too-long", short(NONE, (1 << 28) + 1, &[1], &[1]), Corrupt, "limits"),
        ("section-longer-than-its-data", short(NONE, 4, &[1], &[1; 5000]), Corrupt, "longer than its own"),
        ("section-checksum-wrong", wrong_sum, ChecksumMismatch, "section header's checksum"),
        ("section-truncated", valid[..valid.len() - 1].to_vec(), Truncated, "ends inside"),
        (
            "block-length-out-of-range",
            long(&section(4, 4, &block(&[1, 1, 2, 3, 4])), &[1, 1, 2, 3, 4, 0]),
            Corrupt,
            "block length",
        ),
        ("block-table-truncated", long(&section(1 << 20, 1, &[]), &[]), Truncated, "block table"),
        ("block-missing", long(&one, &[1, 1, 2]), Truncated, "ends inside"),
        ("copies-none", long(&copies(&[]), &[1, 1, 2, 3, 4, 0]), Truncated, "copies"),
        ("copy-empty", long(&copies(&[[0, 0, 0]]), &[1, 1, 2, 3, 4, 0]), Corrupt, "copy outside"),
        ("copy-outside", long(&copies(&[[4, 4, 1]]), &[1, 1, 2, 3, 4, 0]), Corrupt, "copy outside"),
        ("copies-of-nothing", long(&copies(&[[0, 8, 0]]), &[1, 1, 2, 3, 4, 0]), Corrupt, "copy outside"),
        (
            "copies-longer-than-data",
            long(&copies(&[[0, 9, 0]]), &[1, 1, 2, 3, 4, 0]),
            Corrupt,
            "copy outside",
        ),
        ("end-missing", long(&one, &[1, 1, 2, 3, 4]), Truncated, "ends inside"),
        ("bytes-after-the-end", long(&one, &[1, 1, 2, 3, 4, 0, 0]), Corrupt, "after"),
        ("bytes-after-the-last-section", [&valid[..], &[0]].concat(), Corrupt, "after"),
        (
            "sections-exceed-the-length",
            [&header(1, NONE, &[3])[..], &one, &sum(&one)[..4], &[1, 1, 2, 3, 4]].concat(),
            Corrupt,
            "declared length",
        ),
    ]
}

fn model_rules() -> Vec<Rule> {
    let of = |dtype: u8, model: &[u8]| short(dtype, 64, model, &[0; 8]);
    // Scales without rows and columns.
    let flat: &[u8] = &[0, 0];
    let float = |flags: u8| [&[2, flags], flat, &[0; 16]].concat();
    // Records of four bytes with a field of so many.
    let records = |bytes: u8, inner: &[u8]| [&[13, 4, 1, 8, 1, 1, bytes, 1, 8, 0, 8][..], inner].concat();
    let twice = [&[13, 4, 1, 8, 2][..], &[1, 4, 1, 8, 0, 8], &[1, 1, 1, 1, 9, 0], &[3, 0]].concat();
    vec![
        ("model-unknown", of(BF16, &[200]), Corrupt, "unknown transform 200"),
        ("model-missing", of(BF16, &[]), Truncated, "ends inside"),
        ("model-longer-than-it-is", of(BF16, &[1, 0]), Corrupt, "after"),
        ("float-of-integers", of(I16, &float(12 << 3)), Corrupt, "not a float"),
        ("float-precision-13", of(BF16, &float(13 << 3)), Corrupt, "precision"),
        ("scales-row-length-zero", of(BF16, &[2, 12 << 3, 0, 1, 0]), Corrupt, "row length"),
        ("scales-row-length-beyond-section", of(BF16, &[2, 12 << 3, 0, 1, 33, 1, 0]), Corrupt, "row length"),
        ("frequencies-of-one-symbol", of(I16, &[3, 2, 7, 7, 0, 1, 0]), Corrupt, "fewer than two"),
        ("plane-model-unknown", of(I16, &[3, 9, 0]), Corrupt, "plane mode 9"),
        ("fast-of-fp64", of(F64, &[4, 0, 0]), Corrupt, "nested planes"),
        ("palette-of-bytes", short(8, 64, &[5, 2, 0, 1, 2, 1, 0, 1, 0], &[0; 8]), Corrupt, "whole elements"),
        ("palette-too-long", of(F32, &[5, 0xff, 0xff, 0x7f]), Corrupt, "palette"),
        (
            "palette-not-ascending",
            of(F32, &[5, 8, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0]),
            Corrupt,
            "palette",
        ),
        ("grid-of-fp64", of(F64, &[6, 8]), Corrupt, "grid"),
        ("grid-row-length-zero", of(F32, &[6, 0]), Corrupt, "empty rows"),
        ("grid-by-columns-row-length-zero", of(F32, &[6, 0, 0]), Corrupt, "empty rows"),
        (
            "grid-by-columns-of-half-rows",
            short(F32, 12, &[6, 0, 2], &[&[0][..], &[0; 12]].concat()),
            Corrupt,
            "whole rows",
        ),
        ("sparse-without-a-dtype", of(NONE, &[7, 3, 1, 0]), Corrupt, "without a dtype"),
        ("sparse-of-opaque", of(F32, &[7, 1]), Corrupt, "floats or planes"),
        ("sparse-of-sparse", of(F32, &[7, 7, 3, 1, 0]), Corrupt, "floats or planes"),
        ("difference-of-stored", of(I16, &[8, 0]), Corrupt, "needs no reference"),
        ("difference-of-difference", of(I16, &[8, 8, 1]), Corrupt, "needs no reference"),
        ("difference-without-a-reference", of(I16, &[8, 1]), Corrupt, "reference"),
        ("reference-of-integers", of(I16, &[9, 0, 0, 0, 0, 0]), Corrupt, "not a float"),
        ("reference-without-a-reference", of(BF16, &[9, 0, 0, 0, 0, 0]), Corrupt, "reference"),
        ("adaptive-of-fp64", of(F64, &[10, 1, 0, 0]), Corrupt, "adaptive"),
        ("adaptive-row-length-zero", of(BF16, &[10, 0, 0, 0, 0, 0]), Corrupt, "longer than its section"),
        ("cast-from-a-wider-dtype", of(BF16, &[12, 3, 1]), Corrupt, "there is none from"),
        ("cast-of-integers", of(I16, &[12, 1, 1]), Corrupt, "there is none from"),
        ("cast-of-cast", of(F32, &[12, 1, 12, 6, 1]), Corrupt, "casts themselves"),
        ("cast-of-stored", of(F32, &[12, 1, 0]), Corrupt, "casts themselves"),
        ("cast-with-too-many-exceptions", short(F32, 8, &[12, 1, 1], &[0, 3]), Corrupt, "more exceptions"),
        (
            "cast-with-an-exception-outside",
            short(F32, 8, &[12, 1, 1], &[0, 1, 2, 0, 0, 0, 0]),
            Corrupt,
            "outside",
        ),
        ("subnormal-of-bf16", of(BF16, &[11, 0, 0, 0, 0]), Corrupt, "not fp16"),
        ("scaled-of-bf16", of(BF16, &[14, 0, 0, 0, 0]), Corrupt, "more than a byte"),
        ("scaled-with-32-contexts", of(NONE, &[14, 5, 0, 0, 0]), Corrupt, "too many contexts"),
        ("scaled-row-length-beyond-section", of(NONE, &[14, 0, 0, 1, 65, 1, 0]), Corrupt, "row length"),
        (
            "scaled-first-context-out-of-range",
            of(NONE, &[14, 0, 0, 0, 0x80, 0x80, 8]),
            Corrupt,
            "first context",
        ),
        ("scaled-without-frequencies", of(NONE, &[14, 0, 0, 0, 0]), Truncated, "ends inside"),
        ("records-of-fp32", of(F32, &records(4, &[3, 0])), Corrupt, "more than a byte"),
        ("records-without-fields", of(NONE, &[13, 4, 0]), Corrupt, "without fields"),
        ("records-with-bits-of-no-element", of(NONE, &records(3, &[3, 0])), Corrupt, "no element"),
        ("records-with-bits-outside", of(NONE, &records(5, &[3, 0])), Corrupt, "outside"),
        ("records-with-bits-of-two-elements", of(NONE, &twice), Corrupt, "two elements"),
        ("records-of-records", of(NONE, &records(4, &records(4, &[3, 0]))), Corrupt, "records itself"),
        ("records-of-stored", of(NONE, &records(4, &[0])), Corrupt, "stored"),
        ("records-truncated", short(NONE, 8, &records(4, &[3, 0]), &[0, 9]), Truncated, "ends inside"),
        (
            "records-too-long",
            short(NONE, 8, &records(4, &[3, 0]), &[0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            Corrupt,
            "after",
        ),
    ]
}

fn block_rules() -> Vec<Rule> {
    let opaque = |payload: &[u8]| short(NONE, 4, &[1], payload);
    let planes = |payload: &[u8]| short(I16, 8, &[3, 0, 1, 7], payload);
    let zstd = zstd::bulk::compress(b"abc", 3).unwrap();
    vec![
        ("block-empty", opaque(&[]), Truncated, "ends inside"),
        ("block-mode-unknown", opaque(&[4, 1, 2, 3, 4]), Corrupt, "block mode"),
        ("block-checksum-wrong", opaque(&[1, 1, 2, 3, 4]), ChecksumMismatch, "checksum"),
        ("verbatim-too-short", opaque(&[1, 1, 2, 3]), Truncated, "ends inside"),
        ("verbatim-too-long", opaque(&[1, 1, 2, 3, 4, 5]), Corrupt, "after"),
        ("constant-too-long", opaque(&[2, 7, 7]), Corrupt, "after"),
        ("constant-truncated", planes(&[2, 7]), Truncated, "ends inside"),
        ("unchanged-without-a-reference", opaque(&[3]), Corrupt, "reference"),
        ("opaque-damaged", opaque(&[0, 1, 2, 3]), Corrupt, "zstd"),
        ("opaque-of-another-length", opaque(&[&[0][..], &zstd].concat()), Corrupt, "fewer bytes"),
        ("planes-truncated", planes(&[0, 1, 2, 3]), Truncated, "ends inside"),
        ("planes-too-long", planes(&[0, 1, 2, 3, 4, 5]), Corrupt, "after"),
        (
            "stored-of-another-checksum",
            [&header(1, NONE, &[4])[..], &[1, 0, 0, 0, 0, 1, 2, 3, 4]].concat(),
            ChecksumMismatch,
            "checksum",
        ),
        (
            "delta-without-its-reference",
            [&header(9, NONE, &[&[4, 4][..], &[0; 16]].concat())[..], &[0, 1, 1, 0, 0, 0, 0, 1, 3]].concat(),
            ErrorKind::WrongReference,
            "delta",
        ),
    ]
}

#[test]
fn frames_that_break_a_rule_are_refused_by_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/reject/z4ai");
    let rules = [header_rules(), section_rules(), model_rules(), block_rules()].concat();
    let mut wrong = Vec::new();
    for (name, frame, kind, words) in &rules {
        let path = folder.join(format!("{name}.z4ai"));
        if std::env::var_os("Z4AI_WRITE_GOLDEN").is_some() && !path.exists() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, frame).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == *frame, "{name} is not what its rule makes");
        match z4ai::decompress(frame) {
            Ok(_) => wrong.push(format!("{name}: decodes")),
            Err(error) if error.kind() != *kind || !error.to_string().contains(words) => {
                wrong.push(format!("{name}: {:?} {error}", error.kind()));
            }
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(folder.read_dir().unwrap().count(), rules.len(), "a file without a rule");
}
