//! Streams give the same data as the one-call functions, whatever the sizes of reads and writes, and refuse
//! what they refuse.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use z4ai::{Decoder, Dtype, Encoder, Options};

fn data(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|i| (i.wrapping_mul(2654435761) >> 24) as u8 & 0x3f | (i % 2 * 0x30) as u8)
        .collect()
}

fn encode(bytes: &[u8], options: Options, piece: usize) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new(), options).unwrap();
    bytes.chunks(piece).for_each(|piece| encoder.write_all(piece).unwrap());
    encoder.finish().unwrap()
}

/// Gives one byte at a time, like a slow pipe.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = out.len().min(1);
        self.0.read(&mut out[..count])
    }
}

#[test]
fn streams_survive() {
    for length in [0, 1, 5000, 300_001] {
        let bytes = data(length);
        for dtype in [None, Some(Dtype::Bf16), Some(Dtype::F32)] {
            let frame = encode(&bytes, Options { dtype, ..Options::default() }, 777);
            assert_eq!(z4ai::decompress(&frame).unwrap(), bytes);
            let mut decoded = Vec::new();
            Decoder::new(Trickle(&frame)).unwrap().read_to_end(&mut decoded).unwrap();
            assert_eq!(decoded, bytes);
            // Frames of the one-call function stream as well.
            let whole = z4ai::compress(&bytes, &Options { dtype, ..Options::default() }).unwrap();
            decoded.clear();
            Decoder::new(&whole[..]).unwrap().read_to_end(&mut decoded).unwrap();
            assert_eq!(decoded, bytes);
        }
    }
}

#[test]
fn sections_follow_one_another() {
    let bytes = vec![7u8; (64 << 20) + 12345];
    let frame = encode(&bytes, Options::new(Dtype::U8), 1 << 20);
    assert!(frame.len() < 10_000);
    let mut decoded = Vec::new();
    Decoder::new(&frame[..]).unwrap().read_to_end(&mut decoded).unwrap();
    assert!(decoded == bytes);
    assert_eq!(z4ai::Frame::open(&frame).map(|frame| frame.decoded_len()).unwrap(), bytes.len() as u64);
    let mut slice = [0; 100];
    z4ai::Frame::open(&frame)
        .and_then(|frame| frame.read_into((64 << 20) - 50..(64 << 20) + 50, &mut slice))
        .unwrap();
    assert_eq!(slice, [7; 100]);
}

#[test]
fn broken_streams_are_refused() {
    let frame = encode(&data(3000), Options::new(Dtype::Bf16), 3000);
    let read = |frame: &[u8]| -> std::io::Result<Vec<u8>> {
        let mut decoded = Vec::new();
        Decoder::new(frame).map_err(std::io::Error::other)?.read_to_end(&mut decoded)?;
        Ok(decoded)
    };
    read(&frame).unwrap();
    for length in 0..frame.len() {
        assert!(read(&frame[..length]).is_err(), "{length}");
    }
    assert!(read(&[&frame[..], &[0]].concat()).is_err());
    let error = Encoder::new(Vec::new(), Options::new(Dtype::F32).shape([4])).unwrap().finish().unwrap_err();
    assert_eq!(error.kind(), z4ai::ErrorKind::InvalidShape);
}
