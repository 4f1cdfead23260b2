//! GGUF files: the magic is given, the fuzzer makes the rest.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ztensor_fuzz::read(&[b"GGUF", data].concat());
});
