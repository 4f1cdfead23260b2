//! What wrong files do: an error, never a panic, and no time or memory out of proportion.

use std::path::Path;
use std::time::{Duration, Instant};

use ztensor::{Kind, Reader, Result};

use crate::builder::{Builder, attribute, chunk_key, chunked, contiguous, float32, link, space, tree};

fn read_all(bytes: Vec<u8>) -> Result<()> {
    let reader = Reader::from_bytes(bytes)?;
    for (name, object) in reader.objects() {
        // A changed shape may stand for any number of fill values.
        if object.decoded_length() <= 1 << 20 {
            reader.component_bytes(name, "data")?;
        }
    }
    Ok(())
}

/// The valid files of the corpus, by name.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/valid/hdf5");
    let mut files: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn every_truncation_is_refused() {
    for (name, file) in files() {
        for length in 0..file.len() {
            assert!(read_all(file[..length].to_vec()).is_err(), "{name} cut to {length} bytes");
        }
    }
}

#[test]
fn every_flipped_byte_ends_in_a_result() {
    for (_, file) in files() {
        for position in 0..file.len() {
            let mut changed = file.clone();
            changed[position] ^= [0xFF, 0x01, 0x80][position % 3];
            // Many flips leave a legal file; what counts is that nothing panics.
            let _ = read_all(changed);
        }
    }
}

#[test]
fn damaged_metadata_is_noticed_by_its_checksum() {
    let (_, file) = files().into_iter().find(|(name, _)| name == "many-links.h5").unwrap();
    for signature in [b"\x89HDF", b"OHDR", b"FRHP", b"FHDB", b"BTHD", b"BTLF"] {
        let start = file.windows(4).position(|window| window == signature).unwrap();
        let mut damaged = file.clone();
        // Late enough in each structure to leave its signature, version and lengths alone.
        damaged[start + 24] ^= 1;
        let error = read_all(damaged).unwrap_err();
        assert!(error.message().contains("checksum"), "{}: {error}", String::from_utf8_lossy(signature));
    }
}

/// Runs something that must not take long, however slow the machine.
fn quickly<T>(action: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = action();
    assert!(start.elapsed() < Duration::from_secs(30));
    result
}

#[test]
fn groups_that_multiply_are_walked_once() {
    // 60 groups with two links each to the next would be 2^60 paths.
    let mut builder = Builder::new();
    let mut address = builder.dataset(&[1.0]);
    for _ in 0..60 {
        address = builder.group(&[("a", address), ("b", address)]);
    }
    let reader = quickly(|| Reader::from_bytes(builder.finish(address))).unwrap();
    assert_eq!(reader.len(), 2);
    assert_eq!(reader.skipped().len(), 59);
}

#[test]
fn a_chain_of_groups_ends_at_the_limit() {
    let mut builder = Builder::new();
    let mut address = builder.dataset(&[1.0]);
    for _ in 0..200_000 {
        address = builder.group(&[("g", address)]);
    }
    let error = quickly(|| Reader::from_bytes(builder.finish(address))).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}

#[test]
fn trees_that_multiply_run_out_of_allowance() {
    // Each node of a tree of 100 levels leads twice to the same node below.
    let mut builder = Builder::new();
    let key = || chunk_key(8, 0, &[0]);
    let mut node = builder.put(&tree(1, 0, &[]));
    for level in 1..100 {
        node = builder.put(&tree(1, level, &[(key(), node), (key(), node)]));
    }
    let file = builder.one(&[space(&[4]), float32(), chunked(node, &[2], 4)]);
    assert_eq!(quickly(|| Reader::from_bytes(file)).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn datasets_that_share_one_long_list_run_out_of_allowance() {
    let mut builder = Builder::new();
    let entries: Vec<_> = (0..60_000).map(|number| (chunk_key(4, 0, &[number]), 96)).collect();
    let list = builder.put(&tree(1, 0, &entries));
    let links: Vec<_> = (0..20_000)
        .map(|number| {
            let dataset = builder.header(&[space(&[60_000]), float32(), chunked(list, &[1], 4)]);
            link(&format!("d{number}"), dataset)
        })
        .collect();
    let root = builder.header(&links);
    assert_eq!(quickly(|| Reader::from_bytes(builder.finish(root))).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn a_long_name_repeated_in_every_path_runs_out_of_allowance() {
    let mut builder = Builder::new();
    let dataset = builder.dataset(&[1.0]);
    let links: Vec<_> = (0..100_000).map(|number| link(&format!("{number}"), dataset)).collect();
    let mut address = builder.header(&links);
    for _ in 0..60 {
        address = builder.group(&[("n".repeat(250).as_str(), address)]);
    }
    let error = quickly(|| Reader::from_bytes(builder.finish(address))).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}

#[test]
fn a_dataset_larger_than_its_file_could_hold_is_not_listed() {
    for layout in [contiguous(u64::MAX, 0), chunked(u64::MAX, &[1 << 30], 4)] {
        let reader = Reader::from_bytes(Builder::new().one(&[space(&[1 << 50]), float32(), layout])).unwrap();
        assert!(reader.is_empty());
        assert!(reader.skipped()[0].reason.contains("more than the file holds"));
    }
}

#[test]
fn a_chunk_cannot_ask_for_more_memory_than_it_could_fill() {
    let mut builder = Builder::new();
    let data = builder.put(&[0; 8]);
    let list = builder.put(&tree(1, 0, &[(chunk_key(8, 0, &[0]), data)]));
    let messages = [space(&[4]), float32(), chunked(list, &[1 << 30], 4), crate::builder::filters(&[1])];
    let reader = Reader::from_bytes(builder.one(&messages)).unwrap();
    let error = reader.bytes("x").unwrap_err();
    assert!(error.message().contains("too short"), "{error}");
}

#[test]
fn attribute_lists_are_bounded_by_their_bytes() {
    let mut builder = Builder::new();
    let dataset = builder.dataset(&[1.0]);
    let root = builder.header(&[link("w", dataset), attribute("a", &[u64::MAX], &[0; 8])]);
    let error = Reader::from_bytes(builder.finish(root)).unwrap_err();
    assert!(error.message().contains("shorter"), "{error}");
}
