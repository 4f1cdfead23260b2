//! Inputs that between them make the encoder write every model, every form of a block and every form of a
//! section. They are computed with integers and exact float operations only, so that every platform has the
//! same bytes.

pub mod forms;
pub mod handmade;

use z4ai::{BitArray, BitSlice, Dtype, Effort, Field, Given, Options, RecordLayout};

/// An input of the encoder.
pub struct Case {
    pub name: String,
    pub bytes: Vec<u8>,
    pub options: Options,
    /// The case whose bytes are the reference of a delta.
    pub against: Option<String>,
    /// Written as a stream, without a length in the header.
    pub streamed: bool,
}

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
fn narrow(value: f32, exponent_bits: u32, mantissa_bits: u32) -> u32 {
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
fn byte_records(values: &[f32]) -> (RecordLayout, Vec<u8>) {
    let block = |values: &[f32]| {
        let most = values.iter().fold(0f32, |most, value| most.max(value.abs()));
        let levels = values.iter().map(|value| (value / most * 127.0) as i8 as u8);
        f16s(&[most]).into_iter().chain(levels).collect::<Vec<u8>>()
    };
    let layout = RecordLayout::new(34, [Field::number(Dtype::F16, 0), Field::bytes(2, 32)]).unwrap();
    (layout, values.chunks_exact(32).flat_map(block).collect())
}

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Default, Effort::Max];

struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, name: &str, bytes: &[u8], options: Options) {
        self.0.push(Case {
            name: format!("{name}-{}", options.effort.name()),
            bytes: bytes.to_vec(),
            options,
            against: None,
            streamed: false,
        });
    }

    /// With every effort.
    fn efforts(&mut self, name: &str, bytes: &[u8], options: Options) {
        EFFORTS.into_iter().for_each(|effort| self.add(name, bytes, options.clone().effort(effort)));
    }

    fn delta(&mut self, name: &str, bytes: &[u8], against: &str, options: Options) {
        let name = format!("delta-{name}");
        self.add(&name, bytes, options);
        if let Some(case) = self.0.last_mut() {
            case.against = Some(against.into());
        }
    }
}

/// Every case. Their names are the names of the golden frames.
pub fn all() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    floats(&mut cases);
    quantised(&mut cases);
    others(&mut cases);
    sections(&mut cases);
    deltas(&mut cases);
    cases.0
}

