//! Archives of every committed valid file: restored byte for byte, opened like the original, and damage is always noticed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use ztensor::archive::{ArchiveOptions, archive, archive_bytes, restore, restore_bytes};
use ztensor::{Kind, Reader, Writer};

/// Valid files that stand by themselves; models spread over several files are archived one by one.
fn samples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/valid");
    let mut found = Vec::new();
    for format in root.read_dir().unwrap() {
        found.extend(format.unwrap().path().read_dir().unwrap().map(|entry| entry.unwrap().path()));
    }
    found.retain(|path| path.is_file() && Reader::open(path).is_ok_and(|reader| reader.sources().len() == 1));
    found.sort();
    assert!(found.len() > 3);
    found
}

fn safetensors() -> Vec<u8> {
    let header = r#"{"a":{"dtype":"F32","shape":[64,64],"data_offsets":[0,16384]},"b":{"dtype":"F32","shape":[64,64],"data_offsets":[16384,32768]},"c":{"dtype":"U8","shape":[3],"data_offsets":[32768,32771]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    let weights: Vec<u8> =
        (0..4096).flat_map(|i| (0.01f32 * ((i * 37 % 101) as f32 - 50.0)).to_le_bytes()).collect();
    bytes.extend_from_slice(&weights);
    bytes.extend_from_slice(&weights);
    bytes.extend_from_slice(&[1, 2, 3]);
    bytes
}

#[test]
fn every_format_comes_back_byte_for_byte_and_reads_like_the_original() {
    let folder = tempfile::tempdir().unwrap();
    for path in samples() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (packed, restored) = (folder.path().join(format!("{name}.zstn")), folder.path().join("r"));
        let stats = archive(&path, &packed, &ArchiveOptions::default(), &mut |_| Ok(())).unwrap();
        assert_eq!(stats.original, std::fs::metadata(&path).unwrap().len());
        restore(&packed, &restored, &mut |_| Ok(())).unwrap();
        assert_eq!(std::fs::read(&restored).unwrap(), std::fs::read(&path).unwrap(), "{}", path.display());
        let (original, opened) = (Reader::open(&path).unwrap(), Reader::open(&packed).unwrap());
        assert_eq!(opened.format(), original.format());
        assert!(opened.archived().is_some());
        assert_eq!(opened.names().collect::<Vec<_>>(), original.names().collect::<Vec<_>>());
        assert_eq!(opened.attributes(), original.attributes());
        for (name, object) in original.objects() {
            for (role, _) in &object.components {
                let bytes = original.component_bytes(name, role).unwrap();
                assert_eq!(opened.component_bytes(name, role).unwrap(), bytes, "{} {name}", path.display());
            }
        }
    }
}

#[test]
fn equal_tensors_are_stored_once() {
    let original = safetensors();
    let (bytes, stats) = archive_bytes(original.clone(), &ArchiveOptions::default()).unwrap();
    assert_eq!(stats.tensors, 3);
    assert!(bytes.len() < original.len() / 2, "{} of {}", bytes.len(), original.len());
    let reader = Reader::from_bytes(bytes).unwrap();
    assert_eq!(reader.bytes("a").unwrap(), reader.bytes("b").unwrap());
    let info = reader.archived().unwrap();
    assert_eq!((info.format.as_str(), info.length), ("safetensors", original.len() as u64));
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_or_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (packed, restored) = (folder.path().join("a.zstn"), folder.path().join("r"));
    let original = safetensors();
    let (bytes, _) = archive_bytes(original.clone(), &ArchiveOptions::default()).unwrap();
    let tensors = Reader::from_bytes(original.clone()).unwrap();
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 0x24;
        std::fs::write(&packed, &changed).unwrap();
        match restore(&packed, &restored, &mut |_| Ok(())) {
            Ok(_) => assert_eq!(std::fs::read(&restored).unwrap(), original, "byte {position}"),
            Err(_) => assert!(!restored.exists(), "byte {position} left a file behind"),
        }
        let _ = std::fs::remove_file(&restored);
        let Ok(opened) = Reader::from_bytes(changed) else { continue };
        if opened.archived().is_none() {
            continue;
        }
        for name in tensors.names() {
            if let Ok(read) = opened.bytes(name) {
                assert_eq!(read, tensors.bytes(name).unwrap(), "byte {position}, {name}");
            }
        }
    }
}

