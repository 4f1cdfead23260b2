//! Records and stores that somebody else made: every field changed, every byte of a pack flipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod records;
mod stores;

use sha2::{Digest as _, Sha256};
use ztensor::{Attributes, Value};

/// A record of a value, with everything around it right.
fn enclose(value: &Value) -> Vec<u8> {
    let mut bytes = b"ZTM\x01".to_vec();
    bytes.extend(zstd::bulk::compress(&value.to_cbor(), 3).unwrap());
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    bytes
}

/// The value in a record.
fn content(record: &[u8]) -> Value {
    let content = zstd::bulk::decompress(&record[4..record.len() - 32], 1 << 20).unwrap();
    Value::from_cbor(&content, 32).unwrap()
}

/// All values that differ from a value in one place, by one of these.
fn mutations(value: &Value, visit: &mut dyn FnMut(Value)) {
    let others = [
        Value::Null,
        Value::Bool(true),
        Value::from(0u64),
        Value::from(1u64),
        Value::from(77u64),
        Value::from(u64::MAX),
        Value::from(u64::MAX / 2),
        Value::from(-1i64),
        Value::Float(0.5),
        Value::from(""),
        Value::from("../../etc/passwd"),
        Value::from("/etc/passwd"),
        Value::from("a\\b"),
        Value::from("model/below"),
        Value::Bytes(vec![0; 16]),
        Value::Bytes(vec![0; 32]),
        Value::List(Vec::new()),
        Value::Map(Attributes::new()),
    ];
    others.into_iter().for_each(&mut *visit);
    match value {
        Value::List(items) => {
            for place in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(place);
                visit(Value::List(fewer));
                let mut more = items.clone();
                more.insert(place, items[place].clone());
                visit(Value::List(more));
                mutations(&items[place], &mut |item| {
                    let mut items = items.clone();
                    items[place] = item;
                    visit(Value::List(items));
                });
            }
        }
        Value::Map(map) => {
            for key in map.keys() {
                let mut fewer = map.clone();
                fewer.swap_remove(key);
                visit(Value::Map(fewer));
                mutations(&map[key], &mut |item| {
                    let mut map = map.clone();
                    map.insert(key.clone(), item);
                    visit(Value::Map(map));
                });
            }
        }
        _ => {}
    }
}
