//! Elements and records that cases are made of.

use z4ai::{BitArray, BitSlice, Dtype, Field, Given, RecordLayout};

/// A small generator of numbers (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 8) % bound
    }

    /// About normally distributed, with a deviation of 1.
    pub fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.below(1 << 20) as i64 - (1 << 19)).sum::<i64>() as f32 / (1 << 20) as f32
    }
}

/// A matrix whose rows and columns have scales of their own.
pub fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let mut scale = || (1 + random.below(8)) as f32 / (1u32 << random.below(4)) as f32;
    let row_scales: Vec<f32> = (0..rows).map(|_| scale()).collect();
    let column_scales: Vec<f32> = (0..columns).map(|_| scale()).collect();
    let mut random = Random::new(seed + 1);
    row_scales
        .iter()
        .flat_map(|row| column_scales.iter().map(move |column| row * column))
        .map(|scale| scale * random.normal() / 64.0)
        .collect()
}

pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn f64s(values: &[f32]) -> Vec<u8> {
    let mut random = Random::new(64);
    values
        .iter()
        .flat_map(|&value| (f64::from(value) * (1.0 + random.below(1 << 28) as f64 / 1e16)).to_le_bytes())
        .collect()
}

/// Rounded to the nearest, ties to even.
pub fn bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

pub fn bf16s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&value| bf16(value).to_le_bytes()).collect()
}

/// Rounded towards zero; exponents are clamped.
pub fn narrow(value: f32, exponent_bits: u32, mantissa_bits: u32) -> u32 {
    let bits = value.to_bits();
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = ((bits >> 23 & 0xff) as i32 - 127 + bias).clamp(0, (1 << exponent_bits) - 1) as u32;
    let magnitude = exponent << mantissa_bits | (bits & 0x7f_ffff) >> (23 - mantissa_bits);
    bits >> 31 << (exponent_bits + mantissa_bits) | magnitude
}

pub fn f16s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&value| (narrow(value, 5, 10) as u16).to_le_bytes()).collect()
}

/// Rounded to the nearest, ties to even, of numbers that are zero or not too small.
pub fn nearest_f16s(values: &[f32]) -> Vec<u8> {
    let rounded = |bits: u32| f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff);
    let values: Vec<f32> = values.iter().map(|value| rounded(value.to_bits())).collect();
    let zeros = values.iter().map(|&value| if value == 0.0 { value.to_bits() >> 16 } else { 1 });
    let bytes = f16s(&values);
    let halves = bytes.chunks_exact(2).zip(zeros);
    halves
        .flat_map(|(half, zero)| if zero == 1 { [half[0], half[1]] } else { (zero as u16).to_le_bytes() })
        .collect()
}

pub fn f8s(values: &[f32], exponent_bits: u32) -> Vec<u8> {
    values.iter().map(|&value| narrow(value * 16.0, exponent_bits, 7 - exponent_bits) as u8).collect()
}

pub fn integers<const WIDTH: usize>(values: &[f32], factor: f32) -> Vec<u8> {
    values.iter().flat_map(|&value| ((value * factor) as i64).to_le_bytes()[..WIDTH].to_vec()).collect()
}

/// Elements with up to `bits` low bits of one in `every` changed, more of them further on.
pub fn moved(base: &[u8], width: usize, bits: u32, every: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = base.to_vec();
    for element in bytes.chunks_exact_mut(width) {
        if random.below(every) == 0 {
            let change = random.next() >> 9 & ((1 << bits) - 1);
            element.iter_mut().zip(change.to_le_bytes()).for_each(|(byte, change)| *byte ^= change);
        }
    }
    bytes
}

