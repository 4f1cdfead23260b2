//! Compressed frames: whole, a range from the middle, and what describes them. Frames of fuzzing builds have no checksums.
#![no_main]

/// Larger frames are legal, but decoding them tells nothing new and slows the search.
const LARGEST: u64 = 1 << 20;

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let frame = ztensor_fuzz::with_magic(b"Z4AI\x02", data);
    let _ = z4ai::Frame::open(&frame).map(|frame| frame.description());
    let _ = z4ai::Info::read(&frame);
    let Ok(length) = z4ai::Frame::open(&frame).map(|frame| frame.decoded_len()) else { return };
    if length > LARGEST {
        return;
    }
    let mut part = vec![0; (length / 2 - length / 3) as usize];
    let part_decodes = z4ai::Frame::open(&frame).and_then(|frame| frame.read_into(length / 3..length / 2, &mut part)).is_ok();
    if let Ok(whole) = z4ai::Frame::open(&frame).and_then(|frame| frame.threads(1).read()) {
        assert!(part_decodes && part == whole[(length / 3) as usize..(length / 2) as usize]);
    }
});
