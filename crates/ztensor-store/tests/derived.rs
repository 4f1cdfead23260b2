//! Copies in other types: a checkpoint that was cast or quantised from one in the store takes what that does not tell, is read back byte for byte, and stays
//! readable when the other goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use ztensor::Writer;
use ztensor_store::protocol::GcOptions;
use ztensor_store::record::{Encoding, FileKind, Manifest};
use ztensor_store::{AddOptions, AddStats, Base, CreateOptions, Keep, Name, Store};

fn create(folder: &Path) -> Store {
    let options = CreateOptions { grace: Duration::ZERO, single_writer: false };
    Store::create(folder.join("store"), &options).unwrap()
}

fn add(store: &Store, path: &Path, name: &str) -> AddStats {
    store.add(path, name, &AddOptions::default(), &mut |_| Ok(())).unwrap()
}

fn is_restored(store: &Store, folder: &Path, name: &str, original: &Path) {
    let target = folder.join("restored");
    store.get(name, &target, &mut |_| Ok(())).unwrap();
    assert!(std::fs::read(&target).unwrap() == std::fs::read(original).unwrap(), "{name}");
    std::fs::remove_file(&target).unwrap();
}

fn manifest(store: &Store, name: &str) -> Manifest {
    store.checkpoint(name).unwrap().manifest().clone()
}

fn computed(manifest: &Manifest) -> usize {
    manifest.entries.iter().filter(|entry| matches!(entry.encoding, Encoding::Derived { .. })).count()
}

/// Numbers as a model has them: none of them twice in a row, most of them small.
fn weights(seed: u64, count: usize) -> Vec<half::bf16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| half::bf16::from_f32((random() + random() + random()) * 0.1)).collect()
}

const TENSORS: [(&str, &str, [u64; 2]); 3] = [
    ("model.embed_tokens.weight", "token_embd.weight", [96, 256]),
    ("model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight", [128, 256]),
    ("model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight", [192, 128]),
];

/// A small model of one type; `theirs` says whose names the tensors have.
fn model(folder: &Path, name: &str, seed: u64, kind: &str, theirs: bool) -> PathBuf {
    let path = folder.join(format!("{name}.zt"));
    let mut writer = Writer::create(&path).unwrap();
    for (number, (one, other, shape)) in (0..).zip(TENSORS) {
        let values = weights(seed + number, shape.iter().product::<u64>() as usize);
        let name = if theirs { other } else { one };
        match kind {
            "bf16" => writer.add(name, &shape, &values).unwrap(),
            "f16" => {
                let values: Vec<_> = values.iter().map(|value| half::f16::from_f32(value.to_f32())).collect();
                writer.add(name, &shape, &values).unwrap()
            }
            _ => {
                let values: Vec<_> = values.iter().map(|value| value.to_f32()).collect();
                writer.add(name, &shape, &values).unwrap()
            }
        };
    }
    writer.finish().unwrap();
    path
}

#[test]
fn copies_of_other_types_and_names_take_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    let base = add(&store, &model(folder.path(), "base", 1, "bf16", false), "base");
    // Of the same shapes, and no relative.
    add(&store, &model(folder.path(), "stranger", 99, "bf16", false), "stranger");
    for (name, kind, theirs) in [("full", "f32", false), ("half", "f16", true), ("renamed", "f32", true)] {
        let path = model(folder.path(), name, 1, kind, theirs);
        let stats = add(&store, &path, name);
        // The third is the first under other names.
        let expected = if name == "renamed" { 0 } else { 3 };
        assert_eq!((stats.computed, stats.parent.is_some()), (expected, true), "{name}: {stats:?}");
        assert!(stats.stored < base.stored / 20, "{name}: {stats:?}");
        is_restored(&store, folder.path(), name, &path);
    }
    assert_eq!(computed(&manifest(&store, "half")), 3);
    // Some bytes in the middle of one.
    let checkpoint = store.checkpoint("half").unwrap();
    let source = checkpoint.source("half.zt").unwrap();
    let whole = std::fs::read(folder.path().join("half.zt")).unwrap();
    for start in [64, 1001, whole.len() / 2, whole.len() - 3000] {
        assert!(*source.bytes(start as u64, 777).unwrap() == whole[start..start + 777], "{start}");
    }
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
}

#[test]
fn the_base_is_the_one_that_was_named_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    add(&store, &model(folder.path(), "base", 1, "bf16", false), "base");
    add(&store, &model(folder.path(), "stranger", 99, "bf16", false), "stranger");
    let path = model(folder.path(), "full", 1, "f32", false);
    for (base, expected) in [
        (Base::None, 0),
        (Base::Checkpoint(Name::new("stranger").unwrap()), 0),
        (Base::Checkpoint(Name::new("base").unwrap()), 3),
    ] {
        let options = AddOptions { base, dry_run: true, ..AddOptions::default() };
        let stats = store.add(&path, "full", &options, &mut |_| Ok(())).unwrap();
        assert_eq!(stats.computed, expected, "{stats:?}");
    }
}

