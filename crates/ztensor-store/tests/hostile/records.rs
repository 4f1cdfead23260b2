//! Whatever a record's bytes, reading one ends in a record or in an error.

use crate::{content, enclose, mutations};
use ztensor::recipe::{Number, Quantiser, Recipe, Rounding};
use ztensor::{Attributes, Value};
use ztensor_store::record::{
    Encoding, Entry, File, FileKind, Manifest, Operand, Pack, PackDigest, Piece, Record, Stamp,
};
use ztensor_store::{Id, Name};

const STORE: Id = Id([1; 16]);

/// The first entry, cast.
fn cast() -> Encoding {
    let recipe = Recipe::operand(0, Number::F32).cast(Number::Bf16, Rounding::Nearest).encode();
    Encoding::Derived { recipe, operands: vec![Operand::Entries(vec![0])] }
}

/// A block of the first two entries, and a scale of its own.
fn blocks() -> Encoding {
    let scale = Recipe::operand(1, Number::F16);
    let numbers = Recipe::operand(0, Number::F32).slice(0, 20);
    let more = Recipe::operand(0, Number::F32).slice(4, 12);
    let recipe = Recipe::join(vec![numbers, more]).blocks(Quantiser::named("q8_0").unwrap(), vec![scale]);
    let operands = vec![Operand::Entries(vec![0, 1]), Operand::Field { length: 2, stored: 10 }];
    Encoding::Derived { recipe: recipe.encode(), operands }
}

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
        kind: FileKind::Regular { mode: 0o644, length, sha256: Some([5; 32]), skeleton, pieces },
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
        packs: vec![Pack { id: Id([4; 16]), length: 200, digest: PackDigest::Sha256([6; 32]) }],
        entries: vec![
            entry(Encoding::Frame, 48, 30, 64),
            entry(Encoding::Delta { base: 0 }, 48, 20, 94),
            entry(Encoding::Raw, 12, 12, 114),
            Entry { dtype: "bf16".into(), ..entry(cast(), 24, 9, 126) },
            entry(blocks(), 34, 30, 135),
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
fn files_without_digests_and_quick_digests_of_packs_are_of_the_third_format() {
    let mut quick = manifest();
    quick.packs[0].digest = PackDigest::Xxh3([6; 16]);
    let mut lean = manifest();
    for file in &mut lean.files {
        if let FileKind::Regular { sha256, .. } = &mut file.kind {
            *sha256 = None;
        }
    }
    for manifest in [quick, lean] {
        let record = Record::Manifest(manifest);
        let bytes = record.encode(STORE).unwrap();
        assert_eq!(Record::decode(&bytes, STORE).unwrap(), record);
        let Value::Map(mut map) = content(&bytes) else { panic!() };
        assert_eq!(map.insert("format".into(), 2u64.into()), Some(3u64.into()));
        assert!(Record::decode(&enclose(&Value::Map(map)), STORE).is_err());
    }
    let bytes = Record::Manifest(manifest()).encode(STORE).unwrap();
    let Value::Map(map) = content(&bytes) else { panic!() };
    assert_eq!(map.get("format"), Some(&2u64.into()));
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

/// A manifest whose last entry has other items at its end, as CBOR.
fn changed(format: u64, change: &dyn Fn(&mut Vec<Value>)) -> ztensor::Result<Record> {
    let Value::Map(mut map) = content(&Record::Manifest(manifest()).encode(STORE).unwrap()) else { panic!() };
    map.insert("format".into(), format.into());
    let Some(Value::List(entries)) = map.get_mut("entries") else { panic!() };
    if format == 1 {
        entries.truncate(4);
    }
    let Some(Value::List(last)) = entries.last_mut() else { panic!() };
    change(last);
    Record::decode(&enclose(&Value::Map(map)), STORE)
}

#[test]
fn casts_of_the_first_format_need_a_base_of_another_float_type_and_as_many_elements() {
    let decode = |dtype: &str, length: u64| {
        changed(1, &|entry| {
            entry.truncate(8);
            (entry[1], entry[2], entry[4]) = (length.into(), dtype.into(), 3u64.into());
            entry.push(0u64.into());
        })
    };
    let Record::Manifest(found) = decode("bf16", 24).unwrap() else { panic!() };
    assert_eq!(found.entries[3].encoding, cast());
    assert!(decode("f16", 24).is_ok());
    for (dtype, length) in [("bf16", 23), ("bf16", 48), ("f32", 48), ("u8", 24), ("i16", 24), ("no type", 24)]
    {
        assert!(decode(dtype, length).is_err(), "{dtype} {length}");
    }
}

#[test]
fn recipes_fit_what_they_are_applied_to_and_those_of_later_releases_are_left_to_readers() {
    assert!(changed(2, &|_| ()).is_ok());
    let error = changed(1, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("no known encoding"), "{error}");
    let list = |items: &[u64]| Value::List(items.iter().map(|item| Value::from(*item)).collect());
    let operands = |first: Value, second: Value| {
        changed(2, &|entry| entry[9] = Value::List(vec![first.clone(), second.clone()]))
    };
    assert!(operands(list(&[0, 0, 1]), list(&[1, 2, 10])).is_ok());
    for (first, second) in [
        (list(&[0, 0]), list(&[1, 2, 10])),
        (list(&[0, 0, 4]), list(&[1, 2, 10])),
        (list(&[0, 0, 1]), list(&[1, 2, 31])),
        (list(&[0, 0, 1]), list(&[1, 2])),
        (list(&[0, 0, 1]), list(&[1, 4, 10])),
        (list(&[2, 0, 1]), list(&[1, 2, 10])),
        (list(&[]), list(&[1, 2, 10])),
    ] {
        assert!(operands(first.clone(), second.clone()).is_err(), "{first:?} {second:?}");
    }
    let recipe = |value: Value| changed(2, &move |entry| entry[8] = Value::Bytes(value.clone().to_cbor()));
    let later = Value::List(vec!["fold".into(), 3u64.into()]);
    assert!(recipe(later).is_ok(), "one unknown recipe spoils a manifest");
    assert!(recipe(Value::from(3u64)).is_err());
}

#[test]
fn what_decoding_takes_is_bounded_however_often_entries_are_referred_to() {
    let twice = |base: usize| {
        let halves =
            [Recipe::operand(0, Number::F32).slice(0, 6), Recipe::operand(0, Number::F32).slice(6, 6)];
        let operands = vec![Operand::Entries(vec![base, base])];
        Encoding::Derived { recipe: Recipe::join(halves.to_vec()).encode(), operands }
    };
    let depth = |count: usize| {
        let mut manifest = manifest();
        let first = manifest.entries[0].clone();
        manifest.entries.truncate(3);
        for base in 0..count {
            let base = if base == 0 { 0 } else { base + 2 };
            manifest.entries.push(Entry { encoding: twice(base), ..first.clone() });
        }
        Record::decode(&Record::Manifest(manifest).encode(STORE).unwrap(), STORE)
    };
    assert!(depth(10).is_ok());
    assert_eq!(depth(30).unwrap_err().kind(), ztensor::Kind::Limit);
}
