//! Storage that is full: whatever is under way ends in an error that says so, and the store is as it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ztensor::{Error, Kind, Result, Writer};
use ztensor_store::backend::{Backend, Creation, Listed, Memory, Reach, Stat, Upload};
use ztensor_store::protocol::GcOptions;
use ztensor_store::{AddOptions, CreateOptions, Keep, Store, System};

/// Memory with room for so many more bytes.
#[derive(Clone)]
struct Small {
    memory: Memory,
    left: Arc<AtomicU64>,
}

impl Small {
    fn take(&self, length: usize) -> Result<()> {
        let take = |left: u64| left.checked_sub(length as u64);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::new(Kind::NoSpace, "no space left on device")),
        }
    }
}

struct SmallUpload<'a>(&'a Small, Box<dyn Upload + 'a>);

impl Upload for SmallUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.take(bytes.len())?;
        self.1.write(bytes)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.0.take(1)?;
        self.1.finish()
    }
}

impl Backend for Small {
    fn describe(&self) -> String {
        "a small disk".to_owned()
    }

    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(SmallUpload(self, self.memory.put(key)?)))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        self.take(bytes.len())?;
        self.memory.create(key, bytes)
    }

    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.memory.get(key, offset, out)
    }

    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.memory.read(key, most)
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>> {
        self.memory.stat(key)
    }

    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        self.memory.list(prefix, reach)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.memory.delete(key)
    }
}

/// A model whose weights all move a little with each step.
fn model(folder: &Path, step: u32) -> PathBuf {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let weights: Vec<f32> =
        (0..8192).map(|_| random()).map(|weight| weight * (1.0 + 1e-5 * step as f32)).collect();
    let path = folder.join(format!("{step}.zt"));
    let mut writer = Writer::create(&path).unwrap();
    writer.add("weight", &[64, 128], &weights).unwrap();
    writer.finish().unwrap();
    path
}

const STEPS: u32 = 6;
const ROOM: u64 = 1 << 30;
const GC: GcOptions = GcOptions { now: true, force: true, dry_run: false };

/// A run on a disk with room.
fn run(folder: &Path) -> (Small, Store) {
    let disk = Small { memory: Memory::new(), left: Arc::new(AtomicU64::new(ROOM)) };
    let options = CreateOptions { grace: Duration::ZERO, single_writer: false };
    let store = Store::create_on(Arc::new(disk.clone()), Arc::new(System), &options).unwrap();
    for step in 0..STEPS {
        let name = format!("run/{step}");
        store.add(model(folder, step), &name, &AddOptions::default(), &mut |_| Ok(())).unwrap();
    }
    (disk, store)
}

fn names(store: &Store) -> Vec<String> {
    store.list().unwrap().iter().map(|listing| listing.name.to_string()).collect()
}

/// Everything that is listed is restored byte for byte.
fn check(store: &Store, folder: &Path) {
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
    for name in names(store) {
        let target = folder.join("restored");
        store.get(&name, &target, &mut |_| Ok(())).unwrap();
        let original = folder.join(format!("{}.zt", name.rsplit('/').next().unwrap()));
        assert!(std::fs::read(&target).unwrap() == std::fs::read(original).unwrap(), "{name}");
        std::fs::remove_file(target).unwrap();
    }
}

/// Does something with ever more room, until it succeeds. Returns how often it did not.
fn with_ever_more_room(mut work: impl FnMut(u64) -> Result<()>) -> usize {
    let mut room = 0;
    for failures in 0.. {
        match work(room) {
            Ok(()) => return failures,
            Err(error) => assert_eq!(error.kind(), Kind::NoSpace, "{error}"),
        }
        // Records take some hundred bytes, packs some thousand.
        room += 150 + room / 4;
        assert!(room < ROOM, "it never succeeds");
    }
    0
}

#[test]
fn an_add_fails_and_the_store_is_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, store) = run(folder.path());
    let (path, before) = (model(folder.path(), STEPS), names(&store));
    let failures = with_ever_more_room(|room| {
        disk.left.store(room, Ordering::SeqCst);
        let outcome = store.add(&path, &format!("run/{STEPS}"), &AddOptions::default(), &mut |_| Ok(()));
        if outcome.is_err() {
            assert_eq!(names(&store), before);
            check(&store, folder.path());
        }
        outcome.map(|_| ())
    });
    assert!(failures > 5, "{failures}");
    disk.left.store(ROOM, Ordering::SeqCst);
    check(&store, folder.path());
    store.gc(GC).unwrap();
    check(&store, folder.path());
}

#[test]
fn a_prune_fails_and_what_it_keeps_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep { last: 1, ..Keep::default() };
    let last = format!("run/{}", STEPS - 1);
    let failures = with_ever_more_room(|room| {
        let (disk, store) = run(folder.path());
        disk.left.store(room, Ordering::SeqCst);
        let outcome = store.prune("run", &keep, false).map(|_| ());
        assert!(names(&store).contains(&last));
        check(&store, folder.path());
        disk.left.store(ROOM, Ordering::SeqCst);
        store.prune("run", &keep, false).unwrap();
        assert_eq!(names(&store), [last.as_str()]);
        store.gc(GC).unwrap();
        check(&store, folder.path());
        outcome
    });
    assert!(failures > 3, "{failures}");
}

#[test]
fn a_collection_fails_and_frees_what_it_can_later() {
    let folder = tempfile::tempdir().unwrap();
    let failures = with_ever_more_room(|room| {
        let (disk, store) = run(folder.path());
        store.remove("run/5").unwrap();
        let before = names(&store);
        disk.left.store(room, Ordering::SeqCst);
        let outcome = store.gc(GC).map(|_| ());
        assert_eq!(names(&store), before);
        check(&store, folder.path());
        disk.left.store(ROOM, Ordering::SeqCst);
        store.gc(GC).unwrap();
        store.gc(GC).unwrap();
        assert!(store.gc(GC).unwrap().deleted.is_empty());
        check(&store, folder.path());
        outcome
    });
    assert!(failures > 1, "{failures}");
}
