//! Numbers of one type as those of another, bit for bit as `spec/recipes.md` defines it. Loops are branch-free so that compilers vectorise them.

use z4ai::kernels::vectorised;

use crate::error::{Error, Result};
use crate::tensor::{DType, ElementType, LogicalType};

/// The type of the numbers that an operand holds, or that a recipe yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Number {
    F64,
    F32,
    F16,
    Bf16,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    I16,
    I8,
    U8,
}

/// How a number is rounded that lies between two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to even.
    Nearest,
    /// Towards zero: the bits that do not fit are cut off.
    TowardsZero,
}

impl Number {
    const ALL: [Number; 10] = [
        Number::F64,
        Number::F32,
        Number::F16,
        Number::Bf16,
        Number::F8E4M3,
        Number::F8E5M2,
        Number::F8E8M0,
        Number::I16,
        Number::I8,
        Number::U8,
    ];

    /// The name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Number::F64 => "f64",
            Number::F32 => "f32",
            Number::F16 => "f16",
            Number::Bf16 => "bf16",
            Number::F8E4M3 => "f8_e4m3fn",
            Number::F8E5M2 => "f8_e5m2",
            Number::F8E8M0 => "f8_e8m0",
            Number::I16 => "i16",
            Number::I8 => "i8",
            Number::U8 => "u8",
        }
    }

    /// The type of a name.
    pub(super) fn parse(name: &str) -> Result<Number> {
        let known = Number::ALL.into_iter().find(|number| number.name() == name);
        known.ok_or_else(|| super::unknown(&format!("numbers of type \"{name}\"")))
    }

    /// The type of a tensor's elements, if recipes know it.
    pub fn of(element: &ElementType) -> Option<Number> {
        Some(match (element.storage, &element.logical) {
            (DType::F64, None) => Number::F64,
            (DType::F32, None) => Number::F32,
            (DType::F16, None) => Number::F16,
            (DType::BF16, None) => Number::Bf16,
            (DType::I16, None) => Number::I16,
            (DType::I8, None) => Number::I8,
            (DType::U8, None) => Number::U8,
            (DType::U8, Some(LogicalType::F8E4M3FN)) => Number::F8E4M3,
            (DType::U8, Some(LogicalType::F8E5M2)) => Number::F8E5M2,
            (DType::U8, Some(LogicalType::F8E8M0)) => Number::F8E8M0,
            _ => return None,
        })
    }

    /// What the codec takes them for.
    pub(crate) fn codec(self) -> Option<z4ai::Dtype> {
        crate::encoding::codec_dtype(&ElementType::parse(self.name()))
    }

    /// Bytes of one.
    pub fn width(self) -> usize {
        match self {
            Number::F64 => 8,
            Number::F32 => 4,
            Number::F16 | Number::Bf16 | Number::I16 => 2,
            Number::F8E4M3 | Number::F8E5M2 | Number::F8E8M0 | Number::I8 | Number::U8 => 1,
        }
    }

    /// Whether it is a float that weights are kept in.
    pub fn is_float(self) -> bool {
        !matches!(self, Number::F8E8M0 | Number::I16 | Number::I8 | Number::U8)
    }

    /// Numbers as f32; `out` has room for all of them.
    pub(super) fn widen(self, bytes: &[u8], out: &mut [f32]) {
        vectorised(
            #[inline(always)]
            || self.widen_each(bytes, out),
        );
    }

    #[inline(always)]
    fn widen_each(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Number::F64 => each(bytes, out, |eight: [u8; 8]| f64::from_le_bytes(eight) as f32),
            Number::F32 => each(bytes, out, f32::from_le_bytes),
            Number::F16 => each(bytes, out, |two| f32::from_bits(widened_f16(u16::from_le_bytes(two)))),
            Number::Bf16 => {
                each(bytes, out, |two| f32::from_bits(u32::from(u16::from_le_bytes(two)) << 16));
            }
            Number::F8E4M3 => through(bytes, out, &E4M3),
            Number::F8E5M2 => through(bytes, out, &E5M2),
            Number::F8E8M0 => each(bytes, out, |[byte]: [u8; 1]| f32::from_bits(widened_e8m0(byte))),
            Number::I16 => each(bytes, out, |two| f32::from(i16::from_le_bytes(two))),
            Number::I8 => each(bytes, out, |[byte]: [u8; 1]| f32::from(byte.cast_signed())),
            Number::U8 => each(bytes, out, |[byte]: [u8; 1]| f32::from(byte)),
        }
    }

    /// f32 as numbers of this type; `out` has as many.
    pub(super) fn narrow(self, values: &[f32], rounding: Rounding, out: &mut [u8]) {
        vectorised(
            #[inline(always)]
            || self.narrow_each(values, rounding, out),
        );
    }

    #[inline(always)]
    fn narrow_each(self, values: &[f32], rounding: Rounding, out: &mut [u8]) {
        let nearest = rounding == Rounding::Nearest;
        match self {
            Number::F64 => all(values, out, |value| f64::from(value).to_le_bytes()),
            Number::F32 => all(values, out, f32::to_le_bytes),
            Number::F16 if nearest => all(values, out, |v| narrowed_f16(v.to_bits()).to_le_bytes()),
            Number::F16 => all(values, out, |v| (cut::<10, 15>(v.to_bits(), 0x7c00) as u16).to_le_bytes()),
            Number::Bf16 if nearest => all(values, out, |v| narrowed_bf16(v.to_bits()).to_le_bytes()),
            Number::Bf16 => all(values, out, |v| {
                let bits = v.to_bits();
                let quiet = if is_nan(bits) { 0x40 } else { 0 };
                ((bits >> 16) as u16 | quiet).to_le_bytes()
            }),
            Number::F8E4M3 if nearest => all(values, out, |v| [narrowed_e4m3(v.to_bits())]),
            Number::F8E4M3 => all(values, out, |v| [cut::<3, 7>(v.to_bits(), 0x7f) as u8]),
            Number::F8E5M2 if nearest => all(values, out, |v| [narrowed_e5m2(v.to_bits())]),
            Number::F8E5M2 => all(values, out, |v| [cut::<2, 15>(v.to_bits(), 0x7c) as u8]),
            Number::F8E8M0 => all(values, out, |v| [(v.to_bits() >> 23) as u8]),
            Number::I16 if nearest => {
                all(values, out, |v| (nearest_integer(v, -32768.0, 32767.0) as i16).to_le_bytes())
            }
            Number::I16 => all(values, out, |v| (v as i16).to_le_bytes()),
            Number::I8 if nearest => all(values, out, |v| [nearest_integer(v, -128.0, 127.0) as u8]),
            Number::I8 => all(values, out, |v| [(v as i8).cast_unsigned()]),
            Number::U8 if nearest => all(values, out, |v| [nearest_integer(v, 0.0, 255.0) as u8]),
            Number::U8 => all(values, out, |v| [v as u8]),
        }
    }

    /// Rounds each to the nearest number of this type.
    pub(super) fn round(self, values: &mut [f32]) {
        vectorised(
            #[inline(always)]
            || self.round_each(values),
        );
    }

    #[inline(always)]
    pub(super) fn round_each(self, values: &mut [f32]) {
        match self {
            Number::Bf16 => values.iter_mut().for_each(|value| {
                *value = f32::from_bits(u32::from(narrowed_bf16(value.to_bits())) << 16);
            }),
            Number::F16 => values.iter_mut().for_each(|value| {
                *value = f32::from_bits(widened_f16(narrowed_f16(value.to_bits())));
            }),
            _ => {}
        }
    }

    /// Numbers as f32, all of them.
    pub(super) fn values(self, bytes: &[u8]) -> Result<Vec<f32>> {
        if !bytes.len().is_multiple_of(self.width()) {
            return Err(Error::malformed("an operand ends within a number"));
        }
        let mut values = vec![0.0; bytes.len() / self.width()];
        self.widen(bytes, &mut values);
        Ok(values)
    }
}