/// Blocks of 32 levels of five bits: a scale in half precision, the fifth bits, two small scales whose high
/// bits are apart, the nibbles.
pub fn record_layout() -> RecordLayout {
    let small = BitArray::new([2], [BitSlice::new(4, 48, [8]), BitSlice::new(2, 52, [8])]);
    let rest = BitArray::new([2], [BitSlice::new(2, 54, [8])]);
    let levels = BitArray::new([2, 16], [BitSlice::new(4, 64, [4, 8]), BitSlice::new(1, 16, [16, 1])]);
    let fields =
        [Field::number(Dtype::F16, 0), Field::new(Dtype::U8, [small, rest]), Field::new(Dtype::U8, [levels])];
    RecordLayout::new(24, fields).unwrap()
}

/// Blocks of [`record_layout`] from weights.
pub fn records(values: &[f32]) -> Vec<u8> {
    let block = |(number, values): (usize, &[f32])| {
        let most = values.iter().fold(0f32, |most, value| most.max(value.abs()));
        let levels = values.iter().map(|value| ((value / most * 15.9) as i32 + 16) as u8);
        let mut block = f16s(&[most]);
        block.resize(24, 0);
        block[6] = (number % 37) as u8 | 0x40;
        block[7] = (number % 41) as u8;
        for (index, level) in levels.enumerate() {
            block[8 + index % 16] |= (level & 15) << (4 * (index / 16));
            block[2 + index / 8] |= (level >> 4) << (index % 8);
        }
        block
    };
    values.chunks_exact(32).enumerate().flat_map(block).collect()
}

/// Blocks of two groups of 16 levels of four bits with a scale and an offset of six bits each, which are
/// multiplied by numbers in half precision; and their layout.
pub fn affine_records(values: &[f32]) -> (RecordLayout, Vec<u8>) {
    let block = |values: &[f32]| {
        let groups = values.chunks_exact(16).map(|group| {
            let low = group.iter().fold(0f32, |low, &value| low.min(value));
            let span = group.iter().fold(0f32, |most, &value| most.max(value - low));
            (span / 15.0, -low)
        });
        let groups: Vec<(f32, f32)> = groups.collect();
        let most = |part: fn(&(f32, f32)) -> f32| groups.iter().map(part).fold(1e-4, f32::max) / 63.0;
        let (scale, offset) = (most(|group| group.0), most(|group| group.1));
        let mut block = f16s(&[scale, offset]);
        block.extend(groups.iter().map(|group| (group.0 / scale) as u8));
        block.extend(groups.iter().map(|group| (group.1 / offset) as u8));
        let level = |(index, value): (usize, &f32)| {
            let (span, low) = groups[index / 16];
            ((value + low) / span.max(1e-6)).clamp(0.0, 15.0) as u8
        };
        let levels: Vec<u8> = values.iter().enumerate().map(level).collect();
        block.extend((0..16).map(|index| levels[index] | levels[16 + index] << 4));
        block
    };
    let levels = BitArray::new([2, 16], [BitSlice::new(4, 64, [4, 8])]);
    let fields = [
        Field::number(Dtype::F16, 0),
        Field::number(Dtype::F16, 2),
        Field::bytes(4, 2),
        Field::bytes(6, 2),
        Field::new(Dtype::U8, [levels]),
    ];
    let zero = Given::ZeroPoint { scales: 2, offsets: 3, scale_factor: 0, offset_factor: 1 };
    let layout = RecordLayout::new(24, fields).unwrap();
    let layout = layout.given(3, Given::Field(2)).unwrap().given(4, zero).unwrap();
    (layout, values.chunks_exact(32).flat_map(block).collect())
}

/// Blocks of a scale in half precision and 32 levels of eight bits, with their layout.
pub fn byte_records(values: &[f32]) -> (RecordLayout, Vec<u8>) {
    let block = |values: &[f32]| {
        let most = values.iter().fold(0f32, |most, value| most.max(value.abs()));
        let levels = values.iter().map(|value| (value / most * 127.0) as i8 as u8);
        f16s(&[most]).into_iter().chain(levels).collect::<Vec<u8>>()
    };
    let layout = RecordLayout::new(34, [Field::number(Dtype::F16, 0), Field::bytes(2, 32)]).unwrap();
    (layout, values.chunks_exact(32).flat_map(block).collect())
}
