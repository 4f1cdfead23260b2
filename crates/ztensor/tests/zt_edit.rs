//! Append, remove, replace and repair: what was there before is kept, and an interruption at any byte leaves the old state or the new.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use ztensor::{Checksum, Compression, DType, Kind, Reader, Writer, remove_tensors, repair, replace_tensor};

fn base(path: &Path) {
    let mut writer = Writer::create(path).unwrap();
    writer.set_attribute("origin", "test");
    writer.add_with("a", &[4], &[1f32, 2.0, 3.0, 4.0]).checksum(Checksum::Crc32c).write().unwrap();
    writer
        .add_with("z", &[64], &[7u8; 64])
        .compress(Compression::Zstd(3))
        .checksum(Checksum::Sha256)
        .write()
        .unwrap();
    writer.add("b", &[2], &[5i64, 6]).unwrap();
    writer.finish().unwrap();
}

fn values(path: &Path, name: &str) -> Vec<f32> {
    Reader::open(path).unwrap().read_as(name).unwrap()
}

#[test]
fn append_keeps_the_old_and_adds_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    for round in 0..3 {
        let mut writer = Writer::append(&path).unwrap();
        assert_eq!(writer.add("a", &[1], &[0f32]).unwrap_err().kind(), Kind::Duplicate);
        writer.add(&format!("new{round}"), &[2], &[round as f32, 9.0]).unwrap();
        let size = writer.finish().unwrap();
        assert_eq!(size, std::fs::metadata(&path).unwrap().len());
    }
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["a", "z", "b", "new0", "new1", "new2"]);
    assert_eq!(reader.attributes()["origin"].as_text(), Some("test"));
    assert!(reader.verify_all().is_empty());
    assert_eq!(values(&path, "new2"), [2.0, 9.0]);
}

#[test]
fn an_abandoned_append_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let before = std::fs::read(&path).unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.add("big", &[2_000_000], &vec![1u8; 2_000_000]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn an_append_cut_off_anywhere_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let old = std::fs::read(&path).unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.add("new", &[3], &[1f32, 2.0, 3.0]).unwrap();
    writer.finish().unwrap();
    let new = std::fs::read(&path).unwrap();
    // Before the old tail is cleared, the file is the new one with the old tail still in place.
    for length in old.len()..new.len() {
        let mut cut = new[..length].to_vec();
        cut[..old.len()].copy_from_slice(&old);
        std::fs::write(&path, &cut).unwrap();
        if length > old.len() {
            let error = Reader::open(&path).unwrap_err();
            assert!(error.hint().unwrap().contains("repair"), "{error}");
        }
        let result = repair(&path).unwrap();
        assert_eq!(result.removed, (length - old.len()) as u64);
        assert_eq!(result.tensors, 3);
        assert_eq!(std::fs::read(&path).unwrap(), old);
    }
    // The next append repairs by itself.
    let mut cut = new[..new.len() - 1].to_vec();
    cut[..old.len()].copy_from_slice(&old);
    std::fs::write(&path, &cut).unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.add("other", &[1], &[1f32]).unwrap();
    writer.finish().unwrap();
    assert_eq!(Reader::open(&path).unwrap().names().collect::<Vec<_>>(), ["a", "z", "b", "other"]);
}