#[inline(always)]
fn each<const WIDTH: usize>(bytes: &[u8], out: &mut [f32], widen: impl Fn([u8; WIDTH]) -> f32) {
    bytes.as_chunks().0.iter().zip(out).for_each(|(bytes, out)| *out = widen(*bytes));
}

#[inline(always)]
fn all<const WIDTH: usize>(values: &[f32], out: &mut [u8], narrow: impl Fn(f32) -> [u8; WIDTH]) {
    values.iter().zip(out.as_chunks_mut().0).for_each(|(value, out)| *out = narrow(*value));
}

#[inline(always)]
fn through(bytes: &[u8], out: &mut [f32], table: &[f32; 256]) {
    bytes.iter().zip(out).for_each(|(byte, out)| *out = table[usize::from(*byte)]);
}

#[inline(always)]
const fn is_nan(bits: u32) -> bool {
    bits & 0x7fff_ffff > 0x7f80_0000
}

/// The nearest integer within bounds, ties to even; the lower bound for NaN unless 0 lies within.
#[inline(always)]
fn nearest_integer(value: f32, low: f32, high: f32) -> i32 {
    let value = if value.is_nan() { 0.0 } else { value };
    nearest(clamp(value, low, high))
}

/// CLAMP: a NaN gives the lower bound.
#[inline(always)]
pub(super) fn clamp(value: f32, low: f32, high: f32) -> f32 {
    let value = if value > low { value } else { low };
    if value < high { value } else { high }
}

