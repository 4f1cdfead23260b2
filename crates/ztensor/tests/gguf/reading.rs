//! What right files read as.

use ztensor::{Io, OpenOptions, Reader, Value};

use crate::builder::{Meta, Order, noise};
use crate::corpus::{BLOCK_TYPES, PLAIN_TYPES, block_types, little, metadata, part, plain_types};

#[test]
fn plain_types_have_row_major_shapes_in_both_byte_orders() {
    for order in [Order::Little, Order::Big] {
        let reader = Reader::from_bytes(plain_types(order).build()).unwrap();
        assert_eq!(reader.index().version, "3");
        assert_eq!(reader.len(), PLAIN_TYPES.len());
        for &(_, width, name) in PLAIN_TYPES {
            let object = reader.object(name).unwrap();
            assert_eq!(*object.shape, [2, 3]);
            assert_eq!(object.principal().unwrap().element.to_string(), name);
            let expected: Vec<u8> = (1..=6u64).flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
            assert_eq!(*reader.bytes(name).unwrap(), expected, "{name}");
            let borrowed = reader.component_view(name, "data").unwrap().is_some();
            assert_eq!(borrowed, order == Order::Little || width == 1, "{name}");
        }
    }
}

#[test]
fn blocks_are_borrowed_from_a_little_endian_file() {
    let reader = Reader::from_bytes(block_types(Order::Little).build()).unwrap();
    for &(number, name, bytes, elements) in BLOCK_TYPES {
        let object = reader.object(name).unwrap();
        assert_eq!(object.layout.name(), format!("gguf.{name}/1"));
        assert_eq!(*object.shape, [2, elements as u64]);
        let view = reader.component_view(name, "data").unwrap().expect("raw blocks lie in the file");
        assert_eq!(view.bytes, noise(number.into(), 2 * bytes), "{name}");
    }
}

#[test]
fn metadata_keeps_every_type_and_its_order() {
    for order in [Order::Little, Order::Big] {
        let reader = Reader::from_bytes(metadata(order).build()).unwrap();
        let text = |text: &str| Value::Text(text.to_owned());
        let words = Value::List(vec![text("a"), text(""), Value::Bytes(vec![0xFF, 0xFE])]);
        let expected = [
            ("u8", Value::Integer(200)),
            ("i8", Value::Integer(-100)),
            ("u16", Value::Integer(60_000)),
            ("i16", Value::Integer(-30_000)),
            ("u32", Value::Integer(4_000_000_000)),
            ("i32", Value::Integer(-2_000_000_000)),
            ("f32", Value::Float(f64::from(0.1f32))),
            ("bool", Value::Bool(true)),
            ("text", text("schön")),
            ("u64", Value::Integer(u64::MAX.into())),
            ("i64", Value::Integer(i64::MIN.into())),
            ("f64", Value::Float(0.1)),
            ("bytes", Value::Bytes(vec![1, 2, 3])),
            ("numbers", Value::List(vec![Value::Integer(-1), Value::Integer(2)])),
            ("words", words.clone()),
            ("nested", Value::List(vec![words, Value::List(vec![])])),
            ("empty", Value::List(vec![])),
        ];
        let found: Vec<_> = reader.attributes().iter().map(|(key, value)| (key.as_str(), value)).collect();
        assert_eq!(found, expected.iter().map(|(key, value)| (*key, value)).collect::<Vec<_>>());
    }
}

#[test]
fn unknown_types_are_listed_with_their_bytes() {
    let file = little().tensor("odd", &[5, 2], 99, &[1; 7]).tensor("plain", &[5], 24, &[2; 5]);
    let reader = Reader::from_bytes(file.build()).unwrap();
    let odd = reader.object("odd").unwrap();
    assert_eq!((odd.layout.name(), &*odd.shape), ("gguf.type_99/1", &[2, 5][..]));
    let bytes = reader.component_bytes("odd", "data").unwrap();
    assert_eq!((bytes.len(), &bytes[..7]), (32, &[1; 7][..]));
    assert_eq!(*reader.bytes("plain").unwrap(), [2; 5]);
    assert!(reader.dequantize("odd").is_err());
}

#[test]
fn a_second_geometry_is_told_by_the_extent() {
    let one = |name, elements, number, bytes| {
        let reader = Reader::from_bytes(little().tensor(name, &[elements], number, &noise(1, bytes)).build());
        reader.unwrap().object(name).unwrap().layout.name().to_owned()
    };
    assert_eq!(one("q8", 256, 9, 8 * 36), "gguf.q8_1/1");
    assert_eq!(one("q8", 256, 9, 8 * 40), "gguf.q8_1_wide/1");
    assert_eq!(one("q2", 4096, 42, 64 * 18), "gguf.q2_0/1");
    assert_eq!(one("q2", 4096, 42, 32 * 34), "gguf.q2_0_wide/1");

    let file = little().tensor("wide", &[4096], 42, &noise(1, 32 * 34)).tensor("next", &[1], 24, &[1]);
    let reader = Reader::from_bytes(file.build()).unwrap();
    assert_eq!(reader.object("wide").unwrap().layout.name(), "gguf.q2_0_wide/1");
}

#[test]
fn any_part_opens_the_whole_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number: u16| folder.path().join(format!("model-{:05}-of-00003.gguf", number + 1));
    for number in 0..3 {
        std::fs::write(path(number), part(number, 3, 3).build()).unwrap();
    }
    for number in 0..3 {
        let reader = Reader::open(path(number)).unwrap();
        assert_eq!(reader.names().collect::<Vec<_>>(), ["tensor.0", "tensor.1", "tensor.2"]);
        assert_eq!(*reader.bytes("tensor.2").unwrap(), [2, 7]);
        assert_eq!(reader.attributes()["split.no"], Value::Integer(0));
        assert_eq!(reader.attributes()["only.in.2"], Value::Integer(2));
    }
    std::fs::remove_file(path(0)).unwrap();
    std::fs::remove_file(path(2)).unwrap();
    let error = Reader::open(path(1)).unwrap_err();
    assert_eq!(error.kind(), ztensor::Kind::NotFound);
    for missing in ["model-00001-of-00003.gguf", "model-00003-of-00003.gguf"] {
        assert!(error.message().contains(missing), "{error}");
    }
}

#[test]
fn a_long_header_is_read_in_windows_as_well() {
    let long = vec![b'x'; 3 << 20];
    let many = (0..200_000).map(|_| Meta::Text(b"token")).collect();
    let file = little().pair("long", Meta::Text(&long)).pair("many", Meta::Array(8, 200_000, many)).tensor(
        "a",
        &[5],
        24,
        &[3; 5],
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.gguf");
    std::fs::write(&path, file.build()).unwrap();
    let open = |io| OpenOptions { io, ..OpenOptions::default() }.open(&path).unwrap();
    let (mapped, read) = (open(Io::Mmap), open(Io::Read));
    assert_eq!(mapped.attributes(), read.attributes());
    assert_eq!(*read.bytes("a").unwrap(), [3; 5]);
}
