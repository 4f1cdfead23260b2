//! Append, remove, replace and repair: what was there before is kept, and an interruption at any byte leaves the old state or the new.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use ztensor::{
    Checksum, Compression, DType, Edit, Kind, Reader, Writer, remove_tensors, repair, repair_at,
    replace_tensor,
};

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

/// The file as an append leaves it that is killed after so many of its bytes.
fn cut_off(old: &[u8], new: &[u8], length: usize) -> Vec<u8> {
    let mut cut = new[..length].to_vec();
    cut[..old.len()].copy_from_slice(old);
    cut
}

/// What the journal says while a file is being appended to.
fn record(path: &Path) -> Vec<u8> {
    let writer = Writer::append(path).unwrap();
    let record = std::fs::read(path).unwrap()[8..64].to_vec();
    drop(writer);
    record
}

#[test]
fn an_append_cut_off_anywhere_opens_and_is_tidied_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let old = std::fs::read(&path).unwrap();
    let record = record(&path);
    assert_eq!(std::fs::read(&path).unwrap(), old);
    let mut writer = Writer::append(&path).unwrap();
    writer.add("new", &[3], &[1f32, 2.0, 3.0]).unwrap();
    writer.finish().unwrap();
    let new = std::fs::read(&path).unwrap();
    for length in old.len()..=new.len() {
        let mut cut = cut_off(&old, &new, length);
        cut[8..64].copy_from_slice(&record);
        std::fs::write(&path, &cut).unwrap();
        for reader in [Reader::open(&path).unwrap(), Reader::from_bytes(cut.clone()).unwrap()] {
            assert_eq!(reader.names().collect::<Vec<_>>(), ["a", "z", "b"]);
            let unfinished = (length - old.len()) as u64;
            let recovered = reader.recovered().map(|recovered| (recovered.edit, recovered.unfinished));
            assert_eq!(recovered, (unfinished > 0).then_some((Edit::Append, unfinished)));
            assert_eq!(reader.sources()[0].len(), old.len() as u64);
        }
        assert_eq!(std::fs::read(&path).unwrap(), cut, "reading changes nothing");
        let result = repair(&path).unwrap();
        assert_eq!(result.removed, (length - old.len()) as u64);
        assert_eq!(result.tensors, 3);
        assert_eq!(std::fs::read(&path).unwrap(), old);
    }
    // The next append tidies up by itself.
    let mut cut = cut_off(&old, &new, new.len() - 1);
    cut[8..64].copy_from_slice(&record);
    std::fs::write(&path, &cut).unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.add("other", &[1], &[1f32]).unwrap();
    writer.finish().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["a", "z", "b", "other"]);
    assert_eq!(reader.recovered(), None);
}

/// Bytes of a whole `.zt` file with one tensor.
fn inner() -> Vec<u8> {
    let mut writer = Writer::in_memory().unwrap();
    writer.add("inner", &[16], &[3u8; 16]).unwrap();
    writer.into_bytes().unwrap()
}

#[test]
fn a_file_inside_a_tensor_is_never_taken_for_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let old = std::fs::read(&path).unwrap();
    let record = record(&path);
    let mut cut = old.clone();
    cut.resize(cut.len().next_multiple_of(64), 0);
    cut.extend(inner());
    cut[8..64].copy_from_slice(&record);
    std::fs::write(&path, &cut).unwrap();
    assert_eq!(Reader::open(&path).unwrap().names().collect::<Vec<_>>(), ["a", "z", "b"]);
    replace_tensor(&path, "b", &DType::I64.into(), &[0; 16]).unwrap();
    assert_eq!(Reader::open(&path).unwrap().names().collect::<Vec<_>>(), ["a", "z", "b"]);
    std::fs::write(&path, &cut).unwrap();
    assert_eq!(repair(&path).unwrap().tensors, 3);
    assert_eq!(std::fs::read(&path).unwrap(), old);
}

#[test]
fn files_of_earlier_versions_without_a_journal_are_repaired_only_where_that_is_certain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let old = std::fs::read(&path).unwrap();
    let mut cut = [&old[..], &[0; 100], &[9; 77]].concat();
    std::fs::write(&path, &cut).unwrap();
    assert_eq!(Reader::open(&path).unwrap_err().kind(), Kind::Truncated);
    assert!(Writer::append(&path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), cut, "nobody guesses without being asked");
    assert_eq!(repair(&path).unwrap().removed, 177);
    assert_eq!(std::fs::read(&path).unwrap(), old);
    // A whole file behind it, and an incomplete one behind that.
    let tail = old.len();
    cut = old.clone();
    cut.resize(tail.next_multiple_of(64), 0);
    cut.extend(inner());
    let end = cut.len() as u64;
    cut.extend([1; 300]);
    std::fs::write(&path, &cut).unwrap();
    let error = repair(&path).unwrap_err();
    assert!(error.hint().unwrap().contains("repair_at"), "{error}");
    assert!(error.message().contains(&format!("{tail} (3 tensors), {end} (1 tensor)")), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), cut);
    assert_eq!(repair_at(&path, 100).unwrap_err().kind(), Kind::Truncated);
    assert_eq!(repair_at(&path, tail as u64).unwrap().removed, (cut.len() - tail) as u64);
    assert_eq!(std::fs::read(&path).unwrap(), old);
    // Only the inner file is whole: that is no state of this file.
    let alone = [&old[..tail - 20], &inner()[..], &[1; 30]].concat();
    std::fs::write(&path, &alone).unwrap();
    assert!(repair(&path).unwrap_err().hint().unwrap().contains("repair_at"));
    assert_eq!(std::fs::read(&path).unwrap(), alone);
}