/// NEAREST, of magnitudes up to 2^22: behind the sum with 1.5·2^23 the integer stands in the mantissa.
#[inline(always)]
pub(super) fn nearest(value: f32) -> i32 {
    ((value + 12_582_912.0).to_bits() & 0x007f_ffff).cast_signed() - 0x0040_0000
}

/// FLOOR, of numbers from 0 to 2^22.
#[inline(always)]
pub(super) fn floor(value: f32) -> f32 {
    let near = (value + 8_388_608.0) - 8_388_608.0;
    near - if near > value { 1.0 } else { 0.0 }
}

/// An f16 as the bits of an f32.
#[inline(always)]
fn widened_f16(bits: u16) -> u32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let shifted = u32::from(bits & 0x7fff) << 13;
    let exponent = shifted & 0x0f80_0000;
    let normal = shifted + (112 << 23);
    // A subnormal: with an implicit one it is 2^-14 too large.
    let subnormal = (f32::from_bits(normal + (1 << 23)) - f32::from_bits(113 << 23)).to_bits();
    let special = normal + (112 << 23);
    sign | match exponent {
        0 => subnormal,
        0x0f80_0000 => special,
        _ => normal,
    }
}

/// A power of two, as the bits of an f32: the smallest is subnormal, the largest code is a NaN.
#[inline(always)]
fn widened_e8m0(byte: u8) -> u32 {
    match byte {
        0 => 0x0040_0000,
        255 => 0x7fc0_0000,
        exponent => u32::from(exponent) << 23,
    }
}

/// The f32 of an f16.
#[inline(always)]
pub(super) fn from_f16(bytes: [u8; 2]) -> f32 {
    f32::from_bits(widened_f16(u16::from_le_bytes(bytes)))
}

/// The nearest f16 of an f32.
#[inline(always)]
pub(super) fn to_f16(value: f32) -> [u8; 2] {
    narrowed_f16(value.to_bits()).to_le_bytes()
}

#[inline(always)]
fn narrowed_bf16(bits: u32) -> u16 {
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    if is_nan(bits) { (bits >> 16) as u16 | 0x40 } else { rounded }
}

