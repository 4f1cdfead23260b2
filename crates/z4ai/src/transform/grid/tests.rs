//! Quantisers of many kinds, written as their libraries compute them, and what must not be taken for one.

use super::decode::decode;
use super::encode::encode;
use super::fit::{Quantisation, detect};
use super::format::{Bf16, Format, Fp16, Fp32};
use super::groups::Rows;
use super::levels::LevelTable;
use super::scheme::Scheme;
use super::*;
use proptest::prelude::*;

/// Deterministic standard normal numbers.
struct Normal(u64);

impl Normal {
    fn next(&mut self) -> f32 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1_u32 << 24) as f32
        };
        (0..12).map(|_| uniform()).sum::<f32>() - 6.0
    }

    fn weights(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next() * 0.03).collect()
    }
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

/// Quantises and dequantises each group of `size` weights with `quantiser`, then rounds to the format.
fn dequantised<F: Format>(
    rows: usize,
    row_length: usize,
    size: usize,
    quantiser: impl Fn(&[f32]) -> Vec<f32>,
) -> Vec<u8> {
    let weights = Normal(size as u64 + 7).weights(rows * row_length);
    let mut bytes = vec![0; weights.len() * F::WIDTH];
    let groups = weights.chunks(row_length).flat_map(|row| row.chunks(size)).flat_map(quantiser);
    for (out, value) in bytes.chunks_exact_mut(F::WIDTH).zip(groups) {
        F::write(F::round(value), out);
    }
    bytes
}

/// Symmetric integers with the scale kept in the format `S`.
fn symmetric<S: Format>(bits: u32) -> impl Fn(&[f32]) -> Vec<f32> {
    move |group| {
        let top = ((1 << (bits - 1)) - 1) as f32;
        let scale = S::value(S::round(largest(group) / top));
        group
            .iter()
            .map(|weight| ((weight / scale).round().clamp(-top - 1.0, top) as i32) as f32 * scale)
            .collect()
    }
}

/// Unsigned integers with an integer zero point.
fn zero_point<S: Format>(bits: u32) -> impl Fn(&[f32]) -> Vec<f32> {
    move |group| {
        let top = ((1 << bits) - 1) as f32;
        let (low, high) = group.iter().fold((0_f32, 0_f32), |(low, high), &w| (low.min(w), high.max(w)));
        let scale = S::value(S::round((high - low) / top));
        let zero = (-low / scale).round();
        group.iter().map(|weight| ((weight / scale + zero).round().clamp(0.0, top) - zero) * scale).collect()
    }
}

/// Values that stay floats while they are rounded, so that small negative weights become minus zero.
fn float_rounded(group: &[f32]) -> Vec<f32> {
    let scale = largest(group) / 127.0;
    group.iter().map(|weight| (weight / scale).round() * scale).collect()
}

/// Five signed bits of range in four, with the sign in the scale, as GGUF's Q4_0.
fn signed_scale(group: &[f32]) -> Vec<f32> {
    let extreme = group.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
    let scale = Fp16::value(Fp16::round(extreme / -8.0));
    group.iter().map(|weight| ((weight / scale + 8.5).clamp(0.0, 15.0) as i32 - 8) as f32 * scale).collect()
}

fn table(table: LevelTable) -> impl Fn(&[f32]) -> Vec<f32> {
    move |group| {
        let scale = largest(group);
        let nearest = |weight: &f32| {
            let distance = |level: &f32| (weight / scale - level).abs();
            *table.levels().iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap()
        };
        group.iter().map(|weight| nearest(weight) * scale).collect()
    }
}

/// Level times scale plus the group's minimum, both kept in the format `S`.
fn minimum<S: Format>(bits: u32) -> impl Fn(&[f32]) -> Vec<f32> {
    move |group| {
        let top = ((1 << bits) - 1) as f32;
        let (low, high) =
            group.iter().fold((f32::MAX, f32::MIN), |(low, high), &w| (low.min(w), high.max(w)));
        let scale = S::value(S::round((high - low) / top));
        let minimum = S::value(S::round(low));
        group
            .iter()
            .map(|weight| ((weight - minimum) / scale).round().clamp(0.0, top) * scale + minimum)
            .collect()
    }
}

