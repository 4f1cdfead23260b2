//! Buffers as the models of the codec expect them, from a few numbers: weights of every make and dtype, and
//! later versions of them for deltas.

use super::choices::Random;
use crate::dtype::Dtype;
use crate::record::{BitArray, BitSlice, Field, Given, RecordLayout};

/// How a buffer was made; each suits another model or another way through one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// A bell of magnitudes whose scale drifts along rows and columns; here and there a zero or an extreme.
    Bell,
    /// Such weights without signs.
    Positive,
    /// Such weights with signs that columns and neighbours tell.
    SkewedSigns,
    /// A few distinct values.
    Palette,
    /// Several hundred distinct values.
    WidePalette,
    /// Quantised to integers in groups with a scale each.
    Integers,
    /// Quantised to the levels of NF4.
    NormalFloat,
    /// Quantised to integers in groups with a scale and a least value each.
    Minimum,
    /// Mostly zeros.
    Pruned,
    /// Below the least exponent of fp16.
    Tiny,
    /// One value.
    Constant,
    /// Few bits of mantissa, as those that a narrower type has.
    Narrow,
    /// Small whole numbers.
    Counts,
    /// Random bits.
    Noise,
    /// Bytes that repeat after a while.
    Text,
}

impl Make {
    pub const ALL: [Self; 15] = [
        Self::Bell,
        Self::Positive,
        Self::SkewedSigns,
        Self::Palette,
        Self::WidePalette,
        Self::Integers,
        Self::NormalFloat,
        Self::Minimum,
        Self::Pruned,
        Self::Tiny,
        Self::Constant,
        Self::Narrow,
        Self::Counts,
        Self::Noise,
        Self::Text,
    ];
}

/// One of four layouts: bytes behind a scale, levels whose bits are apart, small numbers of all kinds, and
/// levels of which others tell.
pub(super) fn record_layout(number: usize) -> Option<RecordLayout> {
    let small = |dimensions: &[usize], slices: &[BitSlice]| {
        Field::new(Dtype::U8, [BitArray::new(dimensions, slices)])
    };
    let (length, fields) = match number {
        0 => (34, vec![Field::number(Dtype::F16, 0), Field::bytes(2, 32)]),
        1 => {
            let high = BitSlice::new(2, 8 * 128, [256, 4, 2, 8]);
            let levels = small(&[2, 2, 2, 32], &[BitSlice::new(4, 0, [512, 4, 256, 8]), high]);
            (210, vec![Field::number(Dtype::F16, 208), Field::bytes(192, 16), levels])
        }
        2 => {
            let fields = [
                Field::number(Dtype::F16, 0),
                Field::number(Dtype::F16, 2),
                Field::bytes(4, 2),
                Field::bytes(6, 2),
                small(&[2, 16], &[BitSlice::new(4, 64, [4, 8])]),
            ];
            let zero = Given::ZeroPoint { scales: 2, offsets: 3, scale_factor: 0, offset_factor: 1 };
            let layout = RecordLayout::new(24, fields).ok()?;
            return layout.given(3, Given::Field(2)).ok()?.given(4, zero).ok();
        }
        _ => {
            let levels = small(&[2, 16], &[BitSlice::new(4, 96, [4, 8]), BitSlice::new(1, 64, [16, 1])]);
            let scale = small(&[], &[BitSlice::new(3, 32, []), BitSlice::new(4, 36, [])]);
            let rest = small(&[3], &[BitSlice::new(8, 40, [8])]);
            let bit = small(&[1], &[BitSlice::new(1, 35, [0])]);
            (28, vec![Field::number(Dtype::F32, 0), scale, rest, bit, levels])
        }
    };
    RecordLayout::new(length, fields).ok()
}

