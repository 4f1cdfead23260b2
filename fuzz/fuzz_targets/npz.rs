//! NumPy arrays and archives of them: as they come, and as an array whose magic is given.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    ztensor_fuzz::read(data);
    if !data.starts_with(b"\x93NUMPY") {
        ztensor_fuzz::read(&[b"\x93NUMPY", data].concat());
    }
});
