//! ONNX models: a version and a graph's first field are given, so that detection lets most inputs through; the fuzzer makes the rest.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    ztensor_fuzz::read(data);
    // The graph's length stands before it, as four bytes of varint.
    let length = data.len() as u32 + 2;
    let varint =
        [length | 0x80, length >> 7 | 0x80, length >> 14 | 0x80, length >> 21 & 0x7F].map(|part| part as u8);
    ztensor_fuzz::read(&[&[0x08, 0x0A, 0x3A], varint.as_slice(), &[0x12, 0x00], data].concat());
});
