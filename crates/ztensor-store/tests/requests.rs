//! What is read once is not asked for again: a store that is far away pays for each request.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ztensor::{Kind, Result, Writer};
use ztensor_store::backend::{Backend, Creation, Listed, Memory, Reach, Stat, Upload};
use ztensor_store::protocol::Commit;
use ztensor_store::record::Pack;
use ztensor_store::{AddOptions, CreateOptions, Store, System};

/// Memory that counts how often whole objects are read, how often it is asked for anything, and how long ranges are.
#[derive(Clone, Default)]
struct Counting {
    memory: Memory,
    is_at_hand: bool,
    read: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    fetched: Arc<AtomicUsize>,
    longest: Arc<AtomicUsize>,
}

impl Counting {
    fn asked(&self) -> &Memory {
        self.asked.fetch_add(1, Ordering::SeqCst);
        &self.memory
    }

    /// Objects that were read whole, and requests, since the last call.
    fn counted(&self) -> (usize, usize) {
        (self.read.swap(0, Ordering::SeqCst), self.asked.swap(0, Ordering::SeqCst))
    }
}

impl Backend for Counting {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn is_at_hand(&self) -> bool {
        self.is_at_hand
    }

    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        self.asked().put(key)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        self.asked().create(key, bytes)
    }

    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.fetched.fetch_add(out.len(), Ordering::SeqCst);
        self.longest.fetch_max(out.len(), Ordering::SeqCst);
        self.asked().get(key, offset, out)
    }

    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.read.fetch_add(1, Ordering::SeqCst);
        self.asked().read(key, most)
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>> {
        self.asked().stat(key)
    }

    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        self.asked().list(prefix, reach)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.asked().delete(key)
    }
}

