//! What is written is what is read, for every element type, layout, encoding and edge of shapes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use ztensor::{
    Attributes, Checksum, Compression, DType, ElementType, Kind, Layout, LogicalType, Reader, Shape,
    TensorInput, Value, Writer,
};

fn compressions() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::None), (1..=22).prop_map(Compression::Zstd)]
}

fn checksums() -> impl Strategy<Value = Checksum> {
    prop_oneof![Just(Checksum::None), Just(Checksum::Crc32c), Just(Checksum::Sha256)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dense_tensors_survive(
        dtype in proptest::sample::select(DType::ALL),
        shape in proptest::collection::vec(0u64..7, 0..5),
        seed in any::<u8>(),
        compression in compressions(),
        checksum in checksums(),
    ) {
        let length = shape.iter().product::<u64>() as usize * dtype.width();
        let bytes: Vec<u8> = (0..length).map(|i| (i as u8).wrapping_mul(seed)).collect();
        let mut writer = Writer::in_memory().unwrap();
        let tensor = TensorInput::dense(shape.clone(), dtype, &bytes);
        writer.write_object("t", &tensor, compression, checksum).unwrap();
        let reader = Reader::from_bytes(writer.into_bytes().unwrap()).unwrap();
        let object = reader.object("t").unwrap();
        prop_assert_eq!(&*object.shape, &shape[..]);
        prop_assert_eq!(&object.component("data").unwrap().element, &ElementType::plain(dtype));
        prop_assert_eq!(&*reader.bytes("t").unwrap(), &bytes[..]);
        prop_assert!(reader.verify_all().is_empty());
    }
}

#[test]
fn logical_types_and_attributes_survive() {
    let mut attributes = Attributes::new();
    attributes.insert("note".into(), Value::from("first"));
    attributes.insert("steps".into(), Value::List(vec![Value::Integer(-5), Value::Float(0.1), Value::Null]));
    let cases = [
        (LogicalType::F8E4M3FN, vec![2u64, 3], 6),
        (LogicalType::F4E2M1, vec![3], 2),
        (LogicalType::F6E2M3, vec![4], 3),
        (LogicalType::Complex64, vec![2], 16),
        (LogicalType::Complex128, vec![1, 2], 32),
        (LogicalType::Other("posit8".into()), vec![5], 5),
    ];
    let mut writer = Writer::in_memory().unwrap();
    writer.set_attribute("format", "pt");
    let bytes: Vec<u8> = (0..64).collect();
    for (logical, shape, length) in &cases {
        let mut tensor =
            TensorInput::dense(shape.clone(), ElementType::logical(logical.clone()), &bytes[..*length]);
        tensor.attributes = attributes.clone();
        writer.write_object(logical.name(), &tensor, Compression::None, Checksum::Crc32c).unwrap();
    }
    let reader = Reader::from_bytes(writer.into_bytes().unwrap()).unwrap();
    assert_eq!(reader.attributes()["format"], Value::from("pt"));
    for (logical, shape, length) in &cases {
        let object = reader.object(logical.name()).unwrap();
        assert_eq!(*object.shape, shape[..]);
        assert_eq!(object.attributes, attributes);
        assert_eq!(object.component("data").unwrap().element.logical.as_ref(), Some(logical));
        assert_eq!(*reader.bytes(logical.name()).unwrap(), bytes[..*length]);
    }
}

#[test]
fn sparse_and_grouped_tensors_survive() {
    let mut writer = Writer::in_memory().unwrap();
    writer.add_csr("csr", [3, 4], &[1f32, 2.0, 3.0], &[0, 3, 1], &[0, 2, 2, 3]).unwrap();
    writer.add_coo("coo", &[3, 4], &[1i32, 2], &[0, 2, 1, 3]).unwrap();
    let mut attributes = Attributes::new();
    attributes.insert("bits".into(), Value::Integer(4));
    let packed = [0x21u8, 0x43];
    let scales: Vec<u8> = 0.5f32.to_le_bytes().to_vec();
    let grouped = TensorInput {
        shape: Shape::from([1, 4]),
        layout: Layout::QuantizedGroup,
        attributes: attributes.clone(),
        components: vec![
            ("packed_weight".into(), DType::U8.into(), &packed),
            ("scales".into(), DType::F32.into(), &scales),
        ],
    };
    writer.write_object("grouped", &grouped, Compression::Zstd(3), Checksum::Sha256).unwrap();
    let reader = Reader::from_bytes(writer.into_bytes().unwrap()).unwrap();
    let csr = reader.read_object("csr").unwrap().into_owned();
    assert_eq!(csr.component("values").unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(csr.component("indptr").unwrap().to_vec::<u64>().unwrap(), [0, 2, 2, 3]);
    let coo = reader.read_object("coo").unwrap();
    assert_eq!(coo.layout, Layout::SparseCoo);
    assert_eq!(coo.component("coords").unwrap().to_vec::<u64>().unwrap(), [0, 2, 1, 3]);
    let grouped = reader.read_object("grouped").unwrap();
    assert_eq!(grouped.attributes, attributes);
    assert_eq!(*grouped.component("packed_weight").unwrap().bytes, packed);
    assert_eq!(reader.bytes("csr").unwrap_err().kind(), Kind::Mismatch);
}

#[test]
fn tied_tensors_are_stored_once() {
    let mut writer = Writer::in_memory().unwrap();
    writer.add("a", &[1000], &[1.5f32; 1000]).unwrap();
    writer.add_tied("b", "a").unwrap();
    let bytes = writer.into_bytes().unwrap();
    assert!(bytes.len() < 5000);
    let reader = Reader::from_bytes(bytes).unwrap();
    assert_eq!(reader.view_as::<f32>("b").unwrap(), &[1.5; 1000]);
}

#[test]
fn large_components_start_on_a_page_and_decode_in_parallel() {
    let values: Vec<f32> = (0..3_000_000).map(|i| (i % 1000) as f32).collect();
    let mut writer = Writer::in_memory().unwrap();
    writer.add("small", &[1], &[1u8]).unwrap();
    writer.add("raw", &[3_000_000], &values).unwrap();
    writer
        .add_with("packed", &[3_000_000], &values)
        .compress(Compression::Zstd(1))
        .checksum(Checksum::Crc32c)
        .write()
        .unwrap();
    let bytes = writer.into_bytes().unwrap();
    let reader = Reader::from_bytes(bytes).unwrap();
    assert_eq!(reader.object("raw").unwrap().components[0].1.data.first_span().unwrap().offset % 4096, 0);
    assert_eq!(reader.object("packed").unwrap().components[0].1.data.encoding_name(), "zstd");
    assert_eq!(reader.read_as::<f32>("packed").unwrap(), values);
}

#[test]
fn streamed_tensors_equal_whole_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    let mut writer = Writer::create(&path).unwrap();
    let mut stream = writer.stream("s", &[4, 5], DType::U8).unwrap().checksum(Checksum::Sha256);
    stream.write(&[1; 7]).unwrap();
    stream.write(&[2; 13]).unwrap();
    assert_eq!(stream.write(&[3]).unwrap_err().kind(), Kind::Mismatch);
    stream.finish().unwrap();
    let mut short = writer.stream("short", &[4], DType::U8).unwrap();
    short.write(&[1]).unwrap();
    assert_eq!(short.finish().unwrap_err().kind(), Kind::Mismatch);
    let size = writer.finish().unwrap();
    assert_eq!(size, std::fs::metadata(&path).unwrap().len());
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["s"]);
    assert_eq!(*reader.bytes("s").unwrap(), [[1u8; 7].as_slice(), &[2; 13]].concat()[..]);
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut writer = Writer::in_memory().unwrap();
    assert_eq!(writer.add("a", &[3], &[1u8, 2]).unwrap_err().kind(), Kind::InvalidArgument);
    writer.add("a", &[2], &[1u8, 2]).unwrap();
    assert_eq!(writer.add("a", &[2], &[1u8, 2]).unwrap_err().kind(), Kind::Duplicate);
    let wrong = writer.add_with("b", &[2], &[1u8, 2]).compress(Compression::Zstd(23)).write();
    assert_eq!(wrong.unwrap_err().kind(), Kind::InvalidArgument);
    assert_eq!(Reader::from_bytes(writer.into_bytes().unwrap()).unwrap().len(), 1);
}

#[test]
fn tensors_of_every_size_class_stay_in_order_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    let sizes = [3usize, 300 << 10, 900 << 10, 5, 2 << 20, 300 << 10, 7];
    let mut writer = Writer::create(&path).unwrap();
    for (number, &size) in sizes.iter().enumerate() {
        writer.add(&number.to_string(), &[size as u64], &vec![number as u8 + 1; size]).unwrap();
    }
    writer.finish().unwrap();
    let reader = Reader::open(&path).unwrap();
    for (number, &size) in sizes.iter().enumerate() {
        assert_eq!(*reader.bytes(&number.to_string()).unwrap(), vec![number as u8 + 1; size][..]);
    }
}
