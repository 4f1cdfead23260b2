//! Many checkpoints in one store: what listing and adding cost grows with their number, and not faster. `SCALE=10000 cargo test -p ztensor-store --release
//! --test scale -- --nocapture` prints how long they take.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ztensor::{Result, Writer};
use ztensor_store::backend::{Backend, Creation, Directory, Listed, Reach, Stat, Upload};
use ztensor_store::protocol::GcOptions;
use ztensor_store::{AddOptions, CreateOptions, Name, Store, System};

/// Counts what is asked of the storage.
struct Counted {
    inner: Directory,
    requests: AtomicU64,
    reads: AtomicU64,
}

impl Counted {
    fn count(&self) -> (u64, u64) {
        (self.requests.swap(0, Ordering::Relaxed), self.reads.swap(0, Ordering::Relaxed))
    }

    fn one(&self) -> &Directory {
        self.requests.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

impl Backend for Counted {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        self.one().put(key)
    }
    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        self.one().create(key, bytes)
    }
    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.one().get(key, offset, out)
    }
    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.one().read(key, most)
    }
    fn read_all(&self, keys: &[String], most: u64) -> Result<Vec<Option<Vec<u8>>>> {
        self.reads.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.inner.read_all(keys, most)
    }
    fn stat(&self, key: &str) -> Result<Option<Stat>> {
        self.one().stat(key)
    }
    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        self.one().list(prefix, reach)
    }
    fn delete(&self, key: &str) -> Result<()> {
        self.one().delete(key)
    }
}

fn model(path: &Path, seed: u32) {
    let mut writer = Writer::create(path).unwrap();
    for tensor in 0..4u32 {
        let values: Vec<f32> = (0..256u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(977) ^ tensor) as f32)
            .collect();
        writer.add(&format!("layer.{tensor}"), &[16, 16], &values).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn what_is_asked_of_the_storage_grows_with_the_store_and_not_faster() {
    let many: u32 = std::env::var("SCALE").map_or(100, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let backend = Arc::new(Counted {
        inner: Directory::new(folder.path().join("store")),
        requests: AtomicU64::new(0),
        reads: AtomicU64::new(0),
    });
    let store = Store::create_on(
        Arc::clone(&backend) as Arc<dyn Backend>,
        Arc::new(System),
        &CreateOptions::default(),
    )
    .unwrap();
    let path = folder.path().join("model.zt");
    model(&path, 0);
    store.add(&path, "run/0", &AddOptions::default(), &mut |_| Ok(())).unwrap();
    // The others are the first under further names: adding each through the store would list all of those before it.
    let first = store.checkpoint("run/0").unwrap();
    for number in 1..many {
        let slot = store.protocol().slot(&Name::new(&format!("run/{number}")).unwrap()).unwrap();
        let mut manifest = first.manifest().clone();
        manifest.stamp = store.protocol().stamp(&slot).unwrap();
        store.protocol().commit(&manifest).unwrap();
    }
    let timed = |what: &str, work: &mut dyn FnMut()| {
        backend.count();
        let started = Instant::now();
        work();
        let (requests, reads) = backend.count();
        println!(
            "{many} checkpoints: {what} {:.3} s, {requests} requests, {reads} manifests read",
            started.elapsed().as_secs_f64()
        );
        (requests, reads)
    };
    let open = || Store::open_on(Arc::clone(&backend) as Arc<dyn Backend>, Arc::new(System)).unwrap();
    let (requests, reads) = timed("list", &mut || assert_eq!(open().list().unwrap().len(), many as usize));
    assert!(requests <= 4 && reads == u64::from(many), "{requests} {reads}");
    model(&path, 1);
    let opened = open();
    let (requests, reads) = timed("add", &mut || {
        drop(opened.add(&path, "run/next", &AddOptions::default(), &mut |_| Ok(())).unwrap());
    });
    assert!(requests <= 40 && reads == u64::from(many), "{requests} {reads}");
    // Manifests never change: a store that stays open reads only what is new.
    model(&path, 2);
    let (requests, reads) = timed("another add", &mut || {
        drop(opened.add(&path, "run/last", &AddOptions::default(), &mut |_| Ok(())).unwrap());
    });
    assert!(requests <= 100 && reads == 1, "{requests} {reads}");
    let (requests, _) = timed("gc", &mut || drop(open().gc(GcOptions::default()).unwrap()));
    assert!(requests <= 20 + 3 * u64::from(many), "{requests}");
}