fn floats(cases: &mut Cases) {
    let small = matrix(60, 150, 1);
    let shaped = |dtype: Dtype| Options::new(dtype).shape([60, 150]);
    cases.efforts("bf16", &bf16s(&small), shaped(Dtype::Bf16));
    cases.efforts("fp16", &f16s(&small), shaped(Dtype::F16));
    cases.efforts("fp32", &f32s(&small), shaped(Dtype::F32));
    cases.efforts("fp64", &f64s(&small[..3000]), Options::new(Dtype::F64).shape([20, 150]));
    cases.efforts("complex64", &f32s(&small[..3000]), Options::new(Dtype::Complex64).shape([10, 150]));
    cases.efforts("complex128", &f64s(&small[..1000]), Options::new(Dtype::Complex128));
    cases.efforts("fp8-e4m3", &f8s(&small, 4), shaped(Dtype::F8E4M3));
    cases.efforts("fp8-e5m2", &f8s(&small, 5), shaped(Dtype::F8E5M2));
    cases.efforts("unshaped", &bf16s(&small), Options::new(Dtype::Bf16));
    cases.efforts("few-elements", &bf16s(&small[..250]), Options::new(Dtype::Bf16));
    cases.efforts("unfinished-element", &f32s(&small)[..4399], Options::new(Dtype::F32));

    let positive: Vec<f32> = small.iter().map(|value| value.abs()).collect();
    let negative: Vec<f32> = small.iter().map(|value| -value.abs()).collect();
    let mut random = Random::new(2);
    let mostly: Vec<f32> =
        small.iter().map(|&value| if random.below(9) == 0 { value } else { value.abs() }).collect();
    cases.efforts("positive", &bf16s(&positive), shaped(Dtype::Bf16));
    cases.efforts("negative", &f32s(&negative), shaped(Dtype::F32));
    cases.efforts("mostly-positive", &bf16s(&mostly), shaped(Dtype::Bf16));
    cases.efforts("mostly-positive-fp32", &f32s(&mostly), shaped(Dtype::F32));
    cases.efforts("mostly-positive-unshaped", &f32s(&mostly), Options::new(Dtype::F32));
    let bell: Vec<f32> = (0..40_000).map(|_| random.normal() / 16.0).collect();
    let mostly: Vec<f32> =
        bell[..9000].iter().map(|&value| if random.below(9) == 0 { value } else { value.abs() }).collect();
    cases.efforts("mostly-positive-bell", &f32s(&mostly), Options::new(Dtype::F32));
    // Signs and precision that change from chunk to chunk, which no other model follows.
    let f8_chunks = |exponent_bits: u32, low: u8| -> Vec<u8> {
        let mut bytes = f8s(&bell, exponent_bits);
        for (index, chunk) in bytes.chunks_mut(4096).enumerate() {
            let (sign, kept) = (((index % 2) << 7) as u8, if index % 3 == 0 { !low } else { 0xff });
            chunk.iter_mut().for_each(|byte| *byte = *byte & 0x7f & kept | sign);
        }
        bytes
    };
    cases.add("fp8-e4m3-chunks", &f8_chunks(4, 7), Options::new(Dtype::F8E4M3).effort(Effort::Fast));
    cases.add("fp8-e5m2-chunks", &f8_chunks(5, 3), Options::new(Dtype::F8E5M2).effort(Effort::Fast));
    let columns: Vec<f32> =
        (0..12_000).map(|index| random.normal() / (1u32 << (index % 100 % 7)) as f32).collect();
    cases.efforts("scales-of-columns", &bf16s(&columns), Options::new(Dtype::Bf16).shape([120, 100]));
    // What shapes do not describe: magnitudes of two kinds, of which one is dust here and there.
    let two_kinds: Vec<f32> = (0..60_000)
        .map(|_| {
            let far = if random.below(3) == 0 { 1.0 / 64.0 } else { 1.0 };
            random.normal().signum() * (3.0 + random.normal() / 8.0) * far
        })
        .collect();
    let by_row = |values: &[f32]| -> Vec<f32> {
        values.iter().enumerate().map(|(index, value)| value * (1 << (index / 200 % 9)) as f32).collect()
    };
    cases.add(
        "adaptive-tables",
        &bf16s(&by_row(&two_kinds)),
        Options::new(Dtype::Bf16).shape([300, 200]).effort(Effort::Max),
    );
    let dust = |values: &[f32], random: &mut Random| -> Vec<f32> {
        let mut dusty = false;
        values
            .iter()
            .map(|&value| {
                dusty = if random.below(8) == 0 { !dusty } else { dusty };
                if dusty { value / 1e6 } else { value }
            })
            .collect()
    };
    let dusty = by_row(&dust(&bell, &mut random));
    cases.add(
        "adaptive-dust",
        &bf16s(&dusty),
        Options::new(Dtype::Bf16).shape([200, 200]).effort(Effort::Max),
    );
    let dusty = by_row(&dust(&two_kinds, &mut random));
    cases.add(
        "adaptive-dust-tables",
        &bf16s(&dusty),
        Options::new(Dtype::Bf16).shape([300, 200]).effort(Effort::Max),
    );
    // Heavy tails, in rows with scales of their own; and dust that neighbours tell of.
    let mut tails = Random::new(3);
    let mut heavy = |rows: usize, columns: usize, spread: f32| -> Vec<f32> {
        let octaves = |octaves: f32| f32::from_bits(((127.0 + octaves) as u32) << 23);
        let scales: Vec<f32> = (0..rows)
            .map(|_| octaves(spread * tails.normal()) * (1.0 + tails.below(8) as f32 / 8.0))
            .collect();
        let root = |random: &mut Random| random.normal().abs().sqrt();
        (0..rows * columns)
            .map(|at| scales[at / columns] * tails.normal() * root(&mut tails) * root(&mut tails))
            .collect()
    };
    let shape =
        |rows: u64, columns: u64| Options::new(Dtype::Bf16).shape([rows, columns]).effort(Effort::Max);
    cases.add("adaptive-heavy-tails", &bf16s(&heavy(56, 270, 2.0)), shape(56, 270));
    let mut gaps = heavy(101, 206, 1.0);
    for (at, value) in gaps.iter_mut().enumerate() {
        let is_gap = at / 206 % 7 == 0 || at % 206 % 5 == 0;
        *value /= if is_gap && at * 2_654_435 % 6 > 0 { 1e7 } else { 1.0 };
    }
    cases.add("adaptive-gaps", &bf16s(&gaps), shape(101, 206));
    let signs_by_column: Vec<f32> = small
        .iter()
        .enumerate()
        .map(|(index, value)| if random.below(8) > 0 && index % 3 == 0 { -value.abs() } else { value.abs() })
        .collect();
    cases.efforts("signs-by-column", &bf16s(&signs_by_column), shaped(Dtype::Bf16));
    // Each element is close to the one before it, so that signs and exponents follow from their neighbours.
    let mut sum = 0.0;
    let walk: Vec<f32> = (0..16_000)
        .map(|_| {
            sum = sum * 0.95 + random.normal() / 32.0;
            sum
        })
        .collect();
    cases.efforts("walk", &bf16s(&walk), Options::new(Dtype::Bf16).shape([80, 200]));
    cases.efforts("walk-fp64", &f64s(&walk[..6000]), Options::new(Dtype::F64).shape([30, 200]));
    let kernels: Vec<f32> = (0..1200)
        .flat_map(|_| {
            let mut value = random.normal() / 8.0 / (1u32 << random.below(6)) as f32;
            std::array::from_fn::<f32, 9, _>(|_| {
                value += value.abs() * random.normal() / 4.0;
                value
            })
        })
        .collect();
    cases.efforts("kernels", &bf16s(&kernels), Options::new(Dtype::Bf16).shape([40, 30, 3, 3]));
    cases.efforts("kernels-fp32", &f32s(&kernels), Options::new(Dtype::F32).shape([40, 30, 3, 3]));
    let mut short_rows = f32s(&matrix(100, 90, 5));
    for (row, bytes) in short_rows.chunks_mut(360).enumerate() {
        if row % 3 == 0 {
            bytes.chunks_mut(4).for_each(|element| {
                element[0] = 0;
                element[1] &= 0xe0;
            });
        }
    }
    cases.efforts("short-rows", &short_rows, Options::new(Dtype::F32).shape([100, 90]));
    let octaves: Vec<u8> = (0..9000)
        .map(|_| random.below(2) << 15 | (40 + random.below(150)) << 7 | random.below(4) << 5)
        .flat_map(|pattern| (pattern as u16).to_le_bytes())
        .collect();
    cases.efforts("many-octaves", &octaves, Options::new(Dtype::Bf16));
    let wide: Vec<f32> = matrix(345, 300, 6).iter().map(|value| value.abs()).collect();
    let lanes = Options::new(Dtype::Bf16).shape([345, 300]);
    cases.add("lanes-64", &bf16s(&wide), lanes.clone().effort(Effort::Default));
    cases.add("lanes-64", &bf16s(&wide), lanes.effort(Effort::Fast));
    cases.add("lanes-32", &f32s(&wide[..33_000]), Options::new(Dtype::F32).shape([110, 300]));

    let subnormal = |value: &f32| (value.abs() * 1500.0).min(1500.0) as u16;
    let with_signs: Vec<u8> = small
        .iter()
        .flat_map(|value| (subnormal(value) | u16::from(*value < 0.0) << 15).to_le_bytes())
        .collect();
    let without: Vec<u8> = small.iter().flat_map(|value| subnormal(value).to_le_bytes()).collect();
    let all_negative: Vec<u8> =
        small.iter().flat_map(|value| (subnormal(value) | 0x8000).to_le_bytes()).collect();
    // What was narrower before, but for an element here and there.
    let widened: Vec<f32> = small.iter().map(|&value| f32::from_bits(u32::from(bf16(value)) << 16)).collect();
    let mut halves = f16s(&widened);
    halves[100] |= 1;
    cases.efforts("cast-fp16", &halves, shaped(Dtype::F16));
    let mut singles = f32s(&widened);
    singles[4400] |= 1;
    cases.efforts("cast-fp32", &singles, shaped(Dtype::F32));
    cases.efforts("cast-complex64", &singles, Options::new(Dtype::Complex64).shape([60, 75]));
    let doubles: Vec<u8> = small.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect();
    cases.efforts("cast-fp64", &doubles, shaped(Dtype::F64));
    // Numbers that were rounded to four and to seven places, one of them not.
    let mut rounded = f32s(&small.iter().map(|value| (value * 1e4).round() / 1e4).collect::<Vec<_>>());
    rounded[400..404].copy_from_slice(&0.123_456_7_f32.to_le_bytes());
    cases.efforts("decimals-fp32", &rounded, shaped(Dtype::F32));
    let seven = |value: &f32| ((f64::from(*value) * 1e7).round() / 1e7).to_le_bytes();
    let rounded: Vec<u8> = small.iter().flat_map(seven).collect();
    cases.efforts("decimals-fp64", &rounded, shaped(Dtype::F64));
    // The numbers of e4m3: four bits of mantissa from 2^-6 to 448.
    let of_e4m3: Vec<f32> = small
        .iter()
        .map(|&value| f32::from_bits((value * 512.0).clamp(-448.0, 448.0).to_bits() & 0xfff0_0000))
        .map(|value| if value.abs() < 1.0 / 64.0 { 0.0 } else { value })
        .collect();
    cases.efforts("cast-bf16", &bf16s(&of_e4m3), shaped(Dtype::Bf16));
    // The numbers of fp16.
    let of_fp16: Vec<f32> = small
        .iter()
        .map(|value| f32::from_bits(value.to_bits() & 0xffff_e000))
        .map(|value| if value.abs() < 1.0 / 16384.0 { 0.0 } else { value })
        .collect();
    cases.efforts("cast-from-fp16", &f32s(&of_fp16), shaped(Dtype::F32));
    cases.efforts("subnormal", &with_signs, shaped(Dtype::F16));
    cases.efforts("subnormal-positive", &without, shaped(Dtype::F16));
    cases.efforts("subnormal-negative", &all_negative, shaped(Dtype::F16));
    let tiny: Vec<u8> = matrix(320, 320, 8)
        .iter()
        .flat_map(|value| ((value.abs() * 3.0) as u16 | u16::from(*value < 0.0) << 15).to_le_bytes())
        .collect();
    cases.add("subnormal-states-32", &tiny[..2 * 192 * 192], Options::new(Dtype::F16).shape([192, 192]));
    cases.add("subnormal-states-64", &tiny, Options::new(Dtype::F16).shape([320, 320]));
}