/// Level minus a zero point that is not a whole number, times scale, all computed in the format `F`.
fn centre<F: Format>(bits: u32) -> impl Fn(&[f32]) -> Vec<f32> {
    move |group| {
        let top = ((1 << bits) - 1) as f32;
        let (low, high) =
            group.iter().fold((f32::MAX, f32::MIN), |(low, high), &w| (low.min(w), high.max(w)));
        let scale = F::value(F::round((high - low) / top));
        let zero = F::value(F::round(-low / scale));
        let level = |weight: &f32| (weight / scale + zero).round().clamp(0.0, top);
        group.iter().map(|weight| F::value(F::round(level(weight) - zero)) * scale).collect()
    }
}

fn ternary(group: &[f32]) -> Vec<f32> {
    let scale = group.iter().map(|weight| weight.abs()).sum::<f32>() / group.len() as f32;
    group.iter().map(|weight| ((weight / scale).round().clamp(-1.0, 1.0) as i32) as f32 * scale).collect()
}

fn round_trip(bytes: &[u8], dtype: Dtype, rows: Rows, plan: &Quantisation) -> Encoded {
    let encoded = encode(bytes, dtype, rows, plan).unwrap();
    let mut out = vec![0xa5; bytes.len()];
    let planes = std::array::from_fn(|index| encoded.planes[index].as_slice());
    decode(&encoded.header, &planes, dtype, rows, &mut out).unwrap();
    assert!(out == bytes, "round trip");
    encoded
}

const ROWS: usize = 24;
const ROW: usize = 768;

/// Asserts that the grid is found with this group size, holds every group, and is estimated below `bits` per
/// element.
fn found<F: Format>(dtype: Dtype, size: usize, bits: f64, quantiser: impl Fn(&[f32]) -> Vec<f32>) -> Encoded {
    let bytes = dequantised::<F>(ROWS, ROW, size, quantiser);
    let plan = detect(&bytes, dtype, ROW).expect("a grid");
    assert_eq!(plan.group, size, "group size; {plan:?}");
    let encoded = round_trip(&bytes, dtype, Rows::new(ROW), &plan);
    let raw = encoded.planes[plane::RAW].len();
    // Two roundings may leave no pair of parameters that the search reaches; that must stay rare.
    let most = if plan.scheme.has_offset() { bytes.len() / 50 } else { 0 };
    assert!(raw <= most, "{raw} bytes off the grid; {dtype:?} {plan:?}");
    assert!(plan.bits_per_element < bits, "{} bits", plan.bits_per_element);
    encoded
}

#[test]
fn integers_per_row() {
    found::<Bf16>(Dtype::Bf16, ROW, 7.5, symmetric::<Fp32>(8));
    found::<Bf16>(Dtype::Bf16, ROW, 7.5, symmetric::<Bf16>(8));
    found::<Fp16>(Dtype::F16, ROW, 7.5, symmetric::<Fp16>(8));
    found::<Fp32>(Dtype::F32, ROW, 7.5, symmetric::<Fp32>(8));
    found::<Fp32>(Dtype::F32, ROW, 7.8, zero_point::<Fp32>(8));
    found::<Bf16>(Dtype::Bf16, ROW, 3.5, symmetric::<Bf16>(4));
}

