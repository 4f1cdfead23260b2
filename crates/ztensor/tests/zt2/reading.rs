//! Round trips and canonical files.

use crate::builder::{Builder, Item, map, text};
use ztensor::index::Coverage;
use ztensor::{
    Checksum, Compression, DType, ElementType, Kind, LogicalType, Reader, TensorInput, Version, Writer,
};

fn sample(compression: Compression) -> Vec<u8> {
    let mut writer = Writer::in_memory_version(Version::Two).unwrap();
    writer.set_attribute("name", "sample");
    let values: Vec<f32> = (0..6).map(|v| v as f32).collect();
    writer.add_with("a", &[2, 3], &values).compress(compression).write().unwrap();
    writer
        .write_object("flags", &TensorInput::dense([3], DType::Bool, &[0, 1, 1]), compression, Checksum::None)
        .unwrap();
    let fp4 = ElementType::logical(LogicalType::F4E2M1);
    writer
        .write_object("fp4", &TensorInput::dense([3], fp4, &[0x21, 0x03]), compression, Checksum::Sha256)
        .unwrap();
    writer.add_csr("sparse", [2, 3], &[1f32, 2.0], &[0, 2], &[0, 1, 2]).unwrap();
    writer.add("twin", &[2, 3], &values).unwrap();
    writer.into_bytes().unwrap()
}

#[test]
fn tensors_survive() {
    for compression in [Compression::None, Compression::Zstd(3)] {
        let reader = Reader::from_bytes(sample(compression)).unwrap();
        assert_eq!(reader.index().version, "2");
        assert_eq!(reader.read_as::<f32>("a").unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(*reader.bytes("flags").unwrap(), [0, 1, 1]);
        assert_eq!(reader.object("flags").unwrap().components[0].1.element, DType::Bool.into());
        assert_eq!(*reader.bytes("fp4").unwrap(), [0x21, 0x03]);
        assert_eq!(reader.attributes()["name"].as_text(), Some("sample"));
        assert!(reader.verify_all().is_empty());
        let digest = reader.object("a").unwrap().components[0].1.digest.clone().unwrap();
        assert_eq!(digest.over, Coverage::Decoded);
    }
}

#[test]
fn equal_bytes_are_stored_once_on_pages_of_their_own() {
    let reader = Reader::from_bytes(sample(Compression::None)).unwrap();
    let span = |name: &str| reader.object(name).unwrap().components[0].1.data.first_span().unwrap();
    assert_eq!(span("a"), span("twin"));
    assert!(reader.objects().all(|(name, _)| span(name).offset % 65536 == 0));
}

#[test]
fn the_same_tensors_give_the_same_file() {
    assert_eq!(sample(Compression::None), sample(Compression::None));
}

#[test]
fn every_changed_byte_of_manifest_and_footer_is_noticed() {
    let bytes = sample(Compression::None);
    let length = u64::from_le_bytes(bytes[bytes.len() - 32..][..8].try_into().unwrap()) as usize;
    for position in bytes.len() - 40 - length..bytes.len() {
        // Four reserved bytes are ignored by definition.
        if (bytes.len() - 12..bytes.len() - 8).contains(&position) {
            continue;
        }
        let mut changed = bytes.clone();
        changed[position] ^= 0x10;
        assert!(Reader::from_bytes(changed).is_err(), "byte {position} of {} was not noticed", bytes.len());
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = sample(Compression::None);
    for length in (0..bytes.len()).rev().step_by(7).take(400).chain([0, 7, 8, 47, 48]) {
        assert!(Reader::from_bytes(bytes[..length].to_vec()).is_err(), "{length}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let mut bytes = sample(Compression::None);
    let at = bytes.len() - 16;
    bytes[at] = 3;
    let error = Reader::from_bytes(bytes).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.message().contains("version 3"));
}

/// A model in two files: the root lists tensors of its own and of a shard.
fn sharded(folder: &std::path::Path) -> std::path::PathBuf {
    let mut shard = Builder::new();
    let blob = shard.blob(&[1, 2, 3, 4]);
    let shard = shard.finish_shard();
    let digest = format!("xxh3:{:016x}", twox_hash::XxHash3_64::oneshot(&shard));
    std::fs::write(folder.join("model-00001.zt"), &shard).unwrap();

    let mut root = Builder::new();
    let part = root.part("u8", &[9]);
    root.dense("here", &[1], part);
    root.dense("there", &[4], map(&[("dtype", text("u8")), ("blob", blob), ("shard", text("00001"))]));
    let entry = [("size", Item::Number(shard.len() as u64)), ("digest", text(&digest))];
    root.root.push(("shards", map(&[("00001", map(&entry))])));
    let path = folder.join("model.zt");
    std::fs::write(&path, root.finish()).unwrap();
    path
}

#[test]
fn shards_beside_the_root_are_read_and_their_checksums_verified_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = sharded(folder.path());
    let reader = ztensor::open(&path).unwrap();
    assert_eq!(reader.read_as::<u8>("here").unwrap(), [9]);
    assert_eq!(reader.read_as::<u8>("there").unwrap(), [1, 2, 3, 4]);
    assert!(reader.verify_all().is_empty());

    // A byte that belongs to no tensor: only the checksum of the whole shard knows of it.
    let shard = folder.path().join("model-00001.zt");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&shard, &bytes).unwrap();
    let reader = ztensor::open(&path).unwrap();
    assert_eq!(reader.read_as::<u8>("there").unwrap(), [1, 2, 3, 4]);
    let failures = reader.verify_all();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].0, "model-00001.zt");
    assert_eq!(failures[0].1.kind(), Kind::Checksum);

    bytes.pop();
    std::fs::write(&shard, &bytes).unwrap();
    assert!(ztensor::open(&path).unwrap_err().to_string().contains("model-00001.zt"));
    std::fs::remove_file(&shard).unwrap();
    assert!(ztensor::open(&path).unwrap_err().to_string().contains("model-00001.zt"));
}