/// The tables of 4-bit formats.
const NF4: [f32; 16] = [
    -1.0,
    -0.6961928,
    -0.52507305,
    -0.3949175,
    -0.28444138,
    -0.18477343,
    -0.091050036,
    0.0,
    0.0795803,
    0.1609302,
    0.2461123,
    0.33791524,
    0.44070983,
    0.562617,
    0.72295684,
    1.0,
];
const FP4: [f32; 16] = [
    -1.0,
    -0.6666667,
    -0.5,
    -0.33333334,
    -0.25,
    -0.16666667,
    -0.0052083335,
    0.0,
    0.0052083335,
    0.16666667,
    0.25,
    0.33333334,
    0.5,
    0.6666667,
    1.0,
    0.0,
];

fn quantised(cases: &mut Cases) {
    let mut random = Random::new(11);
    let (rows, columns, group) = (40usize, 256usize, 32usize);
    let groups = rows * columns / group;
    let scales: Vec<f32> = (0..groups).map(|_| (100 + random.below(1000)) as f32 / 77_777.0).collect();
    let offsets: Vec<f32> = (0..groups).map(|_| random.normal() / 9.0).collect();
    let elements = |element: &mut dyn FnMut(f32, f32) -> f32| -> Vec<f32> {
        (0..rows * columns).map(|index| element(scales[index / group], offsets[index / group])).collect()
    };
    let level = |random: &mut Random, most: f32| (random.normal() * most / 3.0).clamp(-most, most).round();
    let shaped = |dtype: Dtype| Options::new(dtype).shape([rows as u64, columns as u64]);
    let grid = elements(&mut |scale, _| level(&mut random, 127.0) * scale);
    cases.efforts("grid-integers", &f32s(&grid), shaped(Dtype::F32));
    cases.efforts("grid-integers-bf16", &bf16s(&grid), shaped(Dtype::Bf16));
    let mut minus_zeros = grid.clone();
    minus_zeros.iter_mut().step_by(37).for_each(|value| *value = -0.0);
    cases.efforts("grid-minus-zeros", &f32s(&minus_zeros), shaped(Dtype::F32));
    let mut raw = grid;
    raw[3 * group..5 * group].iter_mut().for_each(|value| *value = random.normal());
    cases.efforts("grid-raw-groups", &f32s(&raw), shaped(Dtype::F32));
    let nf4 = elements(&mut |scale, _| NF4[random.below(16) as usize] * scale);
    cases.efforts("grid-nf4", &bf16s(&nf4), shaped(Dtype::Bf16));
    let fp4 = elements(&mut |scale, _| FP4[random.below(16) as usize] * scale);
    cases.efforts("grid-fp4", &f32s(&fp4), shaped(Dtype::F32));
    let minimum = elements(&mut |scale, offset| random.below(16) as f32 * scale + (offset - 7.5) * scale);
    cases.efforts("grid-minimum", &f32s(&minimum), shaped(Dtype::F32));
    cases.efforts("grid-minimum-bf16", &bf16s(&minimum), shaped(Dtype::Bf16));
    let centre = elements(&mut |scale, offset| (random.below(16) as f32 - (8.0 + 4.0 * offset)) * scale);
    cases.efforts("grid-centre", &f32s(&centre), shaped(Dtype::F32));
    // Levels of eight bits and scales of three, whose products fp16 has.
    let mut short_levels = Random::new(14);
    let short = elements(&mut |scale, _| {
        level(&mut short_levels, 127.0) * (4.0 + (scale * 77_777.0) % 4.0).floor() / 4096.0
    });
    cases.efforts("grid-integers-fp16", &f16s(&short), shaped(Dtype::F16));
    let mut floats = Random::new(13);
    // Three and two bits of mantissa.
    let mut e4m3 = elements(&mut |scale, _| {
        f32::from_bits((floats.normal() * 90.0).clamp(-448.0, 448.0).to_bits() & 0xfff0_0000) * scale
    });
    e4m3[group..2 * group].fill(0.0);
    e4m3[3 * group..4 * group].iter_mut().for_each(|value| *value = floats.normal());
    cases.efforts("grid-e4m3", &f32s(&e4m3), shaped(Dtype::F32));
    // A scale for each column.
    let mut other = Random::new(59);
    let scales: Vec<f32> = (0..50).map(|_| other.normal().abs() / 100.0 + 0.001).collect();
    let columns: Vec<f32> = (0..90 * 50).map(|place| level(&mut other, 127.0) * scales[place % 50]).collect();
    cases.efforts("grid-columns", &f32s(&columns), Options::new(Dtype::F32).shape([90, 50]));
    let e5m2 = elements(&mut |scale, _| {
        f32::from_bits((floats.normal() * floats.normal() * 900.0).to_bits() & 0xffe0_0000) * scale
    });
    cases.efforts("grid-e5m2", &bf16s(&e5m2), shaped(Dtype::Bf16));
    let e2m1 = elements(&mut |scale, _| {
        let number = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0, -0.0];
        // Of forty scales.
        number[floats.below(16) as usize] * ((1.0 + (scale * 77_777.0).round() % 40.0) / 333.0)
    });
    cases.efforts("grid-e2m1", &f32s(&e2m1), shaped(Dtype::F32));

    let few: Vec<f32> = (0..9000).map(|_| (random.normal() * 20.0).round() / 100.0).collect();
    cases.efforts("palette", &f32s(&few), Options::new(Dtype::F32));
    let many: Vec<f32> = (0..30_000).map(|_| (random.normal() * 200.0).round() / 1000.0).collect();
    cases.efforts("palette-two-planes", &f32s(&many), Options::new(Dtype::F32));
    let repeating: Vec<u8> = (0..600u64)
        .flat_map(|row| (0..100u64).map(move |column| row / 8 % 60 * 3 + column * column / 7 % 2))
        .flat_map(|pattern| (pattern as u16).to_le_bytes())
        .collect();
    cases.efforts("palette-repeating", &repeating, Options::new(Dtype::Bf16));

    // Few numbers, in rows and columns of different magnitude.
    let scaled: Vec<f32> =
        matrix(96, 192, 15).iter().map(|value| (value * 150.0).round().clamp(-120.0, 120.0) / 37.0).collect();
    cases.efforts("palette-scaled", &f32s(&scaled), Options::new(Dtype::F32).shape([96, 192]));
    // Three decimals.
    let mut few_places = Random::new(71);
    let decimals: Vec<f32> = (0..9000).map(|_| (few_places.normal() * 1500.0).round() / 1000.0).collect();
    cases.efforts("cast-decimals-fp16", &nearest_f16s(&decimals), Options::new(Dtype::F16));
    let small: Vec<f32> = (0..4000).map(|_| (few_places.normal() * 100.0).round() / 1000.0).collect();
    cases.efforts("cast-decimals-bf16", &bf16s(&small), Options::new(Dtype::Bf16));

    let doubles: Vec<u8> =
        few.iter().flat_map(|&value| f64::from(value).sqrt().abs().to_le_bytes()).collect();
    cases.efforts("palette-fp64", &doubles, Options::new(Dtype::F64));
    cases.efforts("palette-int64", &doubles, Options::new(Dtype::I64));
    let dense = matrix(60, 200, 12);
    let pruned: Vec<f32> =
        dense.iter().map(|&value| if random.below(10) < 7 { 0.0 } else { value }).collect();
    cases.efforts("sparse", &bf16s(&pruned), Options::new(Dtype::Bf16).shape([60, 200]));
    let with_signs: Vec<f32> =
        dense.iter().map(|&value| if random.below(10) < 7 { value * 0.0 } else { value }).collect();
    cases.efforts("sparse-minus-zeros", &f32s(&with_signs), Options::new(Dtype::F32));
    let wide: Vec<u8> = (0..12_000)
        .map(|_| if random.below(10) < 8 { 0 } else { random.next() >> 24 })
        .flat_map(|number| (number as u32).to_le_bytes())
        .collect();
    cases.efforts("sparse-integers", &wide, Options::new(Dtype::U32));
}

