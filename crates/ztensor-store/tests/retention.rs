//! Long runs: chains stay affordable however many checkpoints there are, and what a prune keeps does not hang on what it removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ztensor::{Kind, Writer};
use ztensor_store::protocol::GcOptions;
use ztensor_store::record::{FileKind, Manifest, Pack};
use ztensor_store::{AddOptions, Base, CreateOptions, Keep, Store};

const GC: GcOptions = GcOptions { now: true, force: true, dry_run: false };

fn create(folder: &Path) -> Store {
    let options = CreateOptions { grace: Duration::ZERO, single_writer: false };
    Store::create(folder.join("store"), &options).unwrap()
}

/// A model all of whose weights move a little with each step, and its copy in half precision.
fn model(folder: &Path, step: u32) -> PathBuf {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let start: Vec<f32> = (0..96 * 256).map(|_| random()).collect();
    let drift: Vec<f32> = (0..96 * 256).map(|_| random()).collect();
    let weights: Vec<f32> = start
        .iter()
        .zip(&drift)
        .map(|(weight, drift)| weight + 1e-4 * step as f32 * drift + 1e-6 * ((step * 7) as f32 * drift).sin())
        .collect();
    let half: Vec<half::bf16> = weights.iter().map(|weight| half::bf16::from_f32(*weight)).collect();
    let path = folder.join(format!("step-{step}.zt"));
    let mut writer = Writer::create(&path).unwrap();
    writer.add("weight", &[96, 256], &half).unwrap();
    writer.add("master.weight", &[96, 256], &weights).unwrap();
    writer.add("step", &[1], &[step]).unwrap();
    writer.finish().unwrap();
    path
}

fn run(store: &Store, folder: &Path, steps: u32) {
    for step in 0..steps {
        let options = AddOptions::default();
        store.add(model(folder, step), &format!("run/step-{step}"), &options, &mut |_| Ok(())).unwrap();
    }
}

fn manifest(store: &Store, step: u32) -> Manifest {
    store.checkpoint(&format!("run/step-{step}")).unwrap().manifest().clone()
}

fn is_restored(store: &Store, folder: &Path, step: u32) {
    let target = folder.join("restored");
    store.get(&format!("run/step-{step}"), &target, &mut |_| Ok(())).unwrap();
    let original = std::fs::read(folder.join(format!("step-{step}.zt"))).unwrap();
    assert!(std::fs::read(&target).unwrap() == original, "step {step}");
    std::fs::remove_file(&target).unwrap();
}

/// Digests of the pieces of files, and of the bases that no file has.
fn contents(manifest: &Manifest) -> HashSet<[u8; 32]> {
    let entries = manifest.files.iter().flat_map(|file| match &file.kind {
        FileKind::Regular { skeleton, pieces, .. } => {
            skeleton.iter().copied().chain(pieces.iter().map(|piece| piece.entry)).collect()
        }
        _ => Vec::new(),
    });
    entries.map(|entry| manifest.entries[entry].digest).collect()
}

/// Bytes in packs that checkpoints need.
fn needed(manifests: &[Manifest]) -> u64 {
    let mut seen = HashSet::new();
    let entries =
        manifests.iter().flat_map(|manifest| manifest.entries.iter().map(move |entry| (manifest, entry)));
    let fresh =
        entries.filter(|(manifest, entry)| seen.insert((manifest.packs[entry.pack].id, entry.offset)));
    fresh.map(|(_, entry)| entry.stored).sum()
}

#[test]
fn a_long_run_is_read_through_short_chains() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    run(&store, folder.path(), 40);
    let fresh = AddOptions { base: Base::None, dry_run: true, ..AddOptions::default() };
    let alone = store.add(model(folder.path(), 50), "alone", &fresh, &mut |_| Ok(())).unwrap().stored;
    let mut deltas = 0;
    for step in 0..40 {
        let manifest = manifest(&store, step);
        let fetched: u64 = manifest.entries.iter().map(|entry| entry.stored).sum();
        assert!(fetched <= 3 * alone, "step {step}: {fetched} bytes are read, {alone} would be afresh");
        assert!(manifest.deepest() <= AddOptions::default().deepest);
        deltas += manifest.entries.iter().filter(|entry| entry.encoding.has_base()).count();
        is_restored(&store, folder.path(), step);
    }
    assert!(deltas > 40, "{deltas}");
}

#[test]
fn what_a_prune_keeps_does_not_hang_on_what_it_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    run(&store, folder.path(), 24);
    // Alone, a checkpoint at the end of a chain holds all of it; beside others that need the same bases it frees nothing.
    let last = Keep { last: 3, ..Keep::default() };
    assert!(store.prune("run", &last, true).unwrap().reanchored.is_empty());
    let only = |step: u32| Keep { names: vec![format!("*-{step}")], ..Keep::default() };
    let hangs = |step: &u32| !store.prune("run", &only(*step), true).unwrap().reanchored.is_empty();
    let kept = [(1..24).find(hangs).expect("a checkpoint that hangs on others")];
    let keep = only(kept[0]);
    let planned = store.prune("run", &keep, true).unwrap();
    assert!((0..24).all(|step| manifest(&store, step).stamp.generation == 0), "a dry run changed something");
    let before: Vec<Manifest> = kept.iter().map(|step| manifest(&store, *step)).collect();
    let pruned = store.prune("run", &keep, false).unwrap();
    assert_eq!(planned, pruned);
    assert!(!pruned.reanchored.is_empty());
    let after: Vec<Manifest> = kept.iter().map(|step| manifest(&store, *step)).collect();
    assert!(needed(&after) < needed(&before), "{} {}", needed(&after), needed(&before));
    for (step, old) in kept.iter().zip(&before) {
        let new = manifest(&store, *step);
        let name = format!("run/step-{step}");
        assert_eq!(
            (contents(&new), new.stamp.origin, new.stamp.time),
            (contents(old), old.stamp.origin, old.stamp.time)
        );
        if pruned.reanchored.iter().any(|reanchored| reanchored.as_str() == name) {
            assert_eq!(new.stamp.generation, 1);
        }
        is_restored(&store, folder.path(), *step);
    }
    let packs = store.stats().unwrap().pack_bytes;
    store.gc(GC).unwrap();
    assert!(store.stats().unwrap().pack_bytes < packs);
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
    kept.iter().for_each(|step| is_restored(&store, folder.path(), *step));
    assert!(
        store.prune("run", &keep, false).unwrap().reanchored.is_empty(),
        "a second prune changes it again"
    );
}

#[test]
fn damage_is_found_before_a_new_generation_takes_the_place_of_the_old() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    run(&store, folder.path(), 12);
    let only = |step: u32| Keep { names: vec![format!("*-{step}")], ..Keep::default() };
    let hangs = |step: &u32| store.prune("run", &only(*step), true).unwrap().reanchored.len() == 1;
    let step = (1..12).find(hangs).expect("a checkpoint that hangs on others");
    let (keep, old) = (only(step), manifest(&store, step));
    // A byte of the pack that the checkpoint has of its own.
    let pack = folder.path().join("store").join(Pack::key(old.packs.last().unwrap().id));
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, bytes).unwrap();
    let error = store.prune("run", &keep, false).unwrap_err();
    assert!(matches!(error.kind(), Kind::Checksum | Kind::Malformed), "{error}");
    assert_eq!(manifest(&store, step), old);
}