#[test]
fn blocks_of_llama_cpp_are_computed_from_the_floats_they_were_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/derived");
    add(&store, &files.join("base.gguf"), "base");
    let alone = AddOptions { base: Base::None, dry_run: true, ..AddOptions::default() };
    let alone = store.add(files.join("blocks.gguf"), "blocks", &alone, &mut |_| Ok(())).unwrap();
    let stats = add(&store, &files.join("blocks.gguf"), "blocks");
    assert!(stats.computed >= 10 && stats.stored < alone.stored * 2 / 5, "{stats:?}, alone {alone:?}");
    is_restored(&store, folder.path(), "blocks", &files.join("blocks.gguf"));
}

#[test]
fn long_tensors_are_computed_part_by_part() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    let (rows, row) = (1100u64, 16 << 10);
    let values = weights(5, (rows * row) as usize);
    let wide: Vec<f32> = values.iter().map(|value| value.to_f32()).collect();
    let write = |name: &str, add: &dyn Fn(&mut Writer)| {
        let path = folder.path().join(name);
        let mut writer = Writer::create(&path).unwrap();
        add(&mut writer);
        writer.finish().unwrap();
        path
    };
    let narrow = write("narrow.zt", &|writer| writer.add("weight", &[rows, row], &values).unwrap());
    let wide = write("wide.zt", &|writer| writer.add("weight", &[rows, row], &wide).unwrap());
    for (first, second) in [(&narrow, &wide), (&wide, &narrow)] {
        let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (one, other) = (stem(first), stem(second));
        add(&store, first, &one);
        let stats = add(&store, second, &other);
        assert!(stats.computed >= 1 && stats.stored < 1 << 20, "{stats:?}");
        is_restored(&store, folder.path(), &other, second);
        store.remove(&one).unwrap();
        store.remove(&other).unwrap();
        store.gc(GcOptions { now: true, force: true, dry_run: false }).unwrap();
    }
}

#[test]
fn copies_stay_readable_when_what_they_were_computed_from_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    let gc = GcOptions { now: true, force: true, dry_run: false };
    add(&store, &model(folder.path(), "base", 1, "bf16", false), "run/base");
    let full = model(folder.path(), "full", 1, "f32", false);
    add(&store, &full, "run/full");
    store.remove("run/base").unwrap();
    store.gc(gc).unwrap();
    is_restored(&store, folder.path(), "run/full", &full);
    // What the other left is held by this one alone, and takes less than this one would by itself: it is kept.
    add(&store, &model(folder.path(), "again", 1, "bf16", false), "run/again");
    let half = model(folder.path(), "half", 1, "f16", false);
    add(&store, &half, "run/half");
    let keep = Keep { names: vec!["run/half".to_owned()], ..Keep::default() };
    store.prune("run", &keep, false).unwrap();
    store.gc(gc).unwrap();
    is_restored(&store, folder.path(), "run/half", &half);
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
}

#[test]
fn long_relatives_in_one_checkpoint_are_found_part_by_part() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    // Neither the rows of a part nor the parts of one type are a multiple of those of the other.
    let (rows, row) = (2100u64, 16385u64);
    let mut values: Vec<f32> =
        weights(5, (rows * row) as usize).iter().map(|value| value.to_f32() + 1e-6).collect();
    let narrow: Vec<half::bf16> = values.iter().map(|value| half::bf16::from_f32(*value)).collect();
    let path = folder.path().join("model.zt");
    let mut writer = Writer::create(&path).unwrap();
    writer.add("master.layer.weight", &[rows, row], &values).unwrap();
    writer.add("layer.weight", &[rows, row], &narrow).unwrap();
    values.iter_mut().step_by(1000).for_each(|value| *value *= 1.01);
    writer.add("average.layer.weight", &[rows, row], &values).unwrap();
    writer.finish().unwrap();
    let stats = add(&store, &path, "all");
    let manifest = manifest(&store, "all");
    let stored = |name: &str| {
        let FileKind::Regular { pieces, .. } = &manifest.files[0].kind else { panic!() };
        let own = pieces.iter().filter(|piece| piece.tensor.as_deref() == Some(name));
        let entries: Vec<_> = own.map(|piece| &manifest.entries[piece.entry]).collect();
        assert!(entries.len() > 1, "{name} is in one part");
        (entries.iter().map(|entry| entry.stored).sum::<u64>(), entries[0].length)
    };
    assert_eq!(stats.computed, 2, "{stats:?}");
    assert!(stored("layer.weight").0 < 1 << 20 && stored("average.layer.weight").0 < 1 << 20, "{manifest:?}");
    is_restored(&store, folder.path(), "all", &path);
    let checkpoint = store.checkpoint("all").unwrap();
    let (reader, name) = checkpoint.find("layer.weight").unwrap();
    // Around the end of its first part.
    let (start, mut found) = (stored("layer.weight").1 - 501, vec![0; 1003]);
    reader.component_range_into(&name, "data", start, &mut found).unwrap();
    let expected: Vec<u8> = narrow.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(found == expected[start as usize..][..1003]);
}
