//! `.zt` files of any generation: the fuzzer makes all of it, or starts from the corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    ztensor_fuzz::read(data);
    if !data.starts_with(b"ZTEN1000") {
        ztensor_fuzz::read(&[b"ZTEN1000", data].concat());
    }
});
