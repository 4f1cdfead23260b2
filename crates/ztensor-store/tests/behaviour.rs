//! What a store does, on every backend alike: `suite!` runs the same tests over each. A new backend adds one line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ztensor::{Kind, Writer};
use ztensor_store::backend::{Backend, Directory, Memory};
use ztensor_store::protocol::GcOptions;
use ztensor_store::{AddOptions, Base, CreateOptions, Store, System};

/// A backend and what keeps it alive.
struct Place {
    backend: Arc<dyn Backend>,
    _folder: tempfile::TempDir,
}

fn directory() -> Place {
    let folder = tempfile::tempdir().unwrap();
    Place { backend: Arc::new(Directory::new(folder.path().join("store"))), _folder: folder }
}

fn memory() -> Place {
    Place { backend: Arc::new(Memory::new()), _folder: tempfile::tempdir().unwrap() }
}

fn create(place: &Place) -> Store {
    let options = CreateOptions { grace: Duration::ZERO, single_writer: false };
    Store::create_on(Arc::clone(&place.backend), Arc::new(System), &options).unwrap()
}

fn add(store: &Store, path: &Path, name: &str) -> ztensor_store::AddStats {
    store.add(path, name, &AddOptions::default(), &mut |_| Ok(())).unwrap()
}

/// Weights that repeat nowhere, a little different for each step.
fn weights(seed: u64, count: usize, step: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let value = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let moved = |(place, value): (usize, f32)| match (place as u32).wrapping_mul(2_654_435_761) >> 29 {
        0 => value * (1.0 + 1e-4 * step as f32),
        _ => value,
    };
    (0..count).map(value).enumerate().map(moved).collect()
}

/// A checkpoint's folder as trainers write it.
fn checkpoint(folder: &Path, step: u32) -> PathBuf {
    let path = folder.join(format!("checkpoint-{step}"));
    std::fs::create_dir_all(path.join("nested/empty")).unwrap();
    let mut writer = Writer::create(path.join("model.zt")).unwrap();
    writer.add("layer.weight", &[128, 256], &weights(1, 128 * 256, step)).unwrap();
    writer.add("layer.bias", &[256], &weights(2, 256, step)).unwrap();
    writer.add("frozen", &[64, 64], &weights(3, 64 * 64, 0)).unwrap();
    writer.finish().unwrap();
    std::fs::write(path.join("config.json"), format!("{{\"step\": {step}}}")).unwrap();
    std::fs::write(path.join("tokenizer.bin"), vec![7u8; 10_000]).unwrap();
    std::fs::write(path.join("nested/nothing"), b"").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path.join("config.json"), std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("../model.zt", path.join("nested/latest")).unwrap();
    }
    path
}