#[test]
fn manifests_are_read_once_and_a_checkpoint_that_changed_is_noticed() {
    let counting = Counting::default();
    let options = CreateOptions { grace: Duration::ZERO, single_writer: false };
    Store::create_on(Arc::new(counting.clone()), Arc::new(System), &options).unwrap();
    let open = || Store::open_on(Arc::new(counting.clone()), Arc::new(System)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    let add = |store: &Store, name: &str, value: f32| {
        let mut writer = Writer::create(&path).unwrap();
        writer.add("weight", &[4096], &vec![value; 4096]).unwrap();
        writer.finish().unwrap();
        store.add(&path, name, &AddOptions::default(), &mut |_| Ok(())).unwrap();
        std::fs::remove_file(&path).unwrap();
    };
    let weight = |store: &Store, name: &str| {
        let checkpoint = store.checkpoint(name).unwrap();
        let (reader, tensor) = checkpoint.find("weight").unwrap();
        reader.read_as::<f32>(&tensor).unwrap()[17]
    };
    let writer = open();
    (0..5).for_each(|step| add(&writer, &format!("run/{step}"), step as f32));
    let reader = open();
    counting.counted();
    // The store's name for it, its manifest, and its bytes.
    assert_eq!(weight(&reader, "run/3"), 3.0);
    let (read, asked) = counting.counted();
    assert!(read == 1 && asked <= 5, "{read} {asked}");
    assert_eq!(weight(&reader, "run/3"), 3.0);
    let (read, again) = counting.counted();
    assert!(read == 0 && again < asked, "{read} {again} {asked}");
    assert_eq!(reader.list().unwrap().len(), 5);
    assert_eq!(counting.counted().0, 4);
    reader.list().unwrap();
    assert_eq!(weight(&reader, "run/0"), 0.0);
    assert_eq!(counting.counted().0, 0);
    // Somebody else removes it, and adds another under its name.
    writer.remove("run/3").unwrap();
    counting.counted();
    assert_eq!(reader.checkpoint("run/3").err().unwrap().kind(), Kind::Gone);
    add(&writer, "run/3", 33.0);
    assert_eq!(weight(&reader, "run/3"), 33.0);
}

/// Bits of bf16 weights in which the lower half of the mantissa differs from step to step.
fn weights(count: u32, step: u32) -> Vec<half::bf16> {
    let mixed =
        |number: u32| number.wrapping_mul(0x9e37_79b9).rotate_left(15).wrapping_mul(0x85eb_ca6b) >> 16;
    let bits = |place: u32| {
        (0x3c00 | mixed(place) & 0x83ff) as u16 ^ (mixed(place ^ step.wrapping_mul(0x51ed_270b)) & 7) as u16
    };
    (0..count).map(|place| half::bf16::from_bits(bits(place))).collect()
}

/// Weights that two checkpoints have, a little different: long enough to be read in several windows.
fn add_two(store: &Store, folder: &Path) {
    for step in 0..2 {
        let path = folder.join(format!("{step}.zt"));
        let mut writer = Writer::create(&path).unwrap();
        writer.add("weight", &[12, 1 << 20], &weights(12 << 20, step)).unwrap();
        writer.finish().unwrap();
        store.add(&path, &format!("{step}"), &AddOptions::default(), &mut |_| Ok(())).unwrap();
    }
}

/// Puts all packs of a checkpoint elsewhere, and a generation that names them above its own.
fn move_packs(store: &Store, memory: &Memory, name: &str) -> Result<()> {
    let mut manifest = store.checkpoint(name)?.manifest().clone();
    let mut old = Vec::new();
    for pack in &mut manifest.packs {
        old.push(Pack::key(pack.id));
        pack.id = store.protocol().id()?;
        memory.create(&Pack::key(pack.id), &memory.read(&old[old.len() - 1], 1 << 30)?.unwrap())?;
    }
    manifest.stamp.generation += 1;
    manifest.stamp.write = store.protocol().id()?;
    assert!(matches!(store.protocol().commit(&manifest)?, Commit::Success));
    old.iter().try_for_each(|key| memory.delete(key))
}

#[test]
fn a_restore_goes_on_in_the_middle_of_a_tensor_when_its_packs_move() {
    let counting = Counting { is_at_hand: true, ..Counting::default() };
    let options = CreateOptions { grace: Duration::ZERO, single_writer: false };
    let store = Store::create_on(Arc::new(counting.clone()), Arc::new(System), &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    add_two(&store, folder.path());
    let mut windows = 0;
    let mut progress = |_: u64| {
        windows += 1;
        if windows == 3 { move_packs(&store, &counting.memory, "1") } else { Ok(()) }
    };
    let target = folder.path().join("restored");
    let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    two.install(|| store.get("1", &target, &mut progress)).unwrap();
    assert!(windows > 5, "{windows}");
    assert!(std::fs::read(&target).unwrap() == std::fs::read(folder.path().join("1.zt")).unwrap());
}

#[test]
fn long_tensors_are_restored_window_by_window_where_that_costs_no_requests() {
    for is_at_hand in [true, false] {
        let counting = Counting { is_at_hand, ..Counting::default() };
        let options = CreateOptions { grace: Duration::ZERO, single_writer: false };
        let store = Store::create_on(Arc::new(counting.clone()), Arc::new(System), &options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |step: u32| folder.path().join(format!("{step}.zt"));
        add_two(&store, folder.path());
        for step in 0..2 {
            let checkpoint = store.checkpoint(&format!("{step}")).unwrap();
            let stored: u64 = checkpoint.manifest().entries.iter().map(|entry| entry.stored).sum();
            assert_eq!(checkpoint.manifest().deepest(), step);
            counting.counted();
            counting.fetched.store(0, Ordering::SeqCst);
            counting.longest.store(0, Ordering::SeqCst);
            let target = folder.path().join("restored");
            // Windows have a block for each thread at least.
            let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            two.install(|| store.get(&format!("{step}"), &target, &mut |_| Ok(()))).unwrap();
            assert!(std::fs::read(&target).unwrap() == std::fs::read(path(step)).unwrap());
            std::fs::remove_file(&target).unwrap();
            // Nothing is fetched twice, whether in few requests or in short ones.
            let fetched = counting.fetched.load(Ordering::SeqCst) as u64;
            assert!(fetched <= stored + stored / 20, "{fetched} of {stored}");
            let (longest, (_, asked)) = (counting.longest.load(Ordering::SeqCst), counting.counted());
            match is_at_hand {
                true => assert!(longest <= 4 << 20, "{longest}"),
                false => assert!(asked <= 6, "{asked}"),
            }
        }
    }
}
