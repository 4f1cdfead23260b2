//! Whatever a record's bytes, reading one ends in a record or in an error.

use crate::{content, enclose, mutations};
use ztensor::{Attributes, Value};
use ztensor_store::record::{Encoding, Entry, File, FileKind, Manifest, Pack, Piece, Record, Stamp};
use ztensor_store::{Id, Name};

const STORE: Id = Id([1; 16]);

fn manifest() -> Manifest {
    let stamp = Stamp {
        name: Name::new("run/1").unwrap(),
        generation: 3,
        write: Id([2; 16]),
        origin: Id([3; 16]),
        time: 9,
    };
    let entry = |encoding, length, stored, offset| Entry {
        digest: [offset as u8; 32],
        length,
        dtype: "f32".into(),
        shape: vec![length / 4],
        encoding,
        pack: 0,
        offset,
        stored,
    };
    let regular = |path: &str, length, skeleton, pieces| File {
        path: path.into(),
        kind: FileKind::Regular { mode: 0o644, length, sha256: [5; 32], skeleton, pieces },
    };
    Manifest {
        parent: Some((Name::new("run/0").unwrap(), [8; 32])),
        metadata: Attributes::from([("key".to_owned(), Value::from(1u64))]),
        files: vec![
            File { path: "folder".into(), kind: FileKind::Folder { mode: 0o755 } },
            File { path: "folder/link".into(), kind: FileKind::Link { target: "../model".into() } },
            regular(
                "model",
                108,
                Some(2),
                vec![
                    Piece { gap: 3, entry: 1, tensor: Some("weight".into()) },
                    Piece { gap: 1, entry: 0, tensor: None },
                ],
            ),
        ],
        packs: vec![Pack { id: Id([4; 16]), length: 200, sha256: [6; 32] }],
        entries: vec![
            entry(Encoding::Frame, 48, 30, 64),
            entry(Encoding::Delta { base: 0 }, 48, 20, 94),
            entry(Encoding::Raw, 12, 12, 114),
            Entry { dtype: "bf16".into(), ..entry(Encoding::Cast { base: 0 }, 24, 9, 126) },
        ],
        ..Manifest::new(stamp)
    }
}

#[test]
fn records_survive() {
    let packs = [Id([1; 16]), Id([9; 16])].into_iter().collect();
    let records =
        [Record::Manifest(manifest()), Record::Tombstone(manifest().stamp), Record::Proposal(packs)];
    for record in records {
        let bytes = record.encode(STORE).unwrap();
        assert_eq!(Record::decode(&bytes, STORE).unwrap(), record);
        assert!(Record::decode(&bytes, Id([7; 16])).is_err(), "a record of another store is taken");
        assert_eq!(enclose(&content(&record.encode(STORE).unwrap())), bytes);
    }
}

#[test]
fn every_flip_and_every_cut_is_noticed() {
    let bytes = Record::Manifest(manifest()).encode(STORE).unwrap();
    for place in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << (place % 8);
        assert!(Record::decode(&flipped, STORE).is_err(), "{place}");
        assert!(Record::decode(&bytes[..place], STORE).is_err(), "{place}");
    }
}

#[test]
fn every_field_may_be_anything() {
    let mut tried = 0;
    mutations(&content(&Record::Manifest(manifest()).encode(STORE).unwrap()), &mut |value| {
        tried += 1;
        let Ok(record) = Record::decode(&enclose(&value), STORE) else { return };
        let Record::Manifest(manifest) = record else { return };
        for file in &manifest.files {
            let inside = file.path.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
            assert!(inside && !file.path.contains('\\'), "{}", file.path);
            if let FileKind::Link { target } = &file.kind {
                assert!(!target.starts_with('/') && !target.contains("../.."), "{target}");
            }
        }
        for number in 0..manifest.entries.len() {
            assert!(manifest.depth(number) <= 64);
        }
    });
    assert!(tried > 1000, "{tried}");
}

#[test]
fn links_and_paths_that_lead_out_are_refused() {
    let link = |path: &str, target: &str| {
        let files = vec![File { path: path.into(), kind: FileKind::Link { target: target.into() } }];
        let record = Record::Manifest(Manifest { files, ..Manifest::new(manifest().stamp) });
        Record::decode(&record.encode(STORE).unwrap(), STORE)
    };
    for (path, target) in
        [("a", ".."), ("a", "/x"), ("a/b", "../../x"), ("a", "b/../../x"), ("a", ""), ("../a", "b")]
    {
        assert!(link(path, target).is_err(), "{path} -> {target}");
    }
    for (path, target) in [("a", "b"), ("a/b", "../x"), ("a", "./b/../c")] {
        assert!(link(path, target).is_ok(), "{path} -> {target}");
    }
}

#[test]
fn casts_need_a_base_of_another_float_type_and_as_many_elements() {
    let decode = |dtype: &str, length: u64| {
        let mut manifest = manifest();
        let last = manifest.entries.last_mut().unwrap();
        (last.dtype, last.length) = (dtype.into(), length);
        let record = Record::Manifest(manifest);
        Record::decode(&record.encode(STORE).unwrap(), STORE)
    };
    assert!(decode("bf16", 24).is_ok() && decode("f16", 24).is_ok());
    for (dtype, length) in [("bf16", 23), ("bf16", 48), ("f32", 48), ("u8", 24), ("i16", 24), ("no type", 24)]
    {
        assert!(decode(dtype, length).is_err(), "{dtype} {length}");
    }
}
