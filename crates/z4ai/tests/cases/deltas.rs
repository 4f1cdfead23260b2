//! Deltas to other cases.

use super::*;

pub fn add(cases: &mut Cases) {
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