#[test]
fn remove_keeps_encodings_checksums_attributes_and_ties() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("m.zt"), folder.path().join("out.zt"));
    let mut writer = Writer::create(&path).unwrap();
    writer.set_attribute("origin", "test");
    writer
        .add_with("z", &[640], &[7u8; 640])
        .compress(Compression::Zstd(3))
        .checksum(Checksum::Sha256)
        .attribute("k", "v")
        .write()
        .unwrap();
    writer.add("gone", &[1], &[1u8]).unwrap();
    writer.add("t1", &[500], &[3f32; 500]).unwrap();
    writer.add_tied("t2", "t1").unwrap();
    writer.finish().unwrap();
    remove_tensors(&path, &out, &["gone"]).unwrap();
    let reader = Reader::open(&out).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["z", "t1", "t2"]);
    let object = reader.object("z").unwrap();
    assert_eq!(object.components[0].1.data.encoding_name(), "zstd");
    assert!(object.components[0].1.digest.is_some());
    assert_eq!(object.attributes["k"].as_text(), Some("v"));
    assert_eq!(reader.attributes()["origin"].as_text(), Some("test"));
    assert!(std::fs::metadata(&out).unwrap().len() < 3500);
    let error = remove_tensors(&path, &out, &["nope"]).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSuchTensor);
    // In place: the same path as input and output.
    remove_tensors(&path, &path, &["z"]).unwrap();
    assert_eq!(Reader::open(&path).unwrap().len(), 3);
}

#[test]
fn replace_changes_one_tensor_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let size = std::fs::metadata(&path).unwrap().len();
    let new: Vec<u8> = [9f32, 8.0, 7.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    replace_tensor(&path, "a", &DType::F32.into(), &new).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
    assert_eq!(values(&path, "a"), [9.0, 8.0, 7.0, 6.0]);
    assert!(Reader::open(&path).unwrap().verify_all().is_empty());
    let refused = |name: &str, dtype: DType, bytes: &[u8]| {
        replace_tensor(&path, name, &dtype.into(), bytes).unwrap_err().kind()
    };
    assert_eq!(refused("a", DType::F32, &new[..8]), Kind::Mismatch);
    assert_eq!(refused("a", DType::I32, &new), Kind::Mismatch);
    assert_eq!(refused("z", DType::U8, &[0; 64]), Kind::Mismatch);
    assert_eq!(refused("nope", DType::F32, &new), Kind::NoSuchTensor);
}

#[test]
fn replacing_a_tied_tensor_leaves_its_twin_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    let mut writer = Writer::create(&path).unwrap();
    writer.add("one", &[2], &[1f32, 2.0]).unwrap();
    writer.add_tied("two", "one").unwrap();
    writer.finish().unwrap();
    let new: Vec<u8> = [5f32, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    replace_tensor(&path, "two", &DType::F32.into(), &new).unwrap();
    assert_eq!(values(&path, "one"), [1.0, 2.0]);
    assert_eq!(values(&path, "two"), [5.0, 6.0]);
}

#[test]
fn creation_is_atomic_and_keeps_the_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let reader = Reader::open_mmap(&path).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    let mut writer = Writer::create(&path).unwrap();
    writer.add("only", &[1], &[1u8]).unwrap();
    assert_eq!(Reader::open(&path).unwrap().len(), 3, "nothing is published before finish");
    writer.finish().unwrap();
    assert_eq!(Reader::open(&path).unwrap().len(), 1);
    assert_eq!(
        reader.read_as::<f32>("a").unwrap(),
        [1.0, 2.0, 3.0, 4.0],
        "a file being read stays what it was"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }
    drop(Writer::create(folder.path().join("never.zt")).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left behind");
}

#[test]
fn archives_are_not_changed_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let (path, packed) = (folder.path().join("m.zt"), folder.path().join("m.zstn"));
    let mut writer = Writer::create(&path).unwrap();
    writer.add("t", &[500], &[3f32; 500]).unwrap();
    writer.finish().unwrap();
    ztensor::archive::archive(&path, &packed, &ztensor::archive::ArchiveOptions::default(), &mut |_| Ok(()))
        .unwrap();
    let before = std::fs::read(&packed).unwrap();
    let Err(error) = Writer::append(&packed) else { panic!("an archive was opened for appending") };
    assert_eq!(error.kind(), Kind::InvalidArgument);
    let error = replace_tensor(&packed, "t", &DType::F32.into(), &[0; 2000]).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument);
    assert_eq!(std::fs::read(&packed).unwrap(), before);
}
