//! `.zt` files of any generation: the fuzzer makes all of it, or starts from the corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ztensor_fuzz::read(data);
    ztensor_fuzz::read(&[b"ZTEN1000", data].concat());
});
