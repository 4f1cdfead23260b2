//! NumPy arrays and archives of them: as they come, and as an array whose magic is given.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ztensor_fuzz::read(data);
    ztensor_fuzz::read(&[b"\x93NUMPY", data].concat());
});
