//! HDF5 files: the signature is given, the fuzzer makes the rest.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ztensor_fuzz::read(&[b"\x89HDF\r\n\x1a\n", data].concat());
});
