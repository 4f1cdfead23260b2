//! Proof by exhaustion that a crash leaves the old state or the new. Every change to the disk is recorded while an operation runs; then each disk
//! that a crash may leave is made in memory and opened: after every event, with each choice of what was not yet synced, torn at sectors.
//! `simulation.rs` makes those disks, `scenarios.rs` has the operations.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod scenarios;
mod simulation;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use super::record::{Fault, recorded};
use crate::error::{Kind, Result};
use crate::reader::Reader;
use crate::{Compression, DType, TensorInput, Writer};
use simulation::{Disk, Loss};

/// The content of a file as its reader sees it: the bytes of each tensor.
type Tensors = BTreeMap<String, Vec<u8>>;

/// What a path holds.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    Nothing,
    Tensors(Tensors),
    Bytes(Vec<u8>),
    /// It does not open.
    Broken(String),
}

/// What a file holds: its tensors if it is a `.zt` file, its bytes otherwise.
fn content(path: &Path, bytes: Option<&[u8]>) -> Content {
    let Some(bytes) = bytes else { return Content::Nothing };
    if path.extension().is_none_or(|end| end != "zt") {
        return Content::Bytes(bytes.to_vec());
    }
    let read = || -> Result<Tensors> {
        let reader = Reader::from_bytes(bytes.to_vec())?;
        reader.names().map(|name| Ok((name.to_owned(), reader.bytes(name)?.into_owned()))).collect()
    };
    read().map_or_else(|error| Content::Broken(error.to_string()), Content::Tensors)
}

fn content_on_disk(path: &Path) -> Content {
    content(path, std::fs::read(path).ok().as_deref())
}

/// Runs an operation on a file, and checks every crash and every failure of the disk on the way. Returns how many disks were opened.
fn survives(
    name: &str,
    prepare: &dyn Fn(&Path),
    file: &str,
    loss: Loss,
    operation: &dyn Fn(&Path) -> Result<()>,
) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let path = folder.join(file);
    prepare(&path);
    let (before, old) = (Disk::of(&folder), content_on_disk(&path));
    let (result, events) = recorded(None, || operation(&path));
    result.unwrap();
    let new = content_on_disk(&path);
    assert!(!matches!(new, Content::Broken(_) | Content::Nothing), "{name}: {new:?}");
    let mut opened = 0;
    before.crashes(&events, loss, &mut |disk| {
        let found = content(&path, disk.file(&path));
        assert!(found == old || found == new, "{name}: neither old nor new after a crash: {found:?}");
        // Some of them are written to: that tidies up, and nothing is lost.
        if opened % 97 == 0 && matches!(old, Content::Tensors(_)) && matches!(found, Content::Tensors(_)) {
            write_again(name, disk.file(&path).unwrap(), &found);
        }
        opened += 1;
    });
    let replayed = before.after(&events);
    assert_eq!(content(&path, replayed.file(&path)), new, "{name}: not every change was recorded");
    assert!(opened > 1, "{name}: nothing was recorded");
    opened + fails(name, prepare, file, &old, &new, events.len(), operation)
}

/// Lets each change fail, alone and with all that follow.
fn fails(
    name: &str,
    prepare: &dyn Fn(&Path),
    file: &str,
    old: &Content,
    new: &Content,
    events: usize,
    operation: &dyn Fn(&Path) -> Result<()>,
) -> usize {
    let mut tried = 0;
    for (at, kind, lasting) in (0..events).flat_map(|at| {
        { [ErrorKind::StorageFull, ErrorKind::Other].map(|kind| [(at, kind, false), (at, kind, true)]) }
            .into_iter()
            .flatten()
    }) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join(file);
        prepare(&path);
        let (result, _) = recorded(Some(Fault { at, kind, lasting }), || operation(&path));
        let found = content_on_disk(&path);
        let what = format!("{name}: change {at} failed with {kind:?}, lasting {lasting}: {result:?}");
        match result {
            Ok(()) => assert_eq!(&found, new, "{what}"),
            Err(error) => {
                assert!(&found == old || &found == new, "{what}: {found:?}");
                if kind == ErrorKind::StorageFull && error.kind() == Kind::NoSpace {
                    let promise = error.hint().is_some_and(|hint| hint.contains("unchanged"));
                    let unchanged = &found == old || matches!(old, Content::Broken(_));
                    assert!(!promise || unchanged, "{what}: promised that nothing changed");
                }
            }
        }
        if let Content::Tensors(_) = found {
            write_again(name, &std::fs::read(&path).unwrap(), &found);
        }
        tried += 1;
    }
    tried
}

/// Appends to what a crash left, and repairs it.
fn write_again(name: &str, bytes: &[u8], found: &Content) {
    recorded(None, || append_and_repair(name, bytes, found));
}

fn append_and_repair(name: &str, bytes: &[u8], found: &Content) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.zt");
    std::fs::write(&path, bytes).unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.add("again", &[3], &[7u8; 3]).unwrap();
    writer.finish().unwrap();
    let Content::Tensors(mut expected) = found.clone() else { return };
    expected.insert("again".into(), vec![7; 3]);
    assert_eq!(content_on_disk(&path), Content::Tensors(expected), "{name}: appended to what was left");
    assert_eq!(Reader::open(&path).unwrap().recovered(), None);
    std::fs::write(&path, bytes).unwrap();
    crate::repair(&path).unwrap();
    assert_eq!(&content_on_disk(&path), found, "{name}: repaired what was left");
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.recovered(), None);
    if !reader.is_empty() {
        assert_eq!(std::fs::read(&path).unwrap()[8..64], [0; 56], "{name}: the record is gone");
    }
}

/// A `.zt` file of some tensors.
fn write_tensors(path: &Path, tensors: &[(&str, &[u8])]) {
    let mut writer = Writer::create(path).unwrap();
    for (name, bytes) in tensors {
        let input = TensorInput::dense([bytes.len() as u64], DType::U8, bytes);
        writer.write_object(name, &input, Compression::None, crate::Checksum::Crc32c).unwrap();
    }
    writer.finish().unwrap();
}

/// Bytes of a tensor that look like the end of a `.zt` file at every sector: where a write is cut off, there is a whole, valid state of somebody else's.
fn footers(sectors: usize) -> Vec<u8> {
    let mut writer = Writer::in_memory().unwrap();
    writer.add("inner", &[64], &[1u8; 64]).unwrap();
    let inner = writer.into_bytes().unwrap();
    let tail = &inner[128..];
    let mut sector = vec![0; 512 - tail.len()];
    sector.extend_from_slice(tail);
    assert!(Reader::from_bytes([&b"ZTEN1000"[..], &[0; 56], &sector].concat()).unwrap().contains("inner"));
    sector.repeat(sectors)
}
