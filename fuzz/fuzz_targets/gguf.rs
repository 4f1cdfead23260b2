//! GGUF files. The magic is put in place, so that every input reaches the parser; `conformance/` has files to start from.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(rest) = data.get(4..) else { return };
    ztensor_fuzz::read(&[b"GGUF", rest].concat());
});