/// Everything in a folder: paths, modes, bytes and targets.
fn contents(folder: &Path) -> Vec<(String, String)> {
    fn walk(folder: &Path, prefix: &str, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            let metadata = std::fs::symlink_metadata(entry.path()).unwrap();
            #[cfg(unix)]
            let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
            #[cfg(not(unix))]
            let mode = 0;
            if metadata.is_symlink() {
                found.push((name, format!("-> {:?}", std::fs::read_link(entry.path()).unwrap())));
            } else if metadata.is_dir() {
                found.push((name.clone(), format!("{mode:o}")));
                walk(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push((name, format!("{mode:o} {:?}", std::fs::read(entry.path()).unwrap())));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, "", &mut found);
    found.sort();
    found
}

fn restored(store: &Store, name: &str) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("restored");
    store.get(name, &target, &mut |_| Ok(())).unwrap();
    contents(&target)
}

fn relatives_inside_a_checkpoint_are_bases(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let count = 256 * 256;
    for step in 0..4u32 {
        let path = folder.path().join(format!("checkpoint-{step}"));
        std::fs::create_dir_all(&path).unwrap();
        let values = weights(7 + u64::from(step), count, 0);
        let narrow: Vec<half::bf16> = values.iter().map(|value| half::bf16::from_f32(*value)).collect();
        let mut writer = Writer::create(path.join("master.zt")).unwrap();
        writer.add("master.layer.weight", &[256, 256], &values).unwrap();
        writer.finish().unwrap();
        let mut writer = Writer::create(path.join("model.zt")).unwrap();
        writer.add("layer.weight", &[256, 256], &narrow).unwrap();
        writer.finish().unwrap();
        let stats = add(&store, &path, &format!("run/step-{step}"));
        // The bf16 weights are those of the master copy, rounded: they take next to nothing.
        assert!(stats.deltas >= 1 && stats.stored < 4 * count as u64, "{stats:?}");
        let checkpoint = store.checkpoint(&format!("run/step-{step}")).unwrap();
        let cast = |entry: &&ztensor_store::record::Entry| {
            matches!(entry.encoding, ztensor_store::record::Encoding::Derived { .. })
        };
        let entry = checkpoint.manifest().entries.iter().find(cast).unwrap();
        assert!(entry.stored < entry.length / 100, "{entry:?}");
        assert_eq!(restored(&store, &format!("run/step-{step}")), contents(&path));
        let mut slice = vec![0; 10];
        let source = checkpoint.source("model.zt").unwrap();
        slice.copy_from_slice(&source.bytes(source.len() / 2 + 1, 10).unwrap());
        let whole = std::fs::read(path.join("model.zt")).unwrap();
        assert_eq!(slice, whole[whole.len() / 2 + 1..][..10]);
    }
}

fn folders_come_back_byte_for_byte(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    for step in 0..12 {
        let path = checkpoint(folder.path(), step);
        let stats = add(&store, &path, &format!("run/step-{step}"));
        if step > 0 {
            assert!(stats.stored < stats.original / 2, "step {step}: {stats:?}");
            assert!(stats.deltas > 0 && stats.duplicates > 0, "{stats:?}");
            assert!(stats.parent.unwrap().starts_with("run/step-"));
        }
    }
    for step in 0..12 {
        let name = format!("run/step-{step}");
        assert_eq!(restored(&store, &name), contents(&folder.path().join(format!("checkpoint-{step}"))));
        assert!(store.checkpoint(&name).unwrap().manifest().deepest() <= AddOptions::default().deepest);
    }
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
}

fn single_files_come_back_under_any_name(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let path = checkpoint(folder.path(), 1).join("model.zt");
    add(&store, &path, "one");
    let target = folder.path().join("copy.zt");
    store.get("one", &target, &mut |_| Ok(())).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(&path).unwrap());
    let error = store.get("one", &target, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), Kind::Duplicate);
    let into = store.get("one", folder.path(), &mut |_| Ok(())).unwrap();
    assert_eq!(into.path, folder.path().join("model.zt"));
}

fn one_tensor_is_read_through_its_chain(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    for step in 0..5 {
        add(&store, &checkpoint(folder.path(), step), &format!("s{step}"));
    }
    let opened = store.checkpoint("s4").unwrap();
    let (reader, name) = opened.find("layer.weight").unwrap();
    assert_eq!(reader.read_as::<f32>(&name).unwrap(), weights(1, 128 * 256, 4));
    let mut part = [0u8; 400];
    reader.component_range_into(&name, "data", 4000, &mut part).unwrap();
    let expected: Vec<u8> =
        weights(1, 128 * 256, 4)[1000..1100].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(part[..], expected);
    assert_eq!(opened.tensors().unwrap().len(), 3);
    assert_eq!(opened.find("nothing").err().unwrap().kind(), Kind::NoSuchTensor);
}

