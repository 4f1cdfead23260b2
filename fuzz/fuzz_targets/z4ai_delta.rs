//! The first byte says what is done: decode the rest as a delta against a fixed reference, or split it into a buffer and its reference and take it there and back.
#![no_main]

use z4ai::{Dtype, Effort, Options};

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    if choice & 1 == 0 {
        let frame = ztensor_fuzz::with_magic(b"Z4AI\x02", bytes);
        let reference: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        // The digest would keep the fuzzer out; every block has a checksum behind it.
        if let Ok(length) = z4ai::Frame::open(&frame).map(|frame| frame.decoded_len())
            && length <= 1 << 20
        {
            let mut out = vec![0; length as usize];
            let _ = z4ai::Frame::open(&frame).and_then(|frame| frame.against(&reference)?.trusted().read_into(0..length, &mut out));
        }
        return;
    }
    let dtypes: Vec<Option<Dtype>> = Dtype::all().map(Some).chain([None]).collect();
    let dtype = dtypes[usize::from(choice >> 1) % dtypes.len()];
    // Maximum effort is another target's: here it would take most of the time.
    let effort = if choice & 0x80 == 0 { Effort::Fast } else { Effort::Default };
    let options = Options { dtype, effort, threads: 1, ..Options::default() };
    let (current, reference) = bytes.split_at(bytes.len() / 2);
    let frame = z4ai::compress_delta(current, reference, &options).expect("any pair of buffers has a delta");
    let restored = z4ai::Frame::open(&frame).and_then(|frame| frame.against(reference)?.threads(1).read()).expect("a delta that was just made");
    assert_eq!(restored, current);
});
