//! Numbers that were rounded to a few decimals, or printed with them: an integer over a power of ten, which
//! IEEE division makes the same number on all platforms. The least integer stands for minus zero, which
//! rounding makes of small negative numbers.

use crate::arch;
use crate::dtype::Dtype;
use crate::transform::grid::{Bf16, Format, Fp16};

/// The most places after the point: with more, integers would have more bits than elements.
pub(super) const MOST_PLACES: u8 = 12;

/// A float type, whose numbers travel as `f64`.
trait Wide {
    fn value(element: &[u8]) -> f64;
    fn put(value: f64, element: &mut [u8]);
}

struct F32Decimals;

impl Wide for F32Decimals {
    #[inline(always)]
    fn value(element: &[u8]) -> f64 {
        f64::from(f32::from_le_bytes(element.first_chunk().copied().unwrap_or_default()))
    }

    #[inline(always)]
    fn put(value: f64, element: &mut [u8]) {
        element.copy_from_slice(&(value as f32).to_le_bytes());
    }
}

struct F64Decimals;

impl Wide for F64Decimals {
    #[inline(always)]
    fn value(element: &[u8]) -> f64 {
        f64::from_le_bytes(element.first_chunk().copied().unwrap_or_default())
    }

    #[inline(always)]
    fn put(value: f64, element: &mut [u8]) {
        element.copy_from_slice(&value.to_le_bytes());
    }
}

/// Of two bytes; numbers are rounded to fp32 first.
impl<F: Format> Wide for F {
    #[inline(always)]
    fn value(element: &[u8]) -> f64 {
        f64::from(F::value(F::read(element)))
    }

    #[inline(always)]
    fn put(value: f64, element: &mut [u8]) {
        F::write(F::round(value as f32), element);
    }
}

/// An integer type, whose numbers travel as `i32`.
trait Integer {
    const LEAST: i32;
    fn get(element: &[u8]) -> i32;
    fn put(value: i32, element: &mut [u8]);
}

impl Integer for i16 {
    const LEAST: i32 = Self::MIN as i32;

    #[inline(always)]
    fn get(element: &[u8]) -> i32 {
        i32::from(Self::from_le_bytes(element.first_chunk().copied().unwrap_or_default()))
    }

    #[inline(always)]
    fn put(value: i32, element: &mut [u8]) {
        element.copy_from_slice(&(value as Self).to_le_bytes());
    }
}

impl Integer for i32 {
    const LEAST: i32 = Self::MIN;

    #[inline(always)]
    fn get(element: &[u8]) -> i32 {
        Self::from_le_bytes(element.first_chunk().copied().unwrap_or_default())
    }

    #[inline(always)]
    fn put(value: i32, element: &mut [u8]) {
        element.copy_from_slice(&value.to_le_bytes());
    }
}

/// Ten to this power, exactly.
fn power(places: u8) -> f64 {
    10u64.pow(u32::from(places.min(MOST_PLACES))) as f64
}

/// Runs a generic call with the types and widths of floats and integers; nothing for other dtypes.
macro_rules! with_types {
    ($dtype:expr, $integer:expr, $call:ident($($argument:expr),*)) => {
        match ($dtype, $integer) {
            (Dtype::Bf16, Dtype::I16) => $call::<Bf16, 2, i16, 2>($($argument),*),
            (Dtype::F16, Dtype::I16) => $call::<Fp16, 2, i16, 2>($($argument),*),
            (Dtype::F32 | Dtype::Complex64, Dtype::I16) => $call::<F32Decimals, 4, i16, 2>($($argument),*),
            (Dtype::F32 | Dtype::Complex64, Dtype::I32) => $call::<F32Decimals, 4, i32, 4>($($argument),*),
            (Dtype::F64 | Dtype::Complex128, Dtype::I16) => $call::<F64Decimals, 8, i16, 2>($($argument),*),
            (Dtype::F64 | Dtype::Complex128, Dtype::I32) => $call::<F64Decimals, 8, i32, 4>($($argument),*),
            _ => {}
        }
    };
}

/// The integers nearest to elements times a power of ten.
pub(super) fn to_integers(elements: &[u8], dtype: Dtype, integer: Dtype, places: u8, out: &mut [u8]) {
    arch::vectorised(
        #[inline(always)]
        || with_types!(dtype, integer, multiply(elements, power(places), out)),
    );
}