/// The magnitude of the nearest number with so many bits of mantissa, as if exponents had no upper bound.
#[inline(always)]
fn rounded<const MANTISSA: u32, const BIAS: u32>(magnitude: u32) -> u32 {
    let shift = 23 - MANTISSA;
    let magic = (127 - BIAS + shift + 1) << 23;
    // Beside a number whose last bit is worth as much as the smallest subnormal, the sum is rounded to that.
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(magic)).to_bits().wrapping_sub(magic);
    let half = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
    let normal = magnitude.wrapping_sub((127 - BIAS) << 23).wrapping_add(half) >> shift;
    if magnitude < (128 - BIAS) << 23 { subnormal } else { normal }
}

#[inline(always)]
fn narrowed_f16(bits: u32) -> u16 {
    let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
    let code = rounded::<10, 15>(magnitude).min(0x7c00) as u16;
    let nan = 0x7e00 | (magnitude >> 13 & 0x3ff) as u16;
    sign | if is_nan(bits) { nan } else { code }
}

#[inline(always)]
fn narrowed_e4m3(bits: u32) -> u8 {
    let code = rounded::<3, 7>(bits & 0x7fff_ffff).min(0x7f) as u8;
    (bits >> 24 & 0x80) as u8 | if is_nan(bits) { 0x7f } else { code }
}

#[inline(always)]
fn narrowed_e5m2(bits: u32) -> u8 {
    let code = rounded::<2, 15>(bits & 0x7fff_ffff).min(0x7c) as u8;
    (bits >> 24 & 0x80) as u8 | if is_nan(bits) { 0x7f } else { code }
}

/// A number whose bits that do not fit are cut off; `limit` is the code behind the largest one.
#[inline(always)]
fn cut<const MANTISSA: u32, const BIAS: u32>(bits: u32, limit: u32) -> u32 {
    let (sign, magnitude) = (bits >> 31, bits & 0x7fff_ffff);
    let (exponent, shift) = (magnitude >> 23, 23 - MANTISSA);
    let code = match (magnitude, limit) {
        // The code of a NaN is the one of a rounded NaN; f8_e4m3fn has no infinity.
        (0x7f80_0001.., 0x7c00) => 0x7e00 | magnitude >> 13 & 0x3ff,
        (0x7f80_0001.., _) | (0x7f80_0000, 0x7f) => 0x7f,
        (0x7f80_0000, _) => limit,
        _ if exponent > 127 - BIAS => ((magnitude - ((127 - BIAS) << 23)) >> shift).min(limit - 1),
        _ => {
            let down = shift + (128 - BIAS).saturating_sub(exponent.max(1));
            let whole = magnitude & 0x7f_ffff | if exponent > 0 { 0x80_0000 } else { 0 };
            whole.checked_shr(down).unwrap_or(0)
        }
    };
    sign << (match limit {
        0x7c00 => 15,
        _ => 7,
    }) | code
}

/// The values of a float of eight bits.
const fn small_floats(mantissa: u32, bias: u32, has_infinity: bool) -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut code = 0u32;
    while code < 256 {
        let (sign, exponent, fraction) =
            ((code >> 7) << 31, (code & 0x7f) >> mantissa, code & ((1 << mantissa) - 1));
        let top = 0x7f >> mantissa;
        let bits = if (has_infinity && exponent == top) || (!has_infinity && code & 0x7f == 0x7f) {
            0x7f80_0000 | fraction << (23 - mantissa)
        } else if exponent > 0 {
            (exponent + 127 - bias) << 23 | fraction << (23 - mantissa)
        } else if fraction == 0 {
            0
        } else {
            // The highest bit becomes the implicit one.
            let shift = fraction.leading_zeros() - (31 - mantissa);
            (128 - bias - shift) << 23 | (fraction << shift & ((1 << mantissa) - 1)) << (23 - mantissa)
        };
        table[code as usize] = f32::from_bits(sign | bits);
        code += 1;
    }
    table
}

