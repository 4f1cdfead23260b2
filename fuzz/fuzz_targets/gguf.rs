//! GGUF files. The magic is put in place, so that every input reaches the parser.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    ztensor_fuzz::read(&ztensor_fuzz::with_magic(b"GGUF", data));
});