fn equal_tensors_are_stored_once_whatever_their_name_and_file(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let values = weights(5, 64 * 1024, 0);
    let mut writer = Writer::create(folder.path().join("a.zt")).unwrap();
    writer.add("weight", &[256, 256], &values).unwrap();
    writer.finish().unwrap();
    let header = br#"{"renamed":{"dtype":"F32","shape":[65536],"data_offsets":[0,262144]}}       "#;
    let mut safetensors = (header.len() as u64).to_le_bytes().to_vec();
    safetensors.extend_from_slice(header);
    safetensors.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    std::fs::write(folder.path().join("b.safetensors"), safetensors).unwrap();
    let first = add(&store, &folder.path().join("a.zt"), "a");
    let second = add(&store, &folder.path().join("b.safetensors"), "b");
    assert!(second.stored < 1000 && first.stored > 100_000, "{first:?} {second:?}");
    assert_eq!(second.duplicates, 1);
}

fn a_renamed_and_changed_tensor_finds_its_base(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, tensor: &str, values: &[f32]| {
        let path = folder.path().join(name);
        let mut writer = Writer::create(&path).unwrap();
        writer.add(tensor, &[256, 256], values).unwrap();
        writer.finish().unwrap();
        path
    };
    add(&store, &write("a.zt", "old.name", &weights(5, 65536, 0)), "a");
    add(&store, &write("other.zt", "unrelated", &weights(6, 65536, 0)), "other");
    let stats = add(&store, &write("b.zt", "new.name", &weights(5, 65536, 3)), "b");
    assert_eq!((stats.deltas, stats.parent.as_deref()), (1, Some("a")), "{stats:?}");
    let options = AddOptions { base: Base::None, ..AddOptions::default() };
    let path = write("c.zt", "new.name", &weights(5, 65536, 4));
    let alone = store.add(path, "c", &options, &mut |_| Ok(())).unwrap();
    assert!(alone.deltas == 0 && alone.stored > 2 * stats.stored, "{alone:?} {stats:?}");
}

fn files_that_are_no_models_and_change_little_are_differences(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    // Text of 5 MB, which is stored in two pieces.
    let line = |number: u32| format!("\"token-{:08x}\": {number},\n", number.wrapping_mul(2_654_435_761));
    let lines: Vec<String> = (0..200_000).map(line).collect();
    let path = folder.path().join("vocabulary.json");
    let whole = |lines: &[String]| lines.concat().into_bytes();
    let first = whole(&lines);
    let mut changed = first.clone();
    changed[1_000_000..1_000_008].copy_from_slice(b"CHANGED!");
    let mut inserted = lines.clone();
    inserted.insert(10, "\"something new\": 1,\n".to_owned());
    inserted.remove(120_000);
    let appended: Vec<String> = inserted.iter().cloned().chain((0..50).map(line)).collect();
    let mut alone = 0;
    for (name, bytes) in [
        ("a", first),
        ("b", changed),
        ("c", whole(&inserted)),
        ("d", whole(&appended)),
        ("e", whole(&lines[..100])),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let stats = add(&store, &path, name);
        match name {
            "a" => alone = stats.stored,
            // Pieces that are equal are stored once, and what is left of one need not be worth a difference.
            "e" => assert!(stats.stored < 3000, "{name}: {stats:?}"),
            _ => {
                assert!(stats.deltas > 0 && stats.stored < alone / 200, "{name}: {stats:?}, at first {alone}")
            }
        }
        let target = folder.path().join("restored");
        store.get(name, &target, &mut |_| Ok(())).unwrap();
        assert!(std::fs::read(&target).unwrap() == bytes, "{name}");
        std::fs::remove_file(&target).unwrap();
    }
    // They are text to a reader who wants a part, too.
    let source = store.checkpoint("c").unwrap().source("vocabulary.json").unwrap();
    assert_eq!(source.bytes(4_300_001, 9999).unwrap()[..], whole(&inserted)[4_300_001..][..9999]);
    // What others were stored against goes, and they stay.
    store.remove("a").unwrap();
    store.remove("b").unwrap();
    store.gc(GcOptions { now: true, force: true, dry_run: false }).unwrap();
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
}

