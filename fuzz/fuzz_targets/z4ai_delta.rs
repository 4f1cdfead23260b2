//! The first byte says what is done: decode the rest as a delta against a fixed reference, or split it into a buffer and its reference and take it there and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use z4ai::{Dtype, Options};

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    if choice & 1 == 0 {
        let reference: Vec<u8> = (0..bytes.len().max(4096) as u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        // The digest would keep the fuzzer out; every block has a checksum behind it.
        if let Ok(length) = z4ai::decoded_len(bytes)
            && length <= 16 << 20
        {
            let _ = z4ai::decompress_delta_range_trusted(bytes, &reference, 0..length);
        }
        return;
    }
    let dtypes: Vec<Option<Dtype>> = Dtype::all().map(Some).chain([None]).collect();
    let options = Options { dtype: dtypes[usize::from(choice >> 1) % dtypes.len()], ..Options::default() };
    let (current, reference) = bytes.split_at(bytes.len() / 2);
    let frame = z4ai::compress_delta(current, reference, &options).expect("any pair of buffers has a delta");
    assert_eq!(z4ai::decompress_delta(&frame, reference).expect("a delta that was just made"), current);
});
