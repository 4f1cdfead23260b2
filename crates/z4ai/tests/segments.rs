//! Buffers that hold one tensor after another: they are cut where the elements change, and come back whole,
//! in parts and as a stream, whatever the number of threads.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use z4ai::{Dtype, Effort, Options};

/// Elements of each tensor, a multiple of what is looked at together.
const ELEMENTS: usize = 1 << 16;

/// Tensors of bf16 or fp16 that have nothing in common: few octaves, many, few mantissa bits, zeros, tiny
/// numbers.
fn model() -> Vec<u8> {
    let mut state = 1u32;
    let mut next = move || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        state >> 16
    };
    let mut tensor = |element: fn(u32, u32) -> u32| -> Vec<u8> {
        (0..ELEMENTS).flat_map(|_| (element(next(), next()) as u16).to_le_bytes()).collect()
    };
    let narrow = tensor(|a, b| (60 + a % 3) << 7 | b & 0x7f | a & 0x8000);
    let wide = tensor(|a, b| (30 + (a * b) % 40) << 7 | b & 0x7f);
    let rounded = tensor(|a, b| ((60 + a % 3) << 7 | b & 0x7f) & 0xfff0);
    let zeros = tensor(|_, _| 0);
    let tiny = tensor(|a, b| (a % 16) * (b % 16));
    [&narrow[..], &wide, &zeros, &rounded, &tiny, &narrow[..20_000]].concat()
}

#[test]
fn every_thread_count_gives_the_same_frame_and_every_range_comes_back() {
    let model = model();
    for (dtype, effort) in [
        (Dtype::Bf16, Effort::Fast),
        (Dtype::Bf16, Effort::Default),
        (Dtype::F16, Effort::Default),
        (Dtype::F16, Effort::Max),
        (Dtype::F32, Effort::Default),
    ] {
        // An unfinished element at the end, too.
        for bytes in [&model[..], &model[..model.len() - 1]] {
            let options = |threads: usize| Options { threads, ..Options::new(dtype).effort(effort) };
            let frame = z4ai::compress(bytes, &options(1)).unwrap();
            assert_eq!(z4ai::compress(bytes, &options(3)).unwrap(), frame);
            assert_eq!(z4ai::decompress(&frame).unwrap(), bytes);
            for start in (0..bytes.len() - 70_000).step_by(33_333) {
                let mut part = vec![0; 70_000];
                z4ai::Frame::open(&frame)
                    .and_then(|frame| frame.read_into(start as u64..(start + part.len()) as u64, &mut part))
                    .unwrap();
                assert!(part == bytes[start..start + part.len()], "{dtype:?} {effort:?} {start}");
            }
        }
    }
}

#[test]
fn tensors_one_after_the_other_cost_little_more_than_each_by_itself() {
    let model = model();
    for effort in [Effort::Fast, Effort::Default] {
        let options = Options::new(Dtype::F16).effort(effort);
        let length = |bytes: &[u8]| z4ai::compress(bytes, &options).unwrap().len();
        let apart: usize = model.chunks(2 * ELEMENTS).map(length).sum();
        assert!(length(&model) < apart * 21 / 20, "{effort:?} {} {apart}", length(&model));
    }
}

#[test]
fn rows_may_change_inside_a_tensor() {
    let model = model();
    let shaped = Options::new(Dtype::F16).shape([model.len() as u64 / 2 / 80, 80]);
    let flat = Options::new(Dtype::F16);
    let frames = [&shaped, &flat].map(|options| z4ai::compress(&model, options).unwrap());
    assert!(frames[0].len() < frames[1].len() * 11 / 10, "{} {}", frames[0].len(), frames[1].len());
    assert!(frames.iter().all(|frame| z4ai::decompress(frame).unwrap() == model));
}

#[test]
fn a_stream_is_cut_as_well() {
    let model = model();
    let mut encoder = z4ai::Encoder::new(Vec::new(), Options::new(Dtype::F16)).unwrap();
    encoder.write_all(&model).unwrap();
    let frame = encoder.finish().unwrap();
    let whole = z4ai::compress(&model, &Options::new(Dtype::F16)).unwrap();
    assert!(frame.len().abs_diff(whole.len()) < 32);
    let mut decoded = Vec::new();
    z4ai::Decoder::new(&frame[..]).unwrap().read_to_end(&mut decoded).unwrap();
    assert!(decoded == model);
}