fn names_are_taken_once_until_they_are_removed(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let path = checkpoint(folder.path(), 1);
    add(&store, &path, "a/b");
    let again = store.add(&path, "a/b", &AddOptions::default(), &mut |_| Ok(())).unwrap_err();
    assert_eq!(again.kind(), Kind::Duplicate);
    add(&store, &path, "a");
    assert_eq!(
        store.list().unwrap().iter().map(|listing| listing.name.to_string()).collect::<Vec<_>>(),
        ["a", "a/b"]
    );
    store.remove("a/b").unwrap();
    assert_eq!(store.checkpoint("a/b").err().unwrap().kind(), Kind::Gone);
    assert_eq!(store.remove("a/b").unwrap_err().kind(), Kind::Gone);
    assert_eq!(store.remove("never").unwrap_err().kind(), Kind::NotFound);
    add(&store, &path, "a/b");
    assert_eq!(restored(&store, "a/b"), contents(&path));
}

fn what_is_removed_goes_and_what_stays_is_readable(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    for step in 0..4 {
        add(&store, &checkpoint(folder.path(), step), &format!("s{step}"));
    }
    let before = store.stats().unwrap();
    store.remove("s0").unwrap();
    store.remove("s1").unwrap();
    let options = GcOptions { now: true, force: true, dry_run: false };
    let dry = store.gc(GcOptions { dry_run: true, ..options }).unwrap();
    assert_eq!(store.stats().unwrap().packs, before.packs);
    store.gc(options).unwrap();
    assert!(dry.damaged.is_empty() && dry.unknown.is_empty());
    // What stays refers to the first: its pack has to stay.
    for step in 2..4 {
        assert_eq!(
            restored(&store, &format!("s{step}")),
            contents(&folder.path().join(format!("checkpoint-{step}")))
        );
    }
    store.remove("s2").unwrap();
    store.remove("s3").unwrap();
    assert!(store.gc(GcOptions { force: false, ..options }).is_err(), "all bytes go without being asked for");
    store.gc(options).unwrap();
    let after = store.stats().unwrap();
    assert_eq!((after.checkpoints, after.packs), (0, 0));
}

fn pins_keep_what_was_removed(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    add(&store, &checkpoint(folder.path(), 1), "a");
    let opened = store.checkpoint("a").unwrap();
    let pin = store.pin("a").unwrap();
    store.remove("a").unwrap();
    let options = GcOptions { now: true, force: true, dry_run: false };
    store.gc(options).unwrap();
    let (reader, name) = opened.find("layer.weight").unwrap();
    assert_eq!(reader.read_as::<f32>(&name).unwrap(), weights(1, 128 * 256, 1));
    store.unpin(&pin).unwrap();
    store.gc(options).unwrap();
    assert_eq!(store.stats().unwrap().packs, 0);
    assert!(store.list().unwrap().is_empty());
}

