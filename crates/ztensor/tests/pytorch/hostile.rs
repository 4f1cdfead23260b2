//! What wrong files do: an error, never a panic, and no memory or time out of proportion.

use ztensor::{Kind, Reader, Result};

use crate::builder::*;
use crate::corpus;

fn read_all(bytes: Vec<u8>) -> Result<()> {
    let reader = Reader::from_bytes(bytes)?;
    for (name, object) in reader.objects() {
        for (role, component) in &object.components {
            // A flipped byte can make an expanded view of a few hundred megabytes; decoding it tells nothing new.
            if component.length < 1 << 20 {
                reader.component_bytes(name, role)?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_truncation_is_an_error() {
    for (name, file) in corpus::valid() {
        for length in 0..file.len() {
            assert!(read_all(file[..length].to_vec()).is_err(), "{length} bytes of {name}");
        }
    }
}

#[test]
fn every_flipped_byte_ends_in_a_result() {
    for (_, file) in corpus::valid() {
        for position in 0..file.len() {
            for mask in [0xFF, 0x01, 0x80] {
                let mut changed = file.clone();
                changed[position] ^= mask;
                // Many flips leave a legal file; what counts is that nothing panics.
                let _ = read_all(changed);
            }
        }
    }
}

#[test]
fn errors_name_the_rule_the_tensor_and_the_place() {
    let error = |name: &str| {
        let (_, bytes) = corpus::reject().into_iter().find(|(known, _)| *known == name).unwrap();
        read_all(bytes).unwrap_err()
    };
    let outside = error("stride-outside.pt");
    assert_eq!((outside.kind(), outside.tensor()), (Kind::Malformed, Some("weight")));
    let underflow = error("stack-underflow.pt");
    assert!(underflow.offset().is_some() && underflow.message().contains("stack"), "{underflow}");
    assert_eq!(error("key-twice.pt").kind(), Kind::Duplicate);
    assert_eq!(error("shared-containers-multiply.pt").kind(), Kind::Limit);
    assert_eq!(error("tar-form.pt").kind(), Kind::Unsupported);
    assert_eq!(error("storage-too-short.pt").kind(), Kind::Truncated);
}

#[test]
fn deep_nesting_neither_overflows_the_stack_nor_hides_other_tensors() {
    const LEVELS: usize = 200_000;
    let nested =
        |open: &[u8], close: &[u8]| [open.repeat(LEVELS), b"N".to_vec(), close.repeat(LEVELS)].concat();
    let lists = nested(b"]", b"a");
    let tuples = nested(b"(", b"t");
    let calls = nested(b"cx\ny\n(", b"tR");
    let states = nested(b"cx\ny\n)\x81", b"b");
    let persistent = [b"N".to_vec(), b"Q".repeat(LEVELS)].concat();
    for value in [lists, tuples, calls, states, persistent] {
        let root = dict(&[("deep", value), ("weight", floats("0", &[6]))]);
        let file = archive(root, &[("0", &counting(6))]);
        match Reader::from_bytes(file) {
            Ok(reader) => assert_eq!(*reader.bytes("weight").unwrap(), counting(6)),
            Err(error) => assert_eq!(error.kind(), Kind::Malformed, "{error}"),
        }
    }
}

#[test]
fn cycles_are_walked_once() {
    // A list that holds itself and a tensor.
    let cycle = [b"]q\x01(h\x01".to_vec(), floats("0", &[6]), b"e".to_vec()].concat();
    let reader = Reader::from_bytes(archive(cycle, &[("0", &counting(6))])).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["1"]);
}

#[test]
fn an_expanded_view_cannot_ask_for_all_memory() {
    let huge = tensor(storage("FloatStorage", "0", 6), 0, &[1 << 40], &[0]);
    let reader = Reader::from_bytes(archive(dict(&[("huge", huge)]), &[("0", &counting(6))])).unwrap();
    assert_eq!(reader.len(), 0);
    assert!(reader.skipped()[0].reason.contains("expanded"), "{:?}", reader.skipped());
}

#[test]
fn long_keys_do_not_multiply_into_long_names() {
    // A thousand tensors beneath a key of a megabyte would be a gigabyte of names.
    let tensors = list(&vec![floats("0", &[6]); 1000]);
    let file = archive(dict(&[(&"k".repeat(1 << 20), tensors)]), &[("0", &counting(6))]);
    let reader = Reader::from_bytes(file).unwrap();
    assert_eq!(reader.names().last(), Some("#0.999"));
}

#[test]
fn shared_keys_and_lists_cost_what_they_are_and_no_more() {
    let long = text(&"k".repeat(1 << 20));
    // One key for a million entries, and one list of a million numbers in a million places.
    let entries = [long, b"q\x010(".to_vec(), b"h\x01N".repeat(1_000_000), b"d".to_vec()].concat();
    let reader = Reader::from_bytes(archive(entries, &[])).unwrap();
    assert!(reader.skipped().iter().any(|skipped| skipped.name == "(metadata)"), "{:?}", reader.skipped());
    let numbers = [b"(".to_vec(), b"K\x01".repeat(1_000_000), b"lq\x01".to_vec()].concat();
    let lists = [numbers, b"0(".to_vec(), b"h\x01".repeat(1_000_000), b"l".to_vec()].concat();
    assert_eq!(Reader::from_bytes(archive(lists, &[])).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn a_memo_number_far_away_takes_no_memory() {
    let root = [b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff".to_vec()].concat();
    assert!(Reader::from_bytes(archive(root, &[])).unwrap().is_empty());
}
