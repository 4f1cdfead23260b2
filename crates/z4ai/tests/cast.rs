//! Floats that were narrower before take no more than they did then, alone and as deltas, with a few numbers
//! among them that are not.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
mod cases;

use cases::{Random, bf16s, f8s, f16s, f32s, matrix, moved};
use z4ai::{Dtype, Effort, Frame, Info, Options};

const SHAPE: [u64; 2] = [300, 512];

/// The numbers of bf16, fp16 or fp8 elements.
fn values(dtype: Dtype, elements: &[u8]) -> Vec<f32> {
    let number = |sign: u32, magnitude: u32, mantissa_bits: u32, bias: i32| -> f32 {
        let (exponent, mantissa) = (magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1));
        let unit = (-(mantissa_bits as f32)).exp2();
        let absolute = match exponent {
            0 => mantissa as f32 * unit * (1.0 - bias as f32).exp2(),
            _ => (1.0 + mantissa as f32 * unit) * (exponent as f32 - bias as f32).exp2(),
        };
        if sign == 1 { -absolute } else { absolute }
    };
    let pair = |element: &[u8]| u32::from(u16::from_le_bytes([element[0], element[1]]));
    match dtype {
        Dtype::Bf16 => elements.chunks_exact(2).map(|element| f32::from_bits(pair(element) << 16)).collect(),
        Dtype::F16 => {
            elements.chunks_exact(2).map(|e| number(pair(e) >> 15, pair(e) & 0x7fff, 10, 15)).collect()
        }
        Dtype::F8E4M3 => {
            elements.iter().map(|&e| number(u32::from(e) >> 7, u32::from(e) & 0x7f, 3, 7)).collect()
        }
        _ => elements.iter().map(|&e| number(u32::from(e) >> 7, u32::from(e) & 0x7f, 2, 15)).collect(),
    }
}

fn elements(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    match dtype {
        Dtype::Bf16 => bf16s(values),
        Dtype::F16 => f16s(values),
        Dtype::F64 => values.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect(),
        _ => f32s(values),
    }
}

/// Elements of every type that weights are stored in first; small enough for fp16.
fn sources() -> Vec<(Dtype, Vec<u8>)> {
    let weights = matrix(SHAPE[0] as usize, SHAPE[1] as usize, 3);
    vec![
        (Dtype::Bf16, bf16s(&weights)),
        (Dtype::F16, f16s(&weights)),
        // The largest codes are no numbers.
        (Dtype::F8E4M3, f8s(&weights, 4).into_iter().map(|code| code & 0xf7).collect()),
        (Dtype::F8E5M2, f8s(&weights, 5).into_iter().map(|code| code & 0xbf).collect()),
    ]
}

fn wider(source: Dtype) -> &'static [Dtype] {
    match source {
        Dtype::Bf16 => &[Dtype::F16, Dtype::F32, Dtype::F64],
        Dtype::F16 => &[Dtype::F32, Dtype::F64],
        _ => &[Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64],
    }
}

#[test]
fn casts_take_what_their_source_takes() {
    for (source, narrow) in sources() {
        for effort in [Effort::Fast, Effort::Default, Effort::Max] {
            let alone = z4ai::compress(&narrow, &Options::new(source).shape(SHAPE).effort(effort)).unwrap();
            for &dtype in wider(source) {
                let wide = elements(dtype, &values(source, &narrow));
                let frame = z4ai::compress(&wide, &Options::new(dtype).shape(SHAPE).effort(effort)).unwrap();
                assert_eq!(z4ai::decompress(&frame).unwrap(), wide);
                assert!(
                    frame.len() < alone.len() + alone.len() / 100,
                    "{source:?} as {dtype:?}, {effort:?}: {} of {}",
                    frame.len(),
                    alone.len()
                );
            }
        }
    }
}

#[test]
fn a_few_numbers_may_be_wider() {
    let (source, narrow) = sources().swap_remove(0);
    let mut random = Random::new(9);
    for dtype in [Dtype::F16, Dtype::F32] {
        let mut wide = elements(dtype, &values(source, &narrow));
        let ordinary = z4ai::compress(&wide, &Options::new(dtype).shape(SHAPE)).unwrap();
        let width = dtype.width();
        let count = wide.len() / width;
        // Low bits, and all bits set: a NaN.
        for index in (0..300).map(|_| random.below(count as u64) as usize).chain([0, count - 1]) {
            wide[index * width] |= 1;
        }
        wide[5 * width..6 * width].fill(0xff);
        let frame = z4ai::compress(&wide, &Options::new(dtype).shape(SHAPE)).unwrap();
        assert_eq!(z4ai::decompress(&frame).unwrap(), wide);
        assert!(frame.len() < ordinary.len() + 302 * (width + 4), "{} of {}", frame.len(), ordinary.len());
        assert_eq!(Info::read(&frame).unwrap().transforms[0].name, "cast");
        // A range of it.
        let mut part = vec![0; 5000];
        Frame::open(&frame).unwrap().read_into(1234..6234, &mut part).unwrap();
        assert_eq!(part, wide[1234..6234]);
    }
}