#[test]
fn booleans_that_a_reader_would_refuse_are_not_written() {
    use ztensor::{Checksum, Compression, DType, TensorInput, Version, Writer};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.zt");
    for (version, written) in [(Version::One, true), (Version::Two, false)] {
        let mut writer = Writer::create_version(&path, version).unwrap();
        let input = TensorInput::dense([3], DType::Bool, &[0, 1, 2]);
        let result = writer.write_object("odd", &input, Compression::None, Checksum::None);
        assert_eq!(result.is_ok(), written, "{version:?}");
        if let Err(error) = result {
            assert!(error.message().contains("element 2 of a boolean tensor is 2"), "{error}");
        }
        let mut stream = writer.stream("pieces", &[3], DType::Bool).unwrap();
        stream.write(&[0, 1]).unwrap();
        let result = stream.write(&[2]);
        assert_eq!(result.is_ok(), written, "{version:?}");
        if let Err(error) = result {
            assert!(error.message().contains("element 2 of a boolean tensor is 2"), "{error}");
        }
    }
}

#[test]
fn half_bytes_that_a_reader_would_refuse_are_not_written() {
    use ztensor::{Checksum, Compression, ElementType, LogicalType, TensorInput, Version, Writer};
    let element = ElementType::logical(LogicalType::F4E2M1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.zt");
    let mut writer = Writer::create_version(&path, Version::Two).unwrap();
    for (bytes, written) in [([0x21, 0x03], true), ([0x21, 0x43], false)] {
        let input = TensorInput::dense([3], element.clone(), &bytes);
        let result = writer.write_object(&format!("{written}"), &input, Compression::None, Checksum::None);
        assert_eq!(result.is_ok(), written, "{result:?}");
        let mut stream = writer.stream(&format!("pieces {written}"), &[3], element.clone()).unwrap();
        stream.write(&bytes[..1]).unwrap();
        assert_eq!(stream.write(&bytes[1..]).is_ok(), written);
    }
}
