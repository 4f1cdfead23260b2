//! Archives and deltas. The first byte says what is done with the rest: it is an archive, opened and restored as it is; or a model file that is archived, of whose archive some bytes
//! are then changed, so that the search begins behind the checksums and digests it could not guess.
#![no_main]

use std::sync::Arc;
use ztensor::archive::{ArchiveOptions, archive_bytes, restore_bytes};
use ztensor::{Reader, delta};

/// Larger archives tell nothing new.
const LARGEST: usize = 1 << 16;

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    if bytes.len() > LARGEST {
        return;
    }
    if choice % 4 == 0 {
        damaged(bytes);
        return;
    }
    let (changes, tensor) = bytes.split_at(bytes.len().min(usize::from(choice / 4 % 8) * 3));
    let original = model(tensor);
    let (archive, _) = archive_bytes(original.clone(), &ArchiveOptions::default()).expect("any model file has an archive");
    assert_eq!(restore_bytes(archive.clone()).expect("an archive that was just made"), original);
    damaged(&changed(archive, changes));
    if choice % 2 == 0 {
        let other: Vec<u8> = tensor.iter().map(|byte| byte.wrapping_add(choice)).collect();
        let base = Arc::new(Reader::from_bytes(model(&other)).expect("a model file"));
        let (made, _) = delta::make_bytes(original.clone(), &base, &ArchiveOptions::default()).expect("any two models have a delta");
        let restored = delta::apply_bytes(made.clone(), Some(Arc::clone(&base))).expect("a delta that was just made");
        assert_eq!(restored, original);
        let _ = delta::apply_bytes(changed(made, changes), Some(base));
    }
});

/// Nothing but the original may come out of an archive, and nothing may break on the way.
fn damaged(archive: &[u8]) {
    let _ = restore_bytes(archive.to_vec());
    ztensor_fuzz::read(archive);
}

/// A safetensors file with one tensor of fp16.
fn model(tensor: &[u8]) -> Vec<u8> {
    let elements = tensor.len() / 2;
    let header = format!(r#"{{"weight":{{"dtype":"F16","shape":[{elements}],"data_offsets":[0,{}]}}}}"#, 2 * elements);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &tensor[..2 * elements]].concat()
}

/// Three bytes make one change: where, and to what.
fn changed(mut archive: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % archive.len();
        archive[place] = change[2];
    }
    archive
}