fn damage_is_named_and_spares_the_others(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, seed| {
        let path = folder.path().join(name);
        let mut writer = Writer::create(&path).unwrap();
        writer.add("weight", &[256, 256], &weights(seed, 65536, 0)).unwrap();
        writer.finish().unwrap();
        path
    };
    for (name, seed) in [("a", 1), ("b", 2), ("c", 3)] {
        add(&store, &write(name, seed), name);
    }
    let pack_of = |name: &str| {
        let pack = store.checkpoint(name).unwrap().manifest().packs[0].clone();
        ztensor_store::record::Pack::key(pack.id)
    };
    let flipped = pack_of("a");
    let mut bytes = place.backend.read(&flipped, 1 << 30).unwrap().unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    place.backend.delete(&flipped).unwrap();
    place.backend.create(&flipped, &bytes).unwrap();
    place.backend.delete(&pack_of("b")).unwrap();
    let problems = store.verify(false, &mut |_| Ok(())).unwrap();
    let hit: Vec<(String, Kind)> =
        problems.iter().map(|problem| (problem.name.to_string(), problem.error.kind())).collect();
    assert!(
        hit.contains(&("a".into(), Kind::Checksum)) && hit.contains(&("b".into(), Kind::NotFound)),
        "{hit:?}"
    );
    assert!(!hit.iter().any(|(name, _)| name == "c"));
    for name in ["a", "b"] {
        let target = folder.path().join(format!("restored-{name}"));
        assert!(store.get(name, &target, &mut |_| Ok(())).is_err());
        assert!(!target.exists(), "a damaged file got its name");
    }
    store.get("c", folder.path().join("restored-c"), &mut |_| Ok(())).unwrap();
    let report = store.gc(GcOptions { force: true, ..GcOptions::default() }).unwrap();
    assert_eq!(report.damaged.len(), 1);
    store.remove("b").unwrap();
}

fn progress_can_end_the_work(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let stop = || ztensor::Error::argument("stop");
    let path = checkpoint(folder.path(), 1);
    assert!(store.add(&path, "a", &AddOptions::default(), &mut |_| Err(stop())).is_err());
    assert!(store.list().unwrap().is_empty());
    let dry = AddOptions { dry_run: true, ..AddOptions::default() };
    let planned = store.add(&path, "a", &dry, &mut |_| Ok(())).unwrap();
    assert!(store.list().unwrap().is_empty() && store.stats().unwrap().packs == 0);
    let done = add(&store, &path, "a");
    assert_eq!((planned.stored, planned.tensors), (done.stored, done.tensors));
}

fn differences_are_counted_and_measured(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let model = |name: &str, values: &[f32], other: &[i32], extra: Option<&str>| {
        let path = folder.path().join(name);
        let mut writer = Writer::create(&path).unwrap();
        writer.add("weight", &[values.len() as u64], values).unwrap();
        writer.add("steps", &[other.len() as u64], other).unwrap();
        writer.add("same", &[2], &[1f64, 2.0]).unwrap();
        extra.iter().for_each(|name| writer.add(name, &[1], &[1u8]).unwrap());
        writer.finish().unwrap();
        add(&store, &path, name);
    };
    let mut values = weights(1, 5000, 0);
    model("a", &values, &[1, 2, 3], Some("old"));
    values[7] += 0.5;
    values[4000] = f32::NAN;
    model("b", &values, &[1, 2], Some("new"));
    let found = store.diff("a", "b").unwrap();
    assert_eq!((found.added, found.removed, found.identical), (vec!["new".into()], vec!["old".into()], 1));
    assert_eq!(found.retyped, [("steps".to_owned(), "int32 [3]".to_owned(), "int32 [2]".to_owned())]);
    let [(name, change)] = &found.changed[..] else { panic!("{:?}", found.changed) };
    assert_eq!((name.as_str(), change.elements, change.total), ("weight", 2, 5000));
    assert!((change.largest.unwrap() - 0.5).abs() < 1e-6);
    assert!(store.diff("b", "b").unwrap().is_empty());
}

fn tensors_of_one_name_in_two_files_are_compared_each_with_its_own(place: Place) {
    let store = create(&place);
    let folder = tempfile::tempdir().unwrap();
    let write = |path: PathBuf, seed: u64| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut writer = Writer::create(path).unwrap();
        writer.add("weight", &[1000], &weights(seed, 1000, 0)).unwrap();
        writer.finish().unwrap();
    };
    for (name, ema) in [("a", Some(2)), ("b", Some(3)), ("c", None)] {
        write(folder.path().join(name).join("model.zt"), 1);
        ema.into_iter().for_each(|seed| write(folder.path().join(name).join("ema.zt"), seed));
        add(&store, &folder.path().join(name), name);
    }
    let found = store.diff("a", "b").unwrap();
    let [(name, change)] = &found.changed[..] else { panic!("{:?}", found.changed) };
    assert_eq!((name.as_str(), change.total, found.identical), ("ema.zt::weight", 1000, 1));
    let found = store.diff("a", "c").unwrap();
    assert_eq!((found.removed, found.identical), (vec!["ema.zt::weight".into()], 1));
    let found = store.diff("c", "a").unwrap();
    assert_eq!((found.added, found.changed.len()), (vec!["ema.zt::weight".into()], 0));
}