#[test]
fn integers_in_groups() {
    for size in [32, 64, 128, 256] {
        found::<Bf16>(Dtype::Bf16, size, 4.2, symmetric::<Bf16>(4));
        found::<Fp16>(Dtype::F16, size, 4.4, symmetric::<Fp16>(4));
        found::<Fp32>(Dtype::F32, size, 4.6, symmetric::<Fp32>(4));
        found::<Fp32>(Dtype::F32, size, 4.9, zero_point::<Fp32>(4));
        found::<Bf16>(Dtype::Bf16, size, 4.6, zero_point::<Bf16>(4));
        found::<Bf16>(Dtype::Bf16, size, 3.4, symmetric::<Bf16>(3));
        found::<Bf16>(Dtype::Bf16, size, 2.6, zero_point::<Fp16>(2));
    }
    found::<Fp32>(Dtype::F32, 16, 5.6, symmetric::<Fp32>(4));
    found::<Fp16>(Dtype::F16, 96, 3.9, symmetric::<Fp16>(4));
}

#[test]
fn tables_in_groups() {
    for size in [64, 128] {
        found::<Bf16>(Dtype::Bf16, size, 4.3, table(LevelTable::NormalFloat));
        found::<Fp16>(Dtype::F16, size, 4.5, table(LevelTable::NormalFloat));
        found::<Fp32>(Dtype::F32, size, 4.5, table(LevelTable::NormalFloat));
        found::<Fp32>(Dtype::F32, size, 4.5, table(LevelTable::Float));
        found::<Bf16>(Dtype::Bf16, size, 4.5, table(LevelTable::Float));
    }
}

#[test]
fn offsets_in_groups() {
    for size in [64, 128] {
        found::<Fp32>(Dtype::F32, size, 5.0, minimum::<Fp32>(4));
        found::<Fp32>(Dtype::F32, size, 4.8, minimum::<Fp16>(4));
        found::<Fp16>(Dtype::F16, size, 4.8, minimum::<Fp16>(4));
        found::<Bf16>(Dtype::Bf16, size, 4.8, minimum::<Bf16>(4));
        found::<Bf16>(Dtype::Bf16, size, 5.0, minimum::<Fp16>(4));
        found::<Bf16>(Dtype::Bf16, size, 5.0, minimum::<Fp32>(4));
        found::<Fp16>(Dtype::F16, size, 4.8, centre::<Fp16>(4));
        found::<Fp32>(Dtype::F32, size, 5.0, centre::<Fp32>(4));
    }
    found::<Fp16>(Dtype::F16, 64, 2.8, centre::<Fp16>(2));
    found::<Bf16>(Dtype::Bf16, 64, 4.8, centre::<Bf16>(4));
}

#[test]
fn ternary_per_row_and_group() {
    found::<Bf16>(Dtype::Bf16, ROW, 1.7, ternary);
    found::<Fp32>(Dtype::F32, 128, 1.9, ternary);
}

#[test]
fn minus_zeros_are_kept() {
    let encoded = found::<Fp32>(Dtype::F32, ROW, 7.5, float_rounded);
    assert!(encoded.planes[plane::LEVELS].contains(&MINUS_ZERO));
    let encoded = found::<Fp32>(Dtype::F32, 32, 5.0, signed_scale);
    assert!(!encoded.planes[plane::LEVELS].contains(&MINUS_ZERO));
    let smallest = encoded.planes[plane::LEVELS].iter().map(|&level| level as i8).min();
    assert_eq!(smallest, Some(-8));
}

#[test]
fn blocks_may_start_anywhere() {
    let bytes = dequantised::<Bf16>(ROWS, ROW, 64, symmetric::<Bf16>(4));
    let plan = detect(&bytes, Dtype::Bf16, ROW).unwrap();
    for (first_column, end) in [(1, 5000), (63, 64), (700, 3000)] {
        round_trip(&bytes[first_column * 2..end * 2], Dtype::Bf16, Rows { length: ROW, first_column }, &plan);
    }
    round_trip(&[], Dtype::Bf16, Rows::new(ROW), &plan);
}

