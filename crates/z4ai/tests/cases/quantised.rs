//! Weights on grids, from palettes, and pruned ones.

use super::*;

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

pub fn add(cases: &mut Cases) {
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