fn others(cases: &mut Cases) {
    let values = matrix(30, 150, 21);
    cases.efforts("int8", &integers::<1>(&values, 50.0), Options::new(Dtype::I8));
    cases.efforts("uint8", &integers::<1>(&values, 90.0), Options::new(Dtype::U8));
    cases.efforts("int16", &integers::<2>(&values, 9000.0), Options::new(Dtype::I16).shape([30, 150]));
    cases.efforts("uint16", &integers::<2>(&values, 70_000.0), Options::new(Dtype::U16));
    cases.efforts("int32", &integers::<4>(&values, 1e8), Options::new(Dtype::I32));
    cases.efforts("uint32", &integers::<4>(&values, 1e7), Options::new(Dtype::U32));
    cases.efforts("int64", &integers::<8>(&values, 1e12), Options::new(Dtype::I64));
    cases.efforts("uint64", &integers::<8>(&values, 1e15), Options::new(Dtype::U64));
    // The last record is unfinished.
    let blocks = records(&matrix(60, 160, 23));
    let of_records = |dtype| Options::new(dtype).records(record_layout());
    cases.efforts("records", &blocks[..blocks.len() - 5], of_records(Dtype::U8));
    cases.add("records-opaque", &blocks, Options::default().records(record_layout()));
    let (layout, blocks) = byte_records(&matrix(60, 150, 1));
    cases.add("records-bytes", &blocks, Options::new(Dtype::U8).records(layout));
    // Groups whose least values differ, so that scales and offsets tell where levels are.
    let skewed: Vec<f32> = matrix(240, 160, 24)
        .iter()
        .enumerate()
        .map(|(at, value)| value + (at / 16 * 2_654_435 % 64) as f32 / 200.0 - 0.15)
        .collect();
    let (layout, blocks) = affine_records(&skewed);
    cases.efforts("records-given", &blocks, Options::new(Dtype::U8).records(layout));
    // Bytes of which row and column tell something.
    let (scaled, of) = (matrix(96, 192, 31), |dtype| Options::new(dtype).shape([96u64, 192]));
    cases.add("scaled-fp8-e4m3", &f8s(&scaled, 4), of(Dtype::F8E4M3));
    cases.add("scaled-fp8-e5m2", &f8s(&scaled, 5), of(Dtype::F8E5M2));
    let codes: Vec<u8> = f8s(&scaled, 5).iter().map(|code| code & 0x7f).collect();
    cases.add("scaled-uint8", &codes, of(Dtype::U8));
    let levels: Vec<u8> =
        scaled.iter().map(|value| (128.0 + value * 300.0).clamp(0.0, 255.0).round() as u8).collect();
    cases.add("scaled-uint8-centred", &levels, of(Dtype::U8));
    // Of a few values, in streams of many states.
    for (states, side) in [(32, 300), (64, 320)] {
        let coarse: Vec<u8> = matrix(side, side, 33).iter().map(|value| (value.abs() * 24.0) as u8).collect();
        let shaped = Options::new(Dtype::U8).shape([side as u64, side as u64]);
        cases.add(&format!("scaled-states-{states}"), &coarse, shaped);
    }
    let bools: Vec<u8> = values.iter().map(|&value| u8::from(value > 0.05)).collect();
    cases.efforts("bool", &bools, Options::new(Dtype::Bool));
    cases.efforts("text", &b"all models are wrong, some are useful; ".repeat(60), Options::default());
    cases.efforts("constant", &f32s(&[3.5; 1000]), Options::new(Dtype::F32).shape([1000]));
    cases.efforts("nothing", &[], Options::new(Dtype::F32).shape([0, 3]));
    let mut random = Random::new(22);
    let noise: Vec<u8> = (0..200).map(|_| random.next() as u8).collect();
    cases.efforts("stored", &noise, Options::default());
    let named = Options { numpy_dtype: Some(">f4".into()), ..Options::new(Dtype::F32) };
    cases.efforts("numpy-dtype", &f32s(&values[..100]), named);
}