#[test]
fn deltas_of_casts_take_what_those_of_their_source_take() {
    let (source, base) = sources().swap_remove(0);
    let tuned = moved(&base, 2, 3, 2, 11);
    let alone = z4ai::compress_delta(&tuned, &base, &Options::new(source).shape(SHAPE)).unwrap();
    for dtype in [Dtype::F16, Dtype::F32, Dtype::F64] {
        let [base, tuned] = [&base, &tuned].map(|elements_| elements(dtype, &values(source, elements_)));
        let frame = z4ai::compress_delta(&tuned, &base, &Options::new(dtype).shape(SHAPE)).unwrap();
        assert!(
            frame.len() < alone.len() + alone.len() / 50,
            "{dtype:?}: {} of {}",
            frame.len(),
            alone.len()
        );
        assert_eq!(Frame::open(&frame).unwrap().against(&base).unwrap().read().unwrap(), tuned);
        // Against a reference that comes from elsewhere, too.
        let other: Vec<u8> = base.iter().map(|byte| byte.rotate_left(1)).collect();
        let frame = z4ai::compress_delta(&tuned, &other, &Options::new(dtype)).unwrap();
        assert_eq!(Frame::open(&frame).unwrap().against(&other).unwrap().read().unwrap(), tuned);
    }
}

#[test]
fn ordinary_floats_are_not_cast() {
    let weights = matrix(300, 512, 4);
    for (dtype, bytes) in
        [(Dtype::F32, f32s(&weights)), (Dtype::F16, f16s(&weights)), (Dtype::Bf16, bf16s(&weights))]
    {
        let info = Info::read(&z4ai::compress(&bytes, &Options::new(dtype)).unwrap()).unwrap();
        assert!(info.transforms.iter().all(|part| part.name != "cast"), "{dtype:?}");
    }
}

#[test]
fn one_number_repeated() {
    for (dtype, scalar) in [
        (Dtype::Bf16, bf16s(&[0.375])),
        (Dtype::F16, f16s(&[0.375])),
        (Dtype::F32, f32s(&[0.375])),
        (Dtype::Complex64, f32s(&[0.375])),
        (Dtype::Complex128, elements(Dtype::F64, &[0.375])),
    ] {
        // The last element may be unfinished.
        for unfinished in [0, 1] {
            let mut bytes = scalar.repeat(5000);
            bytes.truncate(bytes.len() - unfinished);
            for effort in [Effort::Fast, Effort::Default, Effort::Max] {
                let frame = z4ai::compress(&bytes, &Options::new(dtype).effort(effort)).unwrap();
                assert!(z4ai::decompress(&frame).unwrap() == bytes, "{dtype:?}");
            }
        }
    }
}

#[test]
fn unfinished_elements_follow_blocks_that_go_on_to_the_end() {
    // Text in numbers of bf16: zstd takes it.
    let text = b"the quick brown fox jumps over the lazy dog. ".repeat(300);
    let mut bytes: Vec<u8> = text.iter().flat_map(|&letter| [0, 0, letter, 0x3f]).collect();
    bytes.extend_from_slice(&[1, 2, 3]);
    for effort in [Effort::Fast, Effort::Default, Effort::Max] {
        let frame = z4ai::compress(&bytes, &Options::new(Dtype::F32).effort(effort)).unwrap();
        assert!(z4ai::decompress(&frame).unwrap() == bytes);
        Info::read(&frame).unwrap();
    }
}

/// Numbers rounded to a few places take little more than the integers that they are, and minus zero is no
/// exception.
#[test]
fn decimals_take_what_their_integers_take() {
    let weights = matrix(300, 512, 5);
    for (places, bits) in [(3, 9.5), (4, 12.9), (5, 16.4), (6, 19.8)] {
        let power = 10f32.powi(places);
        let rounded: Vec<f32> = weights.iter().map(|value| (value * power).round() / power).collect();
        assert!(rounded.iter().any(|value| value.to_bits() == 1 << 31), "no minus zero");
        for (dtype, bytes) in
            [(Dtype::F32, f32s(&rounded)), (Dtype::F64, doubles(&weights, f64::from(power)))]
        {
            for effort in [Effort::Fast, Effort::Default, Effort::Max] {
                let frame = z4ai::compress(&bytes, &Options::new(dtype).shape(SHAPE).effort(effort)).unwrap();
                assert!(z4ai::decompress(&frame).unwrap() == bytes);
                let taken = frame.len() as f64 * 8.0 / rounded.len() as f64;
                assert!(taken < bits, "{places} places of {dtype:?}, {effort:?}: {taken} bits");
            }
        }
    }
}

fn doubles(weights: &[f32], power: f64) -> Vec<u8> {
    weights.iter().flat_map(|&value| ((f64::from(value) * power).round() / power).to_le_bytes()).collect()
}

/// Numbers that are far from zero have decimals by chance, which take more than they do.
#[test]
fn decimals_by_chance_are_not_taken() {
    let mut random = Random::new(8);
    let weights: Vec<f32> = (0..20_000).map(|_| 1.0 + random.normal() / 64.0).collect();
    let frame = z4ai::compress(&f32s(&weights), &Options::new(Dtype::F32)).unwrap();
    assert!(frame.len() * 8 < 24 * weights.len(), "{}", frame.len());
    assert!(z4ai::decompress(&frame).unwrap() == f32s(&weights));
}
