//! A fixed amount of fuzzing that needs no fuzzer: frames of every kind of model are mutated in their models
//! and blocks, which nothing but the block's checksum protects, and each mutant is decoded. Nothing may panic
//! or hang, and what decodes must be the original.
#![allow(clippy::unwrap_used)]

use z4ai::{BitArray, BitSlice, Dtype, Effort, Field, Options, RecordLayout};

/// Mutants per frame.
const MUTANTS: usize = 200;

/// A small generator, so that every run tries the same mutants.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Data that each model suits: dense floats, floats of mostly one sign, few values, a quantised grid, zeros,
/// floats too small for their exponents, integers, text, records.
fn cases() -> Vec<(Vec<u8>, Options)> {
    let mut random = Random(7);
    let mut bell = || (0..6).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() / 50_000.0;
    let dense: Vec<f32> = (0..6000).map(|_| bell()).collect();
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let halves = |values: &[f32]| {
        values.iter().flat_map(|value| value.to_le_bytes()[2..].to_vec()).collect::<Vec<u8>>()
    };
    let grid: Vec<f32> = dense
        .chunks(60)
        .flat_map(|group| {
            let scale = group.iter().fold(0f32, |most, value| most.max(value.abs())) / 127.0;
            group.iter().map(move |value| (value / scale).round() * scale).collect::<Vec<_>>()
        })
        .collect();
    let few: Vec<f32> = dense.iter().map(|value| (value * 100.0).round() / 100.0).collect();
    let pruned: Vec<f32> = dense.iter().map(|&value| if value.abs() < 0.03 { 0.0 } else { value }).collect();
    let skewed: Vec<f32> =
        dense.iter().enumerate().map(|(i, value)| if i % 8 == 0 { *value } else { value.abs() }).collect();
    // The magnitude of a subnormal is the pattern itself.
    let subnormal = |value: &f32| (value.abs() * 2000.0) as u16 | u16::from(value.is_sign_negative()) << 15;
    let subnormals: Vec<u8> = dense.iter().flat_map(|value| subnormal(value).to_le_bytes()).collect();
    let doubles: Vec<u8> = dense.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect();
    let integers: Vec<u8> = dense.iter().flat_map(|value| ((value * 3000.0) as i16).to_le_bytes()).collect();
    let levels = BitArray::new([2, 16], [BitSlice::new(4, 48, [4, 8]), BitSlice::new(1, 16, [16, 1])]);
    let fields = [Field::number(Dtype::F16, 0), Field::new(Dtype::U8, [levels])];
    let layout = RecordLayout::new(22, fields).unwrap();
    let records: Vec<u8> = dense
        .chunks_exact(22)
        .flat_map(|values| values.iter().map(|value| (value * 300.0) as i8 as u8))
        .collect();
    let cases = vec![
        (halves(&dense), Dtype::Bf16),
        (floats(&dense), Dtype::F32),
        (doubles, Dtype::F64),
        (floats(&few), Dtype::F32),
        (floats(&grid), Dtype::F32),
        (halves(&pruned), Dtype::Bf16),
        (halves(&skewed), Dtype::Bf16),
        (subnormals, Dtype::F16),
        (integers, Dtype::I16),
        (b"all models are wrong, some are useful. ".repeat(150), Dtype::U8),
    ];
    let cases = cases.into_iter().map(|(bytes, dtype)| (bytes, Options::new(dtype)));
    cases.chain([(records, Options::new(Dtype::U8).records(layout))]).collect()
}

fn varint(frame: &[u8], place: &mut usize) -> usize {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = frame[*place];
        *place += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// Where the model of the only section begins and ends; the only block follows.
fn model_of(frame: &[u8]) -> (usize, usize) {
    // Magic, version, flags and dtype; length; no shape; checksum.
    let mut place = 7;
    varint(frame, &mut place);
    place += 2;
    assert_eq!(varint(frame, &mut place), 0, "not the short form of a section");
    let model = varint(frame, &mut place);
    varint(frame, &mut place);
    (place + 4, place + 4 + model)
}

#[test]
fn mutants_of_every_kind_of_frame_are_survived() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (bytes, options) in cases() {
        for effort in [Effort::Fast, Effort::Default, Effort::Max] {
            let original = z4ai::compress(&bytes, &options.clone().effort(effort)).unwrap();
            let (start, end) = model_of(&original);
            for turn in 0..MUTANTS {
                let mut frame = original.clone();
                for _ in 0..=random.below(3) {
                    // The model is short and steers everything, so it gets half of the mutations.
                    let at = match turn % 2 {
                        0 => start + random.below(end - start),
                        _ => end + random.below(frame.len() - end),
                    };
                    match random.below(3) {
                        0 => frame[at] ^= 1 << random.below(8),
                        1 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                        _ => frame[at] = random.next() as u8,
                    }
                }
                if let Ok(decoded) = z4ai::Frame::open(&frame).and_then(|frame| frame.threads(1).read()) {
                    assert!(decoded == bytes);
                }
            }
        }
    }
}