#[test]
fn looking_for_a_state_takes_time_in_proportion_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    // Each footer claims all that is before it.
    let mut bytes = b"ZTEN1000".to_vec();
    while bytes.len() < 4 << 20 {
        let length = bytes.len() as u64 - 8;
        bytes.extend(length.to_le_bytes());
        bytes.extend(b"ZTEN1000");
    }
    bytes.extend([1; 16]);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(repair(&path).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn an_append_to_a_file_that_was_replaced_says_so_and_keeps_its_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let mut writer = Writer::append(&path).unwrap();
    writer.add("new", &[3], &[1f32, 2.0, 3.0]).unwrap();
    let mut other = Writer::create(&path).unwrap();
    other.add("other", &[1], &[1f32]).unwrap();
    other.finish().unwrap();
    let error = writer.finish().unwrap_err();
    assert!(error.message().contains("taken the place"), "{error}");
    let kept = folder.path().join("m.appended-1.zt");
    assert!(error.hint().unwrap().contains(&*kept.to_string_lossy()), "{error}");
    let reader = Reader::open(&kept).unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["a", "z", "b", "new"]);
    assert!(reader.verify_all().is_empty());
    assert_eq!(Reader::open(&path).unwrap().names().collect::<Vec<_>>(), ["other"]);
    // Renamed: it is the file that was opened, wherever it is now.
    let writer = Writer::append(&path).unwrap();
    std::fs::rename(&path, folder.path().join("moved.zt")).unwrap();
    assert!(writer.finish().unwrap_err().message().contains("renamed"));
    assert_eq!(Reader::open(folder.path().join("moved.zt")).unwrap().recovered(), None);
}

#[test]
fn a_file_is_written_by_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    base(&path);
    let writer = Writer::append(&path).unwrap();
    let busy = |result: ztensor::Result<()>| result.unwrap_err().message().contains("another process");
    assert!(busy(Writer::append(&path).map(drop)));
    assert!(busy(replace_tensor(&path, "b", &DType::I64.into(), &[0; 16])));
    assert!(busy(remove_tensors(&path, &path, &["b"])));
    assert!(busy(repair(&path).map(drop)));
    drop(writer);
    remove_tensors(&path, &path, &["b"]).unwrap();
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
fn replace_changes_one_tensor() {
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
fn replacing_in_a_large_file_overwrites_nothing_and_wastes_no_more_than_the_file_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    let mut writer = Writer::create(&path).unwrap();
    writer.add_with("a", &[3 << 20], &vec![0u8; 3 << 20]).checksum(Checksum::Crc32c).write().unwrap();
    writer.add("b", &[6 << 20], &vec![1u8; 6 << 20]).unwrap();
    let size = writer.finish().unwrap();
    let first = Reader::open_mmap(&path).unwrap();
    let length = || std::fs::metadata(&path).unwrap().len();
    let mut lengths = Vec::new();
    for round in 1..=9 {
        replace_tensor(&path, "a", &DType::U8.into(), &vec![round; 3 << 20]).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.read_as::<u8>("a").unwrap(), vec![round; 3 << 20]);
        assert_eq!(reader.read_as::<u8>("b").unwrap(), vec![1; 6 << 20]);
        assert!(reader.verify_all().is_empty());
        lengths.push(length());
    }
    assert!(lengths[0] > size, "the old bytes are not overwritten");
    assert!(lengths.iter().all(|length| *length <= 2 * size + 8192), "{lengths:?}");
    assert!(lengths.windows(2).any(|pair| pair[1] < pair[0]), "a file that is mostly gaps is written anew");
    assert_eq!(
        first.read_as::<u8>("a").unwrap(),
        vec![0; 3 << 20],
        "who has the file open keeps what it opened"
    );
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
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o6750);
        base(&path);
        let kept = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(kept & 0o7777, 0o750, "set-id bits are not copied");
        mode(0o440);
        let before = std::fs::read(&path).unwrap();
        let Err(error) = Writer::create(&path) else { panic!("a write-protected file was replaced") };
        assert_eq!(error.kind(), Kind::PermissionDenied);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        mode(0o640);
    }
    // What a process leaves that is killed between naming its file and renaming it.
    let left = folder.path().join(".m.zt.ztensor.partial");
    std::fs::write(&left, b"left over").unwrap();
    base(&path);
    assert!(!left.exists(), "the next write to the file removes it");
    std::fs::write(&left, b"being written").unwrap();
    let other = std::fs::File::open(&left).unwrap();
    other.lock().unwrap();
    base(&path);
    assert!(left.exists(), "what another process is writing stays");
    std::fs::remove_file(left).unwrap();
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