#[test]
fn a_truncated_archive_is_an_error() {
    let (bytes, _) = archive_bytes(safetensors(), &ArchiveOptions::default()).unwrap();
    for length in 0..bytes.len() {
        assert!(restore_bytes(bytes[..length].to_vec()).is_err(), "{length}");
    }
    assert_eq!(restore_bytes(bytes).unwrap(), safetensors());
}

#[test]
fn long_stretches_without_tensors_are_no_skeleton() {
    // A file whose header is followed by three megabytes of unnamed data: the middle of it is pieces, which are decoded when they are read.
    let header = r#"{"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]},"__metadata__":{"note":"#
        .to_owned()
        + &format!("\"{}\"}}}}", "x".repeat(3 << 20));
    let mut original = (header.len() as u64).to_le_bytes().to_vec();
    original.extend_from_slice(header.as_bytes());
    original.extend_from_slice(&[7; 16]);
    let (bytes, _) = archive_bytes(original.clone(), &ArchiveOptions::default()).unwrap();
    assert!(bytes.len() < 4096, "{}", bytes.len());
    assert_eq!(Reader::from_bytes(bytes.clone()).unwrap().bytes("a").unwrap(), [7; 16].as_slice());
    assert_eq!(restore_bytes(bytes).unwrap(), original);
}

#[test]
fn many_small_tensors_cost_few_bytes_each() {
    let count = 500usize;
    let entries: Vec<String> = (0..count)
        .map(|i| {
            format!(
                r#""layer.{i}.bias":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}"#,
                4 * i,
                4 * i + 4
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut original = (header.len() as u64).to_le_bytes().to_vec();
    original.extend_from_slice(header.as_bytes());
    original.extend((0..count as u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()));
    let (bytes, _) = archive_bytes(original.clone(), &ArchiveOptions::default()).unwrap();
    assert!(bytes.len() < count * 20 + 1500, "{}", bytes.len());
    assert_eq!(restore_bytes(bytes).unwrap(), original);
}

#[test]
fn an_interrupted_or_failed_restore_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let (packed, restored) = (folder.path().join("a.zstn"), folder.path().join("r"));
    let (bytes, _) = archive_bytes(safetensors(), &ArchiveOptions::default()).unwrap();
    std::fs::write(&packed, &bytes[..bytes.len() - 3]).unwrap();
    std::fs::write(&restored, b"precious").unwrap();
    assert!(restore(&packed, &restored, &mut |_| Ok(())).is_err());
    assert_eq!(std::fs::read(&restored).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.zt");
    let mut writer = Writer::create(&path).unwrap();
    writer.add("x", &[1], &[1u8]).unwrap();
    writer.finish().unwrap();
    let error = restore(&path, &folder.path().join("out"), &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument);
}

#[test]
fn an_original_out_of_proportion_is_not_restored() {
    let plain = safetensors();
    let (packed, _) = archive_bytes(plain.clone(), &ArchiveOptions::default()).unwrap();
    let mut options = ztensor::OpenOptions::default();
    options.limits.decoded_bytes = plain.len() as u64;
    assert_eq!(options.restore_bytes(packed.clone()).unwrap(), plain);
    options.limits.decoded_bytes -= 1;
    assert_eq!(options.restore_bytes(packed.clone()).unwrap_err().kind(), Kind::Limit);
    let folder = tempfile::tempdir().unwrap();
    let (archive, restored) = (folder.path().join("a.zstn"), folder.path().join("a"));
    std::fs::write(&archive, packed).unwrap();
    assert_eq!(options.restore(&archive, &restored, &mut |_| Ok(())).unwrap_err().kind(), Kind::Limit);
    assert_eq!(options.verify_archive(&archive).unwrap_err().kind(), Kind::Limit);
    assert!(!restored.exists());
}
