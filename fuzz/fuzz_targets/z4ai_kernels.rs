//! Each implementation of the codec's hot loops against the portable one: the same frames from the same bytes, and the same bytes from any frame.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((options, bytes)) = ztensor_fuzz::codec_case(data) {
        z4ai::agreement::compress(&bytes, &options);
    }
    z4ai::agreement::decompress(&[b"Z4AI\x02", data].concat());
});
