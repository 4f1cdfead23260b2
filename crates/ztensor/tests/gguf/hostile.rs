//! What wrong files do: an error, never a panic, and no memory out of proportion.

use ztensor::formats::gguf::BlockType;
use ztensor::{Kind, Reader, Result};

use crate::builder::{Meta, Order};
use crate::corpus::{block_types, little, metadata, plain_types};

fn read_all(bytes: Vec<u8>) -> Result<()> {
    let reader = Reader::from_bytes(bytes)?;
    for (name, object) in reader.objects() {
        reader.component_bytes(name, "data")?;
        if BlockType::of(&object.layout).is_some() {
            reader.dequantize(name)?;
        }
    }
    Ok(())
}

fn small_files() -> Vec<Vec<u8>> {
    [Order::Little, Order::Big]
        .into_iter()
        .flat_map(|order| [plain_types(order), metadata(order), block_types(order)])
        .map(|builder| builder.build())
        .collect()
}

#[test]
fn every_truncation_ends_in_a_result() {
    for file in small_files() {
        for length in 0..file.len() {
            // Only padding behind the last tensor may be cut without an error.
            if read_all(file[..length].to_vec()).is_ok() {
                assert!(file.len() - length < 32, "{length} of {} bytes", file.len());
            }
        }
    }
}

#[test]
fn every_flipped_byte_ends_in_a_result() {
    for file in small_files() {
        for position in 0..file.len().min(3000) {
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
fn counts_are_refused_before_anything_is_allocated() {
    let file = little().pair("list", Meta::Array(8, 1 << 60, vec![])).build();
    let error = Reader::from_bytes(file).unwrap_err();
    assert_eq!(error.kind(), Kind::Truncated);
    assert!(error.message().contains("1152921504606846976"), "{error}");
}

#[test]
fn nested_arrays_have_a_limit() {
    let nested = (0..100_000).fold(Vec::new(), |mut bytes, _| {
        bytes.extend(9u32.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes
    });
    let mut file = little().raw_key(b"deep").build();
    file.extend(9u32.to_le_bytes());
    file.extend(nested);
    assert_eq!(Reader::from_bytes(file).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn errors_name_the_tensor_and_the_place() {
    let file = little().tensor("first", &[1], 24, &[1]).raw_tensor(b"second", &[1], 24, &[1], Some(64));
    let error = Reader::from_bytes(file.build()).unwrap_err();
    assert_eq!((error.kind(), error.tensor()), (Kind::Malformed, Some("second")));
    assert!(error.offset().is_some());
}

#[test]
fn a_part_in_memory_cannot_find_the_others() {
    let error = Reader::from_bytes(crate::corpus::part(0, 2, 2).build()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
}

#[test]
fn big_endian_blocks_without_a_defined_order_are_skipped() {
    let reader = Reader::from_bytes(block_types(Order::Big).build()).unwrap();
    let skipped: Vec<_> = reader.skipped().iter().map(|skipped| skipped.name.as_str()).collect();
    assert_eq!(skipped, ["iq2_xxs"]);
}
