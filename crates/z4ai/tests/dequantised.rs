//! Weights that were quantised to floats of four and eight bits with scales, and multiplied out again: they
//! take about what the codes and scales take, whatever the groups and whatever they are stored in.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod cases;

use std::collections::BTreeMap;

use cases::{Random, bf16, matrix};
use z4ai::{Dtype, Info, Options};

const ROWS: usize = 256;
const COLUMNS: usize = 512;

/// The numbers of a float type above zero, in order.
fn numbers(exponent_bits: i32, mantissa_bits: i32, greatest: f32) -> Vec<f32> {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let steps = 1 << mantissa_bits;
    let subnormal = (1..steps).map(|step| step as f32 / steps as f32 * 2f32.powi(1 - bias));
    let normal = (1 - bias..=bias + 1).flat_map(|exponent| {
        (0..steps).map(move |step| (1.0 + step as f32 / steps as f32) * 2f32.powi(exponent))
    });
    subnormal.chain(normal).filter(|&number| number <= greatest).collect()
}

fn nearest(numbers: &[f32], value: f32) -> f32 {
    let at = numbers.partition_point(|&number| number < value.abs());
    let below = if at == 0 { 0.0 } else { numbers[at - 1] };
    let above = numbers.get(at).copied().unwrap_or(below);
    let magnitude = if value.abs() - below < above - value.abs() { below } else { above };
    magnitude.copysign(value)
}

/// Weights of `ROWS` by `COLUMNS`, quantised in groups of so many rows and columns, and the bits that their
/// codes take, one by one.
fn dequantised(
    numbers: &[f32],
    rows: usize,
    columns: usize,
    scale_of: impl Fn(f32) -> f32,
) -> (Vec<f32>, f64) {
    let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
    let weights = matrix(ROWS, COLUMNS, 7);
    let mut values = vec![0.0; weights.len()];
    let greatest = *numbers.last().unwrap();
    for first_row in (0..ROWS).step_by(rows) {
        for first_column in (0..COLUMNS).step_by(columns) {
            let places = || {
                (first_row..ROWS.min(first_row + rows)).flat_map(move |row| {
                    (first_column..COLUMNS.min(first_column + columns))
                        .map(move |column| row * COLUMNS + column)
                })
            };
            let largest = places().map(|place| weights[place].abs()).fold(0f32, f32::max);
            let scale = scale_of(largest / greatest);
            for place in places() {
                let number = nearest(numbers, weights[place] / scale);
                *counts.entry(number.to_bits()).or_default() += 1.0;
                values[place] = number * scale;
            }
        }
    }
    let total = values.len() as f64;
    let entropy = counts.values().map(|count| count / total * (total / count).log2()).sum();
    (values, entropy)
}

/// Rounded to the nearest, ties to even.
fn half(value: f32) -> u16 {
    let (sign, magnitude) = ((value.to_bits() >> 16 & 0x8000) as u16, value.abs());
    let bits = magnitude.to_bits();
    let rounded = match magnitude {
        0.0..6.103_515_6e-5 => (magnitude * 2f32.powi(24)).round_ties_even() as u32,
        _ => (bits - (112 << 23) + 0xfff + (bits >> 13 & 1)) >> 13,
    };
    sign | rounded as u16
}

fn stored(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    match dtype {
        Dtype::Bf16 => values.iter().flat_map(|&value| bf16(value).to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|&value| half(value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|&value| value.to_le_bytes()).collect(),
    }
}

/// Bits per element, after the bytes came back.
fn bits(dtype: Dtype, values: &[f32]) -> (f64, String) {
    let bytes = stored(dtype, values);
    let frame = z4ai::compress(&bytes, &Options::new(dtype).shape([ROWS as u64, COLUMNS as u64])).unwrap();
    assert!(z4ai::decompress(&frame).unwrap() == bytes);
    let info = Info::read(&frame).unwrap();
    (info.bits_per_element(), info.transforms[0].name.clone())
}

#[test]
fn floats_of_eight_bits_in_groups() {
    for numbers in [numbers(4, 3, 448.0), numbers(5, 2, 57344.0)] {
        for (rows, columns) in [(ROWS, COLUMNS), (1, COLUMNS), (128, 128), (1, 128), (1, 32), (1, 64)] {
            let (values, entropy) = dequantised(&numbers, rows, columns, |scale| scale);
            for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
                let (bits, name) = bits(dtype, &values);
                // A row of a group costs a byte, a group of its own up to the four of its scale.
                let scales = if rows == 1 { 34.0 } else { 9.0 } / columns as f64;
                assert!(
                    bits < entropy * 1.02 + scales,
                    "{rows}x{columns} {dtype:?}: {bits} bits of {entropy}, {name}"
                );
            }
        }
    }
}

/// A scale for each column costs what one for each row does.
#[test]
fn scales_of_columns() {
    let integers: Vec<f32> = (-127..=127).map(|number| number as f32).collect();
    for numbers in [numbers(4, 3, 448.0), numbers(2, 1, 6.0), integers] {
        let (values, entropy) = dequantised(&numbers, ROWS, 1, |scale| scale);
        for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
            let (bits, name) = bits(dtype, &values);
            assert!(bits < entropy * 1.03 + 0.3, "{dtype:?}: {bits} bits of {entropy}, {name}");
        }
    }
}

#[test]
fn floats_of_four_bits_with_quantised_scales() {
    let (codes, scales) = (numbers(2, 1, 6.0), numbers(4, 3, 448.0));
    for tensor_scale in [1.0 / 300.0, 1.0 / 512.0] {
        let (values, entropy) =
            dequantised(&codes, 1, 16, |scale| nearest(&scales, scale / tensor_scale) * tensor_scale);
        for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
            let (bits, name) = bits(dtype, &values);
            // The scales are codes of less than seven bits.
            assert!(bits < entropy * 1.02 + 7.0 / 16.0, "{dtype:?}: {bits} bits of {entropy}, {name}");
        }
    }
}

#[test]
fn zeros_and_numbers_off_the_grid() {
    let (mut values, _) = dequantised(&numbers(4, 3, 448.0), 1, 64, |scale| scale);
    let mut random = Random::new(5);
    values[..1000].fill(0.0);
    values[3000..3100].fill(-0.0);
    for _ in 0..200 {
        let place = random.below(values.len() as u64) as usize;
        values[place] = random.normal();
    }
    values[7000] = f32::INFINITY;
    for dtype in [Dtype::Bf16, Dtype::F32] {
        let (bits, name) = bits(dtype, &values);
        assert!(name == "grid" && bits < 10.0, "{dtype:?}: {bits} bits, {name}");
    }
}
