//! Any bytes with any dtype, shape, effort and number of threads come back, and never take much more room than before.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let Some((options, bytes)) = ztensor_fuzz::codec_case(data) else { return };
    let frame = z4ai::compress(&bytes, &options).expect("any bytes compress");
    assert!(frame.len() <= bytes.len() + 128);
    assert_eq!(z4ai::Frame::open(&frame).and_then(|frame| frame.threads(options.threads).read()).expect("a frame decodes"), bytes);
});