/// A tensor of 70 MB whose end changes: its first part is known, the second a delta.
#[test]
fn long_tensors_are_stored_in_parts() {
    let store = create(&memory());
    let folder = tempfile::tempdir().unwrap();
    let count = 17_500_000;
    let path = |step: u32| folder.path().join(format!("{step}.zt"));
    for step in 0..2 {
        let mut values: Vec<f32> = (0..count).map(|place: u32| ((place / 64) % 1000) as f32).collect();
        values[count as usize - 100..].iter_mut().for_each(|value| *value += 0.25 * step as f32);
        let mut writer = Writer::create(path(step)).unwrap();
        writer.add("weight", &[u64::from(count)], &values).unwrap();
        writer.finish().unwrap();
        let stats = add(&store, &path(step), &format!("s{step}"));
        assert_eq!((stats.deltas, stats.tensors), (u64::from(step), 1), "{stats:?}");
        assert!(step == 0 || stats.stored < 2000, "{stats:?}");
    }
    assert_eq!(store.list().unwrap()[1].tensors, 1);
    for step in 0..2 {
        let target = folder.path().join("restored");
        store.get(&format!("s{step}"), &target, &mut |_| Ok(())).unwrap();
        assert!(std::fs::read(&target).unwrap() == std::fs::read(path(step)).unwrap());
        std::fs::remove_file(&target).unwrap();
    }
    let found = store.diff("s0", "s1").unwrap();
    let [(_, change)] = &found.changed[..] else { panic!("{:?}", found.changed) };
    assert_eq!((change.elements, change.total, change.largest), (100, u64::from(count), Some(0.25)));
}

fn settings_are_kept(place: Place) {
    let options = CreateOptions { grace: Duration::from_secs(77), single_writer: true };
    let store = Store::create_on(Arc::clone(&place.backend), Arc::new(System), &options).unwrap();
    let again = Store::open_on(Arc::clone(&place.backend), Arc::new(System)).unwrap();
    assert_eq!(store.settings(), again.settings());
    assert_eq!(again.settings().grace, Duration::from_secs(77));
    let twice = Store::create_on(Arc::clone(&place.backend), Arc::new(System), &options);
    assert_eq!(twice.err().unwrap().kind(), Kind::Duplicate);
}

/// Runs every test over a backend.
macro_rules! suite {
    ($($backend:ident: [$($test:ident),* $(,)?];)*) => {
        $(mod $backend {
            $(#[test] fn $test() { super::$test(super::$backend()); })*
        })*
    };
    ($($backend:ident),*) => {
        suite! { $($backend: [
            relatives_inside_a_checkpoint_are_bases,
            folders_come_back_byte_for_byte, single_files_come_back_under_any_name, one_tensor_is_read_through_its_chain,
            equal_tensors_are_stored_once_whatever_their_name_and_file, a_renamed_and_changed_tensor_finds_its_base,
            names_are_taken_once_until_they_are_removed, what_is_removed_goes_and_what_stays_is_readable,
            pins_keep_what_was_removed, damage_is_named_and_spares_the_others, progress_can_end_the_work,
            settings_are_kept, differences_are_counted_and_measured,
            tensors_of_one_name_in_two_files_are_compared_each_with_its_own,
            files_that_are_no_models_and_change_little_are_differences,
        ];)* }
    };
}

mod on {
    use super::*;
    suite!(directory, memory);
}
