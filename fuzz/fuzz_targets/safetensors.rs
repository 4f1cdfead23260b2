//! safetensors files: the fuzzer makes the JSON, its length is put in front.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    ztensor_fuzz::read(data);
    ztensor_fuzz::read(&[&(data.len() as u64).to_le_bytes(), data].concat());
});