static E4M3: [f32; 256] = small_floats(3, 7, false);
static E5M2: [f32; 256] = small_floats(2, 15, true);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every exponent and sign, with mantissas around each place where rounding turns.
    fn probes() -> impl Iterator<Item = u32> {
        let lows = [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x7fff, 0x8000, 0x8001, 0xffff];
        (0..=u32::from(u16::MAX)).flat_map(move |top| lows.map(|low| top << 16 | low))
    }

    #[test]
    fn halves_are_those_of_half() {
        for bits in 0..=u16::MAX {
            let half = half::f16::from_bits(bits);
            match half.is_nan() {
                // Widening keeps the payload of NaNs; the library makes them quiet.
                true => {
                    assert_eq!(widened_f16(bits) & 0x7fff_ffff, 0x7f80_0000 | u32::from(bits & 0x3ff) << 13)
                }
                false => assert_eq!(widened_f16(bits), half.to_f32().to_bits(), "{bits:x}"),
            }
        }
        for bits in probes() {
            let value = f32::from_bits(bits);
            assert_eq!(narrowed_bf16(bits), half::bf16::from_f32(value).to_bits(), "{bits:x}");
            assert_eq!(narrowed_f16(bits), half::f16::from_f32(value).to_bits(), "{bits:x}");
        }
    }

    #[test]
    fn small_floats_are_the_nearest_of_their_tables() {
        for (table, narrow, largest) in
            [(&E4M3, narrowed_e4m3 as fn(u32) -> u8, 448.0f32), (&E5M2, narrowed_e5m2, 57344.0)]
        {
            for (code, value) in table.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                assert_eq!(usize::from(narrow(value.to_bits())), code);
            }
            for bits in probes() {
                let value = f32::from_bits(bits);
                let found = table[usize::from(narrow(bits))];
                if value.is_nan() {
                    assert!(found.is_nan());
                } else if value.abs() <= largest {
                    let distance = |of: f32| (f64::from(of) - f64::from(value)).abs();
                    let best = table.iter().filter(|of| of.is_finite()).map(|of| distance(*of));
                    assert_eq!(distance(found), best.fold(f64::MAX, f64::min), "{value}");
                }
            }
        }
    }

    #[test]
    fn cut_numbers_are_the_next_towards_zero() {
        for bits in probes() {
            let value = f32::from_bits(bits);
            if !value.is_finite() {
                continue;
            }
            for number in [Number::F16, Number::Bf16, Number::F8E4M3, Number::F8E5M2] {
                let (mut near, mut cut) = (vec![0; number.width()], vec![0; number.width()]);
                number.narrow(&[value], Rounding::Nearest, &mut near);
                number.narrow(&[value], Rounding::TowardsZero, &mut cut);
                let back = |bytes: &[u8]| number.values(bytes).unwrap()[0];
                assert!(back(&cut).abs() <= value.abs(), "{number:?} {value}");
                if back(&near).abs() <= value.abs() {
                    assert_eq!(near, cut, "{number:?} {value}");
                } else if back(&near).is_finite() {
                    let code = |bytes: &[u8]| {
                        bytes.iter().rev().fold(0u32, |code, byte| code << 8 | u32::from(*byte))
                    };
                    assert_eq!(code(&near), code(&cut) + 1, "{number:?} {value}");
                }
            }
        }
    }

    #[test]
    fn integers_are_rounded_within_their_bounds() {
        let values = [-300.0, -128.5, -2.5, -1.5, -0.5, 0.49, 0.5, 1.5, 127.4, 254.5, 300.0, f32::NAN];
        let mut out = [0; 12];
        Number::I8.narrow(&values, Rounding::Nearest, &mut out);
        assert_eq!(out.map(u8::cast_signed), [-128, -128, -2, -2, 0, 0, 0, 2, 127, 127, 127, 0]);
        Number::U8.narrow(&values, Rounding::Nearest, &mut out);
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 2, 127, 254, 255, 0]);
    }
}
