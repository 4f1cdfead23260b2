//! What is read once is not asked for again: a store that is far away pays for each request.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ztensor::{Kind, Result, Writer};
use ztensor_store::backend::{Backend, Creation, Listed, Memory, Reach, Stat, Upload};
use ztensor_store::{AddOptions, CreateOptions, Store, System};

/// Memory that counts how often whole objects are read, and how often it is asked for anything.
#[derive(Clone)]
struct Counting {
    memory: Memory,
    read: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
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

    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        self.asked().put(key)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        self.asked().create(key, bytes)
    }

    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
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
    let counting = Counting { memory: Memory::new(), read: Arc::default(), asked: Arc::default() };
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
