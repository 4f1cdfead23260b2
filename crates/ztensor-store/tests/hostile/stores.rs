//! A whole store whose manifests and packs were changed by somebody who knows all digests: everything that reads it ends in an error or in the right bytes,
//! and nothing is written outside the folder that a checkpoint is restored to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::{content, enclose, mutations};
use ztensor::{Kind, Writer};
use ztensor_store::backend::{Backend, Memory};
use ztensor_store::protocol::GcOptions;
use ztensor_store::record::Pack;
use ztensor_store::{AddOptions, CreateOptions, Store, System};

const MANIFEST: &str = "checkpoints/b/0.m";

/// Two checkpoints, the second with deltas to the first, casts inside, a raw piece, a folder and a link.
fn store(folder: &Path) -> (Memory, Store) {
    let backend = Memory::new();
    let options = CreateOptions { grace: Duration::from_secs(60), single_writer: false };
    let store = Store::create_on(Arc::new(backend.clone()), Arc::new(System), &options).unwrap();
    for (step, name) in [(0u32, "a"), (1, "b")] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.join("below")).unwrap();
        let weights: Vec<f32> = (0..4096u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as f32 + (step * (i % 7 / 6)) as f32)
            .collect();
        let half: Vec<half::bf16> = weights.iter().map(|weight| half::bf16::from_f32(*weight)).collect();
        let mut writer = Writer::create(path.join("model.zt")).unwrap();
        writer.add("weight", &[64, 64], &half).unwrap();
        writer.add("master.weight", &[64, 64], &weights).unwrap();
        writer.finish().unwrap();
        std::fs::write(path.join("below/note"), format!("{step}")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../model.zt", path.join("below/link")).unwrap();
        store.add(&path, name, &AddOptions::default(), &mut |_| Ok(())).unwrap();
    }
    (backend, store)
}

/// The same objects, one of them with other bytes.
fn copied(from: &Memory, key: &str, bytes: &[u8]) -> Store {
    let backend = Memory::new();
    for other in from.keys() {
        let own = from.read(&other, 1 << 30).unwrap().unwrap();
        backend.create(&other, if other == key { bytes } else { &own }).unwrap();
    }
    Store::open_on(Arc::new(backend), Arc::new(System)).unwrap()
}

/// Does everything that reads a store. Returns whether the second checkpoint was restored.
fn use_all(store: &Store, original: &Path) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("in/restored");
    let _ = store.list();
    let _ = store.stats();
    let _ = store.gc(GcOptions { dry_run: true, ..GcOptions::default() });
    let _ = store.verify(true, &mut |_| Ok(()));
    let _ = store.diff("a", "b");
    if let Ok(checkpoint) = store.checkpoint("b") {
        for (shown, _, _) in checkpoint.tensors().unwrap_or_default() {
            let _ = checkpoint
                .find(&shown)
                .and_then(|(reader, name)| reader.component_bytes(&name, "data").map(drop));
        }
    }
    let restored = store.get("b", &target, &mut |_| Ok(())).is_ok();
    let outside: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(outside.iter().all(|name| name == "in"), "{outside:?}");
    let model = target.join("model.zt");
    if restored && model.is_file() {
        assert!(std::fs::read(model).unwrap() == std::fs::read(original.join("model.zt")).unwrap());
    }
    restored
}

#[test]
fn every_field_of_a_manifest_may_be_anything() {
    let folder = tempfile::tempdir().unwrap();
    let (backend, store) = store(folder.path());
    let original = folder.path().join("b");
    assert!(use_all(&store, &original));
    let manifest = backend.read(MANIFEST, 1 << 30).unwrap().unwrap();
    let (mut restored, mut refused) = (0, 0);
    mutations(&content(&manifest), &mut |value| match use_all(
        &copied(&backend, MANIFEST, &enclose(&value)),
        &original,
    ) {
        true => restored += 1,
        false => refused += 1,
    });
    // A parent, a time or a hint may be anything; what says where bytes are may not.
    assert!(restored > 5 && refused > 5 * restored, "{restored} {refused}");
}

#[test]
fn every_piece_of_a_pack_may_be_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (backend, store) = store(folder.path());
    let original = folder.path().join("b");
    let manifest = store.checkpoint("b").unwrap().manifest().clone();
    for entry in &manifest.entries {
        let key = Pack::key(manifest.packs[entry.pack].id);
        let bytes = backend.read(&key, 1 << 30).unwrap().unwrap();
        for place in [0, entry.stored / 3, entry.stored / 2, entry.stored.saturating_sub(1)] {
            let mut flipped = bytes.clone();
            flipped[(entry.offset + place) as usize] ^= 0x41;
            let store = copied(&backend, &key, &flipped);
            assert!(!use_all(&store, &original), "{key}: {place} of entry at {}", entry.offset);
            let problems = store.verify(false, &mut |_| Ok(())).unwrap();
            assert!(problems.iter().any(|problem| problem.name.as_str() == "b"));
        }
        let store = copied(&backend, &key, &bytes[..(entry.offset + entry.stored / 2) as usize]);
        assert!(!use_all(&store, &original));
    }
}

#[test]
fn memory_is_not_taken_by_what_a_manifest_claims() {
    let folder = tempfile::tempdir().unwrap();
    let (backend, _) = store(folder.path());
    let manifest = backend.read(MANIFEST, 1 << 30).unwrap().unwrap();
    let mut value = content(&manifest);
    let ztensor::Value::Map(map) = &mut value else { panic!() };
    let huge = ztensor::Value::from(1u64 << 39);
    for (key, place) in [("packs", 1), ("entries", 1), ("entries", 7)] {
        let Some(ztensor::Value::List(items)) = map.get_mut(key) else { panic!() };
        for item in items {
            let ztensor::Value::List(fields) = item else { panic!() };
            fields[place] = huge.clone();
        }
    }
    let store = copied(&backend, MANIFEST, &enclose(&value));
    let kind = store.checkpoint("b").err().map(|error| error.kind());
    assert!(matches!(kind, Some(Kind::Malformed | Kind::Limit)), "{kind:?}");
}
