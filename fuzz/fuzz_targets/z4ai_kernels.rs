//! Each implementation of the codec's hot loops against the portable one: the same frames from the same bytes, and the same bytes from any frame. The first byte says which of the two is tried,
//! since making frames takes a hundred times as long as refusing them.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    if choice % 4 == 0
        && let Some((options, bytes)) = ztensor_fuzz::codec_case(rest)
    {
        z4ai::agreement::compress_on_two(&bytes, &options, choice / 4);
    } else {
        z4ai::agreement::decompress(&ztensor_fuzz::with_magic(b"Z4AI\x02", rest));
    }
});