fn sections(cases: &mut Cases) {
    let mut random = Random::new(31);
    // Blocks that are coded, constant and verbatim in one section.
    let mut blocks = bf16s(&matrix(512, 256, 32).iter().map(|value| value.abs()).collect::<Vec<_>>());
    blocks.iter_mut().for_each(|byte| *byte &= 0xf8);
    let dense = blocks.clone();
    blocks.extend(std::iter::repeat_n([0, 0x3c], 1 << 17).flatten());
    blocks.extend((0..1 << 18).map(|_| random.next() as u8));
    cases.add("blocks", &blocks, Options::new(Dtype::I16));
    let text: Vec<u8> = (0..180_000u64)
        .flat_map(|line| format!("{} {:x};", line / 7, line * line % 1000).into_bytes())
        .collect();
    cases.add("blocks-opaque", &text, Options::default());
    let layer = bf16s(&matrix(100, 100, 33));
    let tied = [&layer[..], &bf16s(&matrix(5, 100, 34)), &layer].concat();
    cases.efforts("copies", &tied, Options::new(Dtype::Bf16).shape([205, 100]));
    // Tensors one after the other that have nothing in common.
    let coarse: Vec<u8> = dense.chunks_exact(2).flat_map(|pair| [pair[0] & 0x80, pair[1]]).collect();
    let wide: Vec<u8> = (0..1 << 16)
        .map(|_| (30 + random.below(40)) << 7)
        .flat_map(|pattern| (pattern as u16).to_le_bytes())
        .collect();
    let segments = [&coarse[..1 << 17], &wide, &coarse[..1 << 17]].concat();
    cases.add("segments", &segments, Options::new(Dtype::Bf16));
    cases.add("stream", &segments[..150_001], Options::new(Dtype::Bf16));
    if let Some(case) = cases.0.last_mut() {
        case.streamed = true;
    }
}