#[test]
fn ordinary_weights_are_refused() {
    let mut normal = Normal(3);
    for scale in [1.0, 1e-6, 1e4] {
        let weights: Vec<f32> = normal.weights(1 << 16).into_iter().map(|weight| weight * scale).collect();
        let bytes = |round: fn(f32) -> u32, width: usize| -> Vec<u8> {
            weights.iter().flat_map(|&weight| round(weight).to_le_bytes()[..width].to_vec()).collect()
        };
        assert_eq!(detect(&bytes(Fp32::round, 4), Dtype::F32, 512), None);
        assert_eq!(detect(&bytes(Bf16::round, 2), Dtype::Bf16, 512), None);
        if scale == 1.0 {
            assert_eq!(detect(&bytes(Fp16::round, 2), Dtype::F16, 512), None);
        }
    }
    assert_eq!(detect(&[], Dtype::F32, 1), None);
    assert_eq!(detect(&[0; 4096], Dtype::F32, 64), None);
    assert_eq!(detect(&[0x7f; 4096], Dtype::Bf16, 64), None);
}

#[test]
fn groups_off_the_grid_are_kept_as_they_are() {
    let mut bytes = dequantised::<Bf16>(ROWS, ROW, 64, symmetric::<Bf16>(4));
    let plan = detect(&bytes, Dtype::Bf16, ROW).unwrap();
    for (index, pattern) in [0x7fc1_u16, 0xff80, 0x0001, 0x8000, 0x3f81].into_iter().enumerate() {
        bytes[index * 2000..index * 2000 + 2].copy_from_slice(&pattern.to_le_bytes());
    }
    let encoded = round_trip(&bytes, Dtype::Bf16, Rows::new(ROW), &plan);
    let raw = encoded.planes[plane::RAW].len();
    assert!((2 * 64 * 3..=2 * 64 * 4).contains(&raw), "{raw}");
}

fn any_plan() -> impl Strategy<Value = Quantisation> {
    (1_usize..200, 0..Scheme::ALL.len()).prop_map(|(group, kind)| {
        let scheme = Scheme::ALL[kind];
        Quantisation { group, scheme, largest: scheme.largest(), bits_per_element: 0.0 }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bits_come_back_under_any_plan(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        small in any::<bool>(),
        plan in any_plan(),
        length in 1_usize..300,
        first in 0_usize..300,
    ) {
        // Few distinct elements lie on some grid more often than arbitrary ones do.
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| if small { byte & 0x81 } else { byte }).collect();
        let rows = Rows { length, first_column: first % length };
        for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
            let whole = bytes.len() / 4 * 4;
            round_trip(&bytes[..whole], dtype, rows, &plan);
        }
    }

    #[test]
    fn arbitrary_planes_never_panic(
        header in prop::collection::vec(any::<u8>(), 0..6),
        kind in 0_u8..6,
        group in 0_u8..40,
        planes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), plane::COUNT),
        count in 0_usize..60,
    ) {
        let planes = std::array::from_fn(|index| planes[index].as_slice());
        for header in [header, vec![kind, 1, group]] {
            let mut out = vec![0; count * 4];
            for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::I8] {
                let _ = decode(&header, &planes, dtype, Rows::new(7), &mut out);
            }
        }
    }
}

#[test]
fn every_shortened_plane_is_refused() {
    let bytes = dequantised::<Fp16>(12, 96, 32, symmetric::<Fp16>(4));
    let plan = detect(&bytes, Dtype::F16, 96).unwrap();
    let encoded = round_trip(&bytes, Dtype::F16, Rows::new(96), &plan);
    let whole: [&[u8]; plane::COUNT] = std::array::from_fn(|index| encoded.planes[index].as_slice());
    let mut out = vec![0; bytes.len()];
    for index in 0..plane::RAW {
        let mut planes = whole;
        planes[index] = &planes[index][1..];
        assert!(decode(&encoded.header, &planes, Dtype::F16, Rows::new(96), &mut out).is_err());
    }
    assert!(decode(&encoded.header, &whole, Dtype::F16, Rows::new(96), &mut out[2..]).is_err());
}
