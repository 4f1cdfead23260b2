//! Stores. The first byte says what is done with the rest: it is a record; or it is what a record encloses, so that the search begins behind the digest it
//! could not guess; or it changes bytes of a real manifest's content or of a real pack. What comes of it is a store, of which everything is read.
#![no_main]

use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};
use ztensor::Value;
use ztensor_store::backend::{Backend, Memory};
use ztensor_store::protocol::GcOptions;
use ztensor_store::record::Record;
use ztensor_store::{AddOptions, CreateOptions, Store, System};

/// Larger inputs tell nothing new.
const LARGEST: usize = 1 << 16;
const MANIFEST: &str = "checkpoints/b/0.m";

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    if bytes.len() > LARGEST {
        return;
    }
    let objects = objects();
    match choice % 4 {
        0 => drop(Record::decode(bytes, store_id())),
        1 => use_all(MANIFEST, &enclose(&with_store(bytes))),
        2 => {
            let manifest = &objects.iter().find(|(key, _)| key == MANIFEST).expect("it was added").1;
            let content = zstd::bulk::decompress(&manifest[4..manifest.len() - 32], 1 << 20).expect("a record");
            use_all(MANIFEST, &enclose(&with_store(&changed(content, bytes))));
        }
        _ => {
            let packs: Vec<_> = objects.iter().filter(|(key, _)| key.starts_with("packs/")).collect();
            let (key, pack) = packs[usize::from(choice / 4) % packs.len()];
            use_all(key, &changed(pack.clone(), bytes));
        }
    }
});

/// The objects of a store with two checkpoints, the second stored against the first.
fn objects() -> &'static [(String, Vec<u8>)] {
    static OBJECTS: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let backend = Memory::new();
        let shared = Arc::new(backend.clone());
        let store = Store::create_on(shared, Arc::new(System), &CreateOptions::default()).expect("memory");
        for (step, name) in [(0u32, "a"), (1, "b")] {
            let weights: Vec<u8> = (0..512u32)
                .flat_map(|i| ((i.wrapping_mul(2_654_435_761) >> 9) as f32 + (step * (i % 7 / 6)) as f32).to_le_bytes())
                .collect();
            let halves: Vec<u8> = weights.chunks_exact(4).flat_map(|bytes| [bytes[2], bytes[3]]).collect();
            let header = concat!(
                r#"{"weight":{"dtype":"BF16","shape":[16,32],"data_offsets":[0,1024]},"#,
                r#""master.weight":{"dtype":"F32","shape":[16,32],"data_offsets":[1024,3072]}}"#
            );
            let model = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &halves, &weights].concat();
            let source = |bytes: Vec<u8>| Arc::new(ztensor::Source::from_bytes(bytes));
            let files =
                vec![("model.safetensors".to_owned(), source(model)), ("note".to_owned(), source(vec![b'x'; 200]))];
            store.add_files(files, false, name, &AddOptions::default(), &mut |_| Ok(())).expect("an add");
        }
        let read = |key: String| {
            let bytes = backend.read(&key, 1 << 30).expect("memory").expect("a listed key");
            (key, bytes)
        };
        backend.keys().into_iter().map(read).collect()
    })
}

fn store_id() -> ztensor_store::Id {
    let backend = Memory::new();
    for (key, bytes) in objects() {
        let _ = backend.create(key, bytes);
    }
    Store::open_on(Arc::new(backend), Arc::new(System)).expect("the store").settings().id
}

/// The content of a record, with the store's id, which nobody guesses.
fn with_store(content: &[u8]) -> Vec<u8> {
    match Value::from_cbor(content, 32) {
        Ok(Value::Map(mut map)) => {
            map.insert("store".into(), Value::Bytes(store_id().0.to_vec()));
            Value::Map(map).to_cbor()
        }
        _ => content.to_vec(),
    }
}

fn enclose(content: &[u8]) -> Vec<u8> {
    let mut bytes = b"ZTM\x01".to_vec();
    bytes.extend(zstd::bulk::compress(content, 1).expect("memory"));
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    bytes
}

/// Reads everything of the store, one of whose objects has these bytes.
fn use_all(changed: &str, bytes: &[u8]) {
    let backend = Memory::new();
    for (key, own) in objects() {
        let _ = backend.create(key, if key == changed { bytes } else { own });
    }
    let store = Store::open_on(Arc::new(backend), Arc::new(System)).expect("store.json is as it was");
    let _ = store.list();
    let _ = store.stats();
    let _ = store.gc(GcOptions { dry_run: true, ..GcOptions::default() });
    let _ = store.verify(true, &mut |_| Ok(()));
    let _ = store.diff("a", "b");
    if let Ok(checkpoint) = store.checkpoint("b") {
        for (shown, _, _) in checkpoint.tensors().unwrap_or_default() {
            let _ = checkpoint.find(&shown).and_then(|(reader, name)| reader.component_bytes(&name, "data").map(drop));
        }
    }
}

/// Three bytes make one change: where, and to what.
fn changed(mut bytes: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[place] = change[2];
    }
    bytes
}
