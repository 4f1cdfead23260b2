//! The float formats in which dequantised weights are stored, as far as recovering a grid needs them: value
//! of a bit pattern, and rounding to nearest even. Rounding is written without branches on the data so that
//! decoding vectorises.

/// A stored float format. Bit patterns travel as `u32`, values as `f32`, which holds each of them exactly.
pub(crate) trait Format {
    /// Bytes per element.
    const WIDTH: usize;
    /// The sign bit.
    const SIGN: u32;
    /// Magnitude of infinity; larger magnitudes are NaN.
    const INFINITY: u32;

    /// The value of a bit pattern.
    fn value(bits: u32) -> f32;

    /// The nearest bit pattern, ties to even. `value` is not NaN.
    fn round(value: f32) -> u32;

    /// The reals that round to the magnitude `bits`, which is finite and not zero, as an interval.
    fn rounding_interval(bits: u32) -> (f64, f64);

    /// Reads one little-endian element.
    #[inline(always)]
    fn read(bytes: &[u8]) -> u32 {
        bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte))
    }

    /// Writes one little-endian element.
    #[inline(always)]
    fn write(bits: u32, bytes: &mut [u8]) {
        bytes.copy_from_slice(&bits.to_le_bytes()[..Self::WIDTH]);
    }
}

/// bfloat16.
pub(crate) struct Bf16;

impl Format for Bf16 {
    const WIDTH: usize = 2;
    const SIGN: u32 = 0x8000;
    const INFINITY: u32 = 0x7f80;

    #[inline(always)]
    fn value(bits: u32) -> f32 {
        f32::from_bits(bits << 16)
    }

    #[inline(always)]
    fn round(value: f32) -> u32 {
        let bits = value.to_bits();
        bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16
    }

    #[inline(always)]
    fn rounding_interval(bits: u32) -> (f64, f64) {
        let half = |bits| f64::from(f32::from_bits(bits));
        (half((bits << 16) - 0x8000), half((bits << 16) + 0x8000))
    }
}

/// IEEE half precision.
pub(crate) struct Fp16;

impl Format for Fp16 {
    const WIDTH: usize = 2;
    const SIGN: u32 = 0x8000;
    const INFINITY: u32 = 0x7c00;

    #[inline(always)]
    fn value(bits: u32) -> f32 {
        // A multiplication changes the exponent's bias and normalises subnormals; infinities and NaNs are put
        // back after it.
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((254 - 15) << 23);
        let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(magnitude.to_bits() | special | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn round(value: f32) -> u32 {
        let sign = value.to_bits() >> 16 & 0x8000;
        let magnitude = value.to_bits() & 0x7fff_ffff;
        let normal =
            magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
        // Adding one half aligns a subnormal's last bit with the last bit of the sum, so the adder rounds it.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
        sign | finite.min(Self::INFINITY)
    }

    #[inline(always)]
    fn rounding_interval(bits: u32) -> (f64, f64) {
        let half = |bits| f64::from(f32::from_bits(bits)) * f64::from(f32::from_bits((254 - 15) << 23));
        (half((bits << 13) - 0x1000), half((bits << 13) + 0x1000))
    }
}

/// IEEE single precision.
pub(crate) struct Fp32;

impl Format for Fp32 {
    const WIDTH: usize = 4;
    const SIGN: u32 = 0x8000_0000;
    const INFINITY: u32 = 0x7f80_0000;

    #[inline(always)]
    fn value(bits: u32) -> f32 {
        f32::from_bits(bits)
    }

    #[inline(always)]
    fn round(value: f32) -> u32 {
        value.to_bits()
    }

    #[inline(always)]
    fn rounding_interval(bits: u32) -> (f64, f64) {
        let (below, here) = (f64::from(f32::from_bits(bits - 1)), f64::from(f32::from_bits(bits)));
        // The step above is the step below, except at a power of two, where it is twice that.
        let step =
            if bits & 0x7f_ffff == 0 && bits > 0x80_0000 { 2.0 * (here - below) } else { here - below };
        ((below + here) / 2.0, here + step / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_precision_value_survives_and_orders() {
        for bits in 0..0x7c00 {
            assert_eq!(Fp16::round(Fp16::value(bits)), bits);
            assert!(Fp16::value(bits) < Fp16::value(bits + 1));
            assert_eq!(Fp16::round(-Fp16::value(bits)), bits | 0x8000);
        }
        assert_eq!(Fp16::value(0x3c00), 1.0);
        assert_eq!(Fp16::value(1), 2.0_f32.powi(-24));
        assert_eq!(Fp16::round(65519.9), 0x7bff);
        assert_eq!(Fp16::round(65520.0), 0x7c00);
        assert_eq!(Fp16::round(1e30), 0x7c00);
        assert_eq!(Fp16::round(f32::INFINITY), 0x7c00);
    }

    #[test]
    fn ties_go_to_even() {
        for bits in 1..0x7bff {
            let (low, high) = Fp16::rounding_interval(bits);
            let kept = |x: f64| Fp16::round(x as f32) == bits;
            assert_eq!((kept(low), kept(high)), (bits % 2 == 0, bits % 2 == 0), "{bits:#x}");
        }
        for bits in [0x0001, 0x0080, 0x3f80, 0x3f81, 0x7f7e] {
            let (low, high) = Bf16::rounding_interval(bits);
            let kept = |x: f64| Bf16::round(x as f32) == bits;
            assert_eq!((kept(low), kept(high)), (bits % 2 == 0, bits % 2 == 0), "{bits:#x}");
        }
        assert_eq!(Bf16::round(f32::MAX), 0x7f80);
        for bits in
            [0x0000_0001, 0x007f_ffff, 0x0080_0000, 0x0100_0000, 0x3f80_0000, 0x3f80_0001, 0x7f7f_fffe]
        {
            let value = |bits| f64::from(f32::from_bits(bits));
            let middles = ((value(bits - 1) + value(bits)) / 2.0, (value(bits) + value(bits + 1)) / 2.0);
            assert_eq!(Fp32::rounding_interval(bits), middles, "{bits:#x}");
        }
    }
}
