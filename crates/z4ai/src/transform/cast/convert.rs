//! Numbers of one float type as those of another. Every step is an IEEE operation, so that all platforms
//! agree.

use crate::arch;
use crate::dtype::Dtype;
use crate::transform::grid::{Bf16, Format, Fp16, Fp32};

/// A float type, whose numbers travel as `f32`.
trait Scalar {
    /// The number of an element, rounded if it is wider.
    fn value(element: &[u8]) -> f32;

    /// Writes the number, rounded if the type is narrower.
    fn put(value: f32, element: &mut [u8]);
}

/// The formats that grids know.
impl<F: Format> Scalar for F {
    #[inline(always)]
    fn value(element: &[u8]) -> f32 {
        F::value(F::read(element))
    }

    #[inline(always)]
    fn put(value: f32, element: &mut [u8]) {
        F::write(F::round(value), element);
    }
}

struct Fp64;

impl Scalar for Fp64 {
    #[inline(always)]
    fn value(element: &[u8]) -> f32 {
        let bytes = element.first_chunk().copied().unwrap_or_default();
        f64::from_le_bytes(bytes) as f32
    }

    #[inline(always)]
    fn put(value: f32, element: &mut [u8]) {
        element.copy_from_slice(&f64::from(value).to_le_bytes());
    }
}

struct E4m3;

/// The difference of the exponent biases of fp32 and e4m3, as factors: a multiplication, unlike an addition
/// to the exponent field, converts subnormals too.
const E4M3_UP: f32 = f32::from_bits((127 + 120) << 23);
const E4M3_DOWN: f32 = f32::from_bits((127 - 120) << 23);

impl Scalar for E4m3 {
    #[inline(always)]
    fn value(element: &[u8]) -> f32 {
        let bits = u32::from(element[0]);
        let magnitude = f32::from_bits((bits & 0x7f) << 20) * E4M3_UP;
        f32::from_bits(magnitude.to_bits() | (bits & 0x80) << 24)
    }

    /// Truncates: what is between two numbers of e4m3 is an exception, however it is rounded.
    #[inline(always)]
    fn put(value: f32, element: &mut [u8]) {
        let magnitude = ((value.abs() * E4M3_DOWN).to_bits() >> 20).min(0x7e);
        element[0] = magnitude as u8 | (value.to_bits() >> 24) as u8 & 0x80;
    }
}

struct E5m2;

impl Scalar for E5m2 {
    #[inline(always)]
    fn value(element: &[u8]) -> f32 {
        <Fp16 as Format>::value(u32::from(element[0]) << 8)
    }

    #[inline(always)]
    fn put(value: f32, element: &mut [u8]) {
        element[0] = (Fp16::round(value) >> 8) as u8;
    }
}

/// Runs a generic expression for a dtype, with its type and width; nothing for one that has no casts.
macro_rules! with_scalar {
    ($dtype:expr, $scalar:ident, $width:ident => $call:expr) => {
        with_scalar!(@each $dtype, $scalar, $width, $call,
            Dtype::F8E4M3 => E4m3, 1; Dtype::F8E5M2 => E5m2, 1; Dtype::Bf16 => Bf16, 2; Dtype::F16 => Fp16, 2;
            Dtype::F32 | Dtype::Complex64 => Fp32, 4; Dtype::F64 | Dtype::Complex128 => Fp64, 8)
    };
    (@each $dtype:expr, $scalar:ident, $width:ident, $call:expr, $($known:pat => $type:ty, $bytes:literal);*) => {
        match $dtype {
            $($known => {
                type $scalar = $type;
                const $width: usize = $bytes;
                $call
            })*
            _ => {}
        }
    };
}

/// Writes the numbers of `elements`, which are of type `from`, as elements of type `to`. There is one in
/// `out` for each.
pub(super) fn convert(elements: &[u8], from: Dtype, to: Dtype, out: &mut [u8]) {
    arch::vectorised(
        #[inline(always)]
        || {
            with_scalar!(from, From, FROM => with_scalar!(to, To, TO => {
                convert_scalars::<From, FROM, To, TO>(elements, out);
            }));
        },
    );
}

/// Widths are constants beside the types, so that loops have constant strides.
#[inline(always)]
fn convert_scalars<From: Scalar, const FROM: usize, To: Scalar, const TO: usize>(
    elements: &[u8],
    out: &mut [u8],
) {
    for (element, out) in elements.as_chunks::<FROM>().0.iter().zip(out.as_chunks_mut::<TO>().0) {
        let value = From::value(element);
        To::put(if value.is_nan() { 0.0 } else { value }, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: Dtype) -> Vec<u8> {
        match source {
            Dtype::F8E4M3 | Dtype::F8E5M2 => (0..=255).collect(),
            _ => (0..=u16::MAX).flat_map(u16::to_le_bytes).collect(),
        }
    }

    #[test]
    fn numbers_survive_in_wider_types() {
        let pairs = [
            (Dtype::F8E4M3, [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64].as_slice()),
            (Dtype::F8E5M2, &[Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64]),
            (Dtype::Bf16, &[Dtype::F32, Dtype::F64]),
            (Dtype::F16, &[Dtype::F32, Dtype::F64]),
        ];
        for (source, wider) in pairs {
            let elements = all(source);
            let width = source.width();
            for &dtype in wider {
                let mut wide = vec![0; elements.len() / width * dtype.width()];
                convert(&elements, source, dtype, &mut wide);
                let mut back = vec![0; elements.len()];
                convert(&wide, dtype, source, &mut back);
                for (element, back) in elements.chunks_exact(width).zip(back.chunks_exact(width)) {
                    let code = element.iter().rev().fold(0u32, |code, &byte| code << 8 | u32::from(byte));
                    let is_nan = match source {
                        // 480, which is no number of e4m3, comes back as the largest that is.
                        Dtype::F8E4M3 => code & 0x7f == 0x7f,
                        Dtype::F8E5M2 => code & 0x7f > 0x7c,
                        Dtype::Bf16 => code & 0x7fff > 0x7f80,
                        _ => code & 0x7fff > 0x7c00,
                    };
                    assert!(is_nan || element == back, "{source:?} {dtype:?} {code:#x}");
                }
            }
        }
    }

    #[test]
    fn bfloat16_that_half_precision_holds() {
        // 1.5, the least normal half, a subnormal, minus zero, infinity; and one that it does not hold.
        let numbers: [u16; 6] = [0x3fc0, 0x3880, 0x3700, 0x8000, 0x7f80, 0x0001];
        let elements: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut halves = vec![0; 12];
        convert(&elements, Dtype::Bf16, Dtype::F16, &mut halves);
        let halves: Vec<u16> =
            halves.chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]])).collect();
        assert_eq!(halves, [0x3e00, 0x0400, 0x0080, 0x8000, 0x7c00, 0]);
    }
}