fn deltas(cases: &mut Cases) {
    let values = matrix(60, 150, 1);
    let wide: Vec<f32> = matrix(345, 300, 6).iter().map(|value| value.abs()).collect();
    let (bf16_base, f16_base, f32_base) = (bf16s(&values), f16s(&values), f32s(&values));
    let bf16_wide = bf16s(&wide);
    let new = Options::new;
    cases.delta("bf16", &moved(&bf16_base, 2, 3, 3, 41), "bf16-fast", new(Dtype::Bf16).shape([60, 150]));
    cases.delta("bf16-wide", &moved(&bf16_wide, 2, 1, 50, 42), "lanes-64-fast", new(Dtype::Bf16));
    cases.delta("bf16-raw", &moved(&bf16_wide, 2, 12, 9, 43), "lanes-64-fast", new(Dtype::Bf16));
    cases.delta("fp16", &moved(&f16_base, 2, 5, 2, 44), "fp16-fast", new(Dtype::F16));
    cases.delta("fp32", &moved(&f32_base, 4, 14, 1, 45), "fp32-fast", new(Dtype::F32));
    cases.delta("fp32-sparse", &moved(&f32_base, 4, 9, 200, 46), "fp32-fast", new(Dtype::F32));
    let f64_base = f64s(&values[..3000]);
    cases.delta("fp64", &moved(&f64_base, 8, 33, 1, 47), "fp64-fast", new(Dtype::F64));
    let (e4m3, e5m2) = (f8s(&values, 4), f8s(&values, 5));
    cases.delta("fp8-e4m3", &moved(&e4m3, 1, 2, 4, 48), "fp8-e4m3-fast", new(Dtype::F8E4M3));
    cases.delta("fp8-e5m2", &moved(&e5m2, 1, 2, 90, 49), "fp8-e5m2-fast", new(Dtype::F8E5M2));
    let complex = f32s(&values[..3000]);
    cases.delta("complex64", &moved(&complex, 4, 7, 3, 50), "complex64-fast", new(Dtype::Complex64));
    let tuned: Vec<u8> = moved(&bf16_base, 2, 3, 3, 52)
        .chunks_exact(2)
        .flat_map(|element| [0, 0, element[0], element[1]])
        .collect();
    cases.delta("cast-fp32", &tuned, "cast-fp32-fast", new(Dtype::F32));
    // Weight decay alone, beside elements that were trained too.
    let mut random = Random::new(51);
    let decayed: Vec<f32> = values
        .iter()
        .map(|&value| if random.below(30) == 0 { value * 1.0001 } else { value * (1.0 - 1.0 / 4096.0) })
        .collect();
    cases.delta("decay", &f32s(&decayed), "fp32-fast", new(Dtype::F32));
    // The larger the element, the smaller the change in units of its last place.
    let trained: Vec<f32> = wide.iter().map(|&value| value + random.normal() / 1500.0).collect();
    cases.delta("contexts", &bf16s(&trained), "lanes-64-fast", new(Dtype::Bf16));
    // Few elements, and all of them lose one unit in the last place.
    let mut listed = bf16_wide.clone();
    listed.chunks_exact_mut(2).filter(|_| random.below(300) == 0).for_each(|element| {
        let bits = u16::from_le_bytes([element[0], element[1]]).saturating_sub(1);
        element.copy_from_slice(&bits.to_le_bytes());
    });
    cases.delta("listed", &listed, "lanes-64-fast", new(Dtype::Bf16));
    cases.delta("unchanged", &bf16_base, "bf16-fast", new(Dtype::Bf16));
    // One block of two is as it was.
    let mut half = bf16_base.clone();
    half[9000..].iter_mut().step_by(2).for_each(|byte| *byte ^= 1);
    cases.delta("half", &half, "bf16-fast", new(Dtype::Bf16));
    let wide_integers = integers::<4>(&matrix(30, 150, 21), 1e8);
    cases.delta("int32", &moved(&wide_integers, 4, 3, 2, 52), "int32-fast", new(Dtype::I32));
    let base = integers::<2>(&matrix(30, 150, 21), 9000.0);
    let mut random = Random::new(60);
    let tuned: Vec<u8> = base
        .chunks_exact(2)
        .flat_map(|element| {
            let change = (random.normal() * 700.0) as i16;
            i16::from_le_bytes([element[0], element[1]]).wrapping_add(change).to_le_bytes()
        })
        .collect();
    cases.delta("int16", &tuned, "int16-fast", new(Dtype::I16).shape([30, 150]));
    cases.delta("short", &moved(&bf16_base[..800], 2, 3, 3, 61), "bf16-fast", new(Dtype::Bf16));
    // Levels of eight bits, some of which are one more or less, behind scales that have changed.
    let (layout, blocks) = byte_records(&values);
    let mut random = Random::new(58);
    let mut tuned = blocks.clone();
    for block in tuned.chunks_exact_mut(34) {
        block[0] ^= random.next() as u8;
        block[2..]
            .iter_mut()
            .for_each(|level| *level = level.wrapping_add([0, 1, 255][random.below(3) as usize]));
    }
    cases.delta("records", &tuned, "records-bytes-default", new(Dtype::U8).records(layout));
    let text = b"all models are wrong, some are useful; ".repeat(60);
    cases.delta("text", &moved(&text, 1, 2, 300, 53), "text-fast", Options::default());
    let longer = [&moved(&f32_base, 4, 8, 4, 54)[..], &f32s(&matrix(10, 150, 55))].concat();
    cases.delta("longer", &longer, "fp32-fast", new(Dtype::F32));
    cases.delta("shorter", &moved(&f32_base[..20_000], 4, 8, 4, 56), "fp32-fast", new(Dtype::F32));
    cases.delta("unrelated", &f32s(&matrix(60, 150, 57)), "fp32-fast", new(Dtype::F32));
}
