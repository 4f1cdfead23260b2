//! Floats: dense, subnormal, and such as were narrower before.

use super::*;

pub fn add(cases: &mut Cases) {
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