/// The positive levels of NF4 and their mirror images; close enough for a few groups, exact where the scale
/// is a power of two.
const NORMAL_LEVELS: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A buffer of `count` elements in rows of `row`.
pub(super) fn buffer(make: Make, dtype: Option<Dtype>, count: usize, row: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let width = dtype.map_or(1, Dtype::width);
    let scalar = dtype.map_or(1, Dtype::scalar_width);
    match make {
        Make::Noise => return (0..count * width).map(|_| random.next() as u8).collect(),
        Make::Text => {
            let period = 1 + random.below(300);
            let text: Vec<u8> = (0..period).map(|_| random.next() as u8).collect();
            return text.iter().copied().cycle().take(count * width).collect();
        }
        _ => {}
    }
    let group = [32, 64, 128, row][random.below(4)].max(2);
    let few: Vec<f32> =
        (0..if make == Make::Palette { 2 + random.below(14) } else { 300 + random.below(500) })
            .map(|_| bell(&mut random))
            .collect();
    let (mut scale, mut least) = (1.0f32, 0.0f32);
    let mut bytes = Vec::with_capacity(count * width);
    for index in 0..count * width / scalar {
        if (index % row).is_multiple_of(group) {
            // Quantisers round scales to 16 bits more often than not.
            scale = round_to(random.unit() * 0.02 + 1e-4, 8);
            least = round_to(random.unit() - 0.5, 8);
        }
        let drift = ((index / row) as f32 / 9.0).sin() + ((index % row) as f32 / 5.0).cos();
        let plain = match random.next() % 997 {
            0 => 0.0,
            1 => 1e9,
            _ => bell(&mut random) * drift.exp2() * 0.1,
        };
        let value = match make {
            Make::Bell | Make::Noise | Make::Text => plain,
            Make::Positive => plain.abs(),
            Make::SkewedSigns if random.below(8) == 0 => plain,
            Make::SkewedSigns => plain.abs() * if (index % row).is_multiple_of(3) { -1.0 } else { 1.0 },
            Make::Palette | Make::WidePalette => few[random.below(few.len())],
            Make::Integers => (random.below(31) as f32 - 15.0) * scale,
            Make::NormalFloat => NORMAL_LEVELS[random.below(16)] * scale,
            Make::Minimum => random.below(16) as f32 * scale + least,
            Make::Pruned if random.below(10) < 7 => [0.0, -0.0][usize::from(random.below(50) == 0)],
            Make::Pruned => plain,
            Make::Tiny => plain * 1e-5,
            Make::Constant => 0.375,
            Make::Narrow => round_to(plain, [2, 3, 4, 7][seed as usize % 4]),
            Make::Counts => random.below(40) as f32,
        };
        put(&mut bytes, dtype, value);
    }
    bytes
}

/// A later version of a buffer: `reach` low bits of one element in about `rarity` have changed.
pub(super) fn moved(base: &[u8], width: usize, reach: u32, rarity: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = base.to_vec();
    let mask = (1u64 << reach.min(8 * width.min(7) as u32)) - 1;
    for element in bytes.chunks_exact_mut(width.min(8)) {
        if random.below(rarity) == 0 {
            let change = (random.next() & mask).to_le_bytes();
            element.iter_mut().zip(change).for_each(|(byte, change)| *byte = byte.wrapping_add(change));
        }
    }
    bytes
}

fn bell(random: &mut Random) -> f32 {
    (0..4).map(|_| random.unit() - 0.5).sum()
}

/// The value with so many bits of mantissa.
fn round_to(value: f32, bits: u32) -> f32 {
    f32::from_bits(value.to_bits() & !((1 << (23 - bits)) - 1))
}

/// Appends a scalar of `dtype`; of integers and truth values something that goes with the value.
fn put(bytes: &mut Vec<u8>, dtype: Option<Dtype>, value: f32) {
    let whole = if value.fract() == 0.0 { value as i64 } else { (value * 300.0) as i64 };
    match dtype {
        Some(Dtype::Bf16) => bytes.extend_from_slice(&(nearest(value.to_bits(), 16) as u16).to_le_bytes()),
        Some(Dtype::F16) => bytes.extend_from_slice(&half(value).to_le_bytes()),
        Some(Dtype::F32 | Dtype::Complex64) => bytes.extend_from_slice(&value.to_le_bytes()),
        Some(Dtype::F64 | Dtype::Complex128) => bytes.extend_from_slice(&f64::from(value).to_le_bytes()),
        // Checkpoints scale weights so that they fill the range.
        Some(Dtype::F8E5M2) => bytes.push((half(16.0 * value) >> 8) as u8),
        // A half with the exponent moved by 8 and one bit of it fewer.
        Some(Dtype::F8E4M3) => {
            let half = half(16.0 * value);
            let magnitude = (half & 0x7fff).saturating_sub(8 << 10).min(0x3f80);
            bytes.push((half >> 8 & 0x80) as u8 | (magnitude >> 7) as u8);
        }
        Some(Dtype::Bool) => bytes.push(u8::from(value > 0.0)),
        other => {
            let width = other.map_or(1, Dtype::width);
            bytes.extend_from_slice(&whole.to_le_bytes()[..width]);
        }
    }
}

/// The nearest half, at most the largest; below the least exponent the one below in magnitude.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    let mantissa = bits & 0x7f_ffff;
    sign | match exponent {
        31.. => 0x7bff,
        1.. => nearest((exponent as u32) << 23 | mantissa, 13).min(0x7bff) as u16,
        _ => (0x400 | (mantissa >> 13) as u16).checked_shr((1 - exponent) as u32).unwrap_or(0),
    }
}

/// Without the lowest `bits`, rounded to nearest, ties to even.
fn nearest(number: u32, bits: u32) -> u32 {
    (number + (1 << (bits - 1)) - 1 + (number >> bits & 1)) >> bits
}
