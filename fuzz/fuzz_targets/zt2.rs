//! Version 2 of `.zt`: the fuzzer makes the manifest and the blobs, and the hash in the footer is put right. Otherwise hardly an input would get
//! past it.
#![no_main]

const MAGIC: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";
const PAGE: usize = 4096;

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    // A whole file is one to start from.
    if data.starts_with(MAGIC) {
        return ztensor_fuzz::read(data);
    }
    // Its first byte says how much of the input is the one blob that is there, on the second page.
    let Some((share, data)) = data.split_first() else { return };
    let (blob, manifest) = data.split_at(data.len() * usize::from(*share) / 256);
    let mut file = MAGIC.to_vec();
    file.resize(PAGE, 0);
    file.extend_from_slice(blob);
    file.resize(file.len().next_multiple_of(PAGE), 0);
    let offset = file.len() as u64;
    file.extend_from_slice(manifest);
    file.extend_from_slice(&offset.to_le_bytes());
    file.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
    file.extend_from_slice(&twox_hash::XxHash3_64::oneshot(manifest).to_le_bytes());
    file.extend_from_slice(&2u64.to_le_bytes());
    file.extend_from_slice(MAGIC);
    ztensor_fuzz::read(&file);
});
