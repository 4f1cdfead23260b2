//! Checkpoints of several writers: whole or not at all, equal pieces once, and garbage where nobody commits.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use ztensor::{Attributes, Kind, Source, Writer};
use ztensor_store::protocol::GcOptions;
use ztensor_store::record::FileKind;
use ztensor_store::{AddOptions, Base, CreateOptions, Name, Part, Store};

fn file(tensors: &[(&str, &[f32])]) -> Arc<Source> {
    let mut writer = Writer::in_memory().unwrap();
    for (name, values) in tensors {
        writer.add(name, &[values.len() as u64], values).unwrap();
    }
    Arc::new(Source::from_bytes(writer.into_bytes().unwrap()))
}

fn part(store: &Store, path: &str, name: &str, tensors: &[(&str, &[f32])], base: Base) -> Part {
    let options = AddOptions { base, ..AddOptions::default() };
    store.add_part(vec![(path.to_owned(), file(tensors))], name, &options, &mut |_| Ok(())).unwrap()
}

fn values(seed: u32, count: u32) -> Vec<f32> {
    (0..count).map(|number| ((number.wrapping_mul(2_654_435_761) ^ seed) >> 8) as f32 / 1e6).collect()
}

#[test]
fn parts_become_one_checkpoint_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("store");
    let options = CreateOptions { grace: std::time::Duration::ZERO, ..CreateOptions::default() };
    let store = Store::create(&place, &options).unwrap();
    let (shared, one, two) = (values(1, 5000), values(2, 5000), values(3, 5000));
    let first = part(&store, "rank-0.zt", "step-1", &[("a", &one), ("same", &shared)], Base::Auto);
    let second = part(&store, "rank-1.zt", "step-1", &[("b", &two), ("same", &shared)], Base::Auto);
    assert!(store.list().unwrap().is_empty());

    // A part belongs to the checkpoint that it was made for, and no path occurs twice.
    let commit = |name: &str, parts: &[&Part]| {
        let records: Vec<&[u8]> = parts.iter().map(|part| part.record.as_slice()).collect();
        store.commit_parts(name, &records, Attributes::new())
    };
    assert_eq!(commit("step-2", &[&first]).unwrap_err().kind(), Kind::InvalidArgument);
    assert!(commit("step-1", &[&first, &first]).is_err());
    assert!(commit("step-1", &[]).is_err());
    assert!(store.commit_parts("step-1", &[b"nothing"], Attributes::new()).is_err());

    let stats = commit("step-1", &[&first, &second]).unwrap();
    assert_eq!((stats.files, stats.tensors), (2, 4));
    let checkpoint = store.checkpoint("step-1").unwrap();
    let digests: Vec<_> = checkpoint.manifest().entries.iter().map(|entry| entry.digest).collect();
    assert_eq!(digests.iter().collect::<std::collections::HashSet<_>>().len(), digests.len());
    for (path, name, expected) in
        [("rank-0.zt", "a", &one), ("rank-1.zt", "b", &two), ("rank-1.zt", "same", &shared)]
    {
        assert_eq!(checkpoint.open(path).unwrap().read_as::<f32>(name).unwrap(), *expected);
    }
    assert_eq!(commit("step-1", &[&first, &second]).unwrap_err().kind(), Kind::Duplicate);

    // Files of tensors have no digest of their own: what is restored is compared with those of the tensors.
    let is_lean =
        |file: &ztensor_store::record::File| matches!(file.kind, FileKind::Regular { sha256: None, .. });
    assert!(checkpoint.manifest().files.iter().all(is_lean));
    store.get("step-1", folder.path().join("restored"), &mut |_| Ok(())).unwrap();
    let restored = std::fs::read(folder.path().join("restored/rank-0.zt")).unwrap();
    let original = file(&[("a", &one), ("same", &shared)]);
    assert_eq!(restored, *original.bytes(0, original.len()).unwrap());

    // The next step is a difference to the one that is named; what nobody commits is collected, and what is there stays.
    let moved: Vec<f32> = one.iter().map(|value| value * 1.000_001).collect();
    let base = Base::Checkpoint(Name::new("step-1").unwrap());
    let next = part(&store, "rank-0.zt", "step-2", &[("a", &moved), ("same", &shared)], base);
    // One tensor, and what lies between the tensors of the file.
    assert_eq!((next.stats.deltas, next.stats.duplicates), (1, 2));
    let kept = store.stats().unwrap().packs;
    let lost = part(&store, "rank-1.zt", "step-3", &[("b", &values(9, 5000))], Base::None);
    commit("step-2", &[&next]).unwrap();
    assert_eq!(store.checkpoint("step-2").unwrap().manifest().parent.as_ref().unwrap().0.as_str(), "step-1");
    assert!(store.stats().unwrap().packs > kept);
    store.gc(GcOptions { now: true, force: true, dry_run: false }).unwrap();
    assert_eq!(store.stats().unwrap().packs, kept);
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());

    // A changed byte in a pack is found, and nothing that it damages is restored.
    let pack = store.checkpoint("step-2").unwrap().manifest().packs.last().unwrap().id;
    let file = place.join(ztensor_store::record::Pack::key(pack));
    let sound = std::fs::read(&file).unwrap();
    let restore = |output: &str| {
        let output = folder.path().join(output);
        let restored = store.get("step-2", &output, &mut |_| Ok(()));
        restored.map(|_| std::fs::read(output.join("rank-0.zt")).unwrap())
    };
    let original = restore("sound").unwrap();
    for place in (64..sound.len()).step_by(sound.len() / 7) {
        let mut changed = sound.clone();
        changed[place] ^= 4;
        std::fs::write(&file, changed).unwrap();
        assert!(!store.verify(false, &mut |_| Ok(())).unwrap().is_empty());
        // Where nothing noticed, what was changed lies around the pieces.
        assert_eq!(restore(&format!("damaged-{place}")).unwrap_or(original.clone()), original);
    }
    std::fs::write(&file, sound).unwrap();

    // A part that was collected cannot be committed any more.
    assert_eq!(commit("step-3", &[&lost]).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(store.list().unwrap().len(), 2);
}