/// The elements that integers stand for.
pub(super) fn from_integers(integers: &[u8], dtype: Dtype, integer: Dtype, places: u8, out: &mut [u8]) {
    arch::vectorised(
        #[inline(always)]
        || with_types!(dtype, integer, divide(integers, power(places), out)),
    );
}

#[inline(always)]
fn multiply<F: Wide, const WIDE: usize, I: Integer, const NARROW: usize>(
    elements: &[u8],
    power: f64,
    out: &mut [u8],
) {
    // Adding and subtracting this leaves an integer, the nearest.
    const ROUNDING: f64 = (3u64 << 51) as f64;
    let greatest = -1.0 - f64::from(I::LEAST);
    for (element, out) in elements.as_chunks::<WIDE>().0.iter().zip(out.as_chunks_mut::<NARROW>().0) {
        let value = F::value(element);
        let nearest = ((value * power).clamp(-greatest, greatest) + ROUNDING) - ROUNDING;
        let is_minus_zero = value == 0.0 && value.is_sign_negative();
        I::put(if is_minus_zero { I::LEAST } else { nearest as i32 }, out);
    }
}

#[inline(always)]
fn divide<F: Wide, const WIDE: usize, I: Integer, const NARROW: usize>(
    integers: &[u8],
    power: f64,
    out: &mut [u8],
) {
    for (integer, out) in integers.as_chunks::<NARROW>().0.iter().zip(out.as_chunks_mut::<WIDE>().0) {
        let integer = I::get(integer);
        let value = f64::from(integer) / power;
        F::put(if integer == I::LEAST { -0.0 } else { value }, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_numbers_come_back() {
        for places in 0..=6u8 {
            let texts: Vec<String> = (-40_000..40_000)
                .step_by(7)
                .map(|k| format!("{:.*}", places.into(), f64::from(k) / power(places)))
                .collect();
            let singles: Vec<u8> =
                texts.iter().flat_map(|text| text.parse::<f32>().unwrap().to_le_bytes()).collect();
            let doubles: Vec<u8> =
                texts.iter().flat_map(|text| text.parse::<f64>().unwrap().to_le_bytes()).collect();
            for (dtype, elements) in [(Dtype::F32, singles), (Dtype::F64, doubles)] {
                let mut integers = vec![0; texts.len() * 4];
                to_integers(&elements, dtype, Dtype::I32, places, &mut integers);
                let mut back = vec![0; elements.len()];
                from_integers(&integers, dtype, Dtype::I32, places, &mut back);
                assert!(back == elements, "{dtype:?} {places}");
            }
        }
    }

    #[test]
    fn printed_numbers_of_two_bytes_come_back() {
        for dtype in [Dtype::Bf16, Dtype::F16] {
            for places in 0..=3u8 {
                let mut numbers = vec![0; 2 * 8001];
                let integers: Vec<u8> = (-4000..=4000i16).flat_map(i16::to_le_bytes).collect();
                from_integers(&integers, dtype, Dtype::I16, places, &mut numbers);
                // Large ones are rounded to fewer places, from which the same numbers follow.
                let (mut back, mut again) = (vec![0; integers.len()], vec![0; numbers.len()]);
                to_integers(&numbers, dtype, Dtype::I16, places, &mut back);
                from_integers(&back, dtype, Dtype::I16, places, &mut again);
                assert!(again == numbers, "{dtype:?} {places}");
                let small = 2 * 3900..2 * 4100;
                assert!(back[small.clone()] == integers[small], "{dtype:?} {places}");
            }
        }
    }

    #[test]
    fn numbers_without_an_integer() {
        let numbers = [-0.0f32, 0.0, 4.0, f32::NAN, f32::INFINITY, -1e30];
        let elements: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut integers = [0; 12];
        to_integers(&elements, Dtype::F32, Dtype::I16, 2, &mut integers);
        let integers = integers.as_chunks().0.iter().map(|&bytes| i16::from_le_bytes(bytes));
        assert_eq!(integers.collect::<Vec<_>>(), [i16::MIN, 0, 400, 0, 32767, -32767]);
    }
}
