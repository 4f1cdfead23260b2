//! Floats of four and eight bits as levels: weights that were quantised to them with a scale per tensor, row
//! or group. A level's number is its code.

/// A float type whose numbers were multiplied by scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Minifloat {
    /// 4 exponent and 3 mantissa bits, up to 448.
    E4m3,
    /// 5 exponent and 2 mantissa bits, up to 57344.
    E5m2,
    /// 2 exponent bits and 1 mantissa bit, up to 6.
    E2m1,
}

impl Minifloat {
    const fn exponent_bits(self) -> u32 {
        match self {
            Self::E4m3 => 4,
            Self::E5m2 => 5,
            Self::E2m1 => 2,
        }
    }

    const fn mantissa_bits(self) -> u32 {
        match self {
            Self::E4m3 => 3,
            Self::E5m2 => 2,
            Self::E2m1 => 1,
        }
    }

    /// The code of the greatest number; those above it are infinite or no numbers.
    const fn greatest(self) -> u32 {
        match self {
            Self::E4m3 => 0x7e,
            Self::E5m2 => 0x7b,
            Self::E2m1 => 7,
        }
    }

    /// How many mantissas its numbers have, subnormal ones among them, and the most that any type has.
    pub const fn mantissas(self) -> usize {
        1 << self.mantissa_bits()
    }
    pub const MOST_MANTISSAS: usize = Self::E4m3.mantissas();

    const fn sign(self) -> u32 {
        1 << (self.exponent_bits() + self.mantissa_bits())
    }

    /// The difference of the exponent biases of fp32 and this type. Multiplying by 2 to this power, unlike
    /// adding to the exponent field, converts subnormals too.
    const fn lacking(self) -> u32 {
        127 - ((1 << (self.exponent_bits() - 1)) - 1)
    }

    /// The number of a code. Codes above the greatest go on as if the type had more exponents.
    #[inline(always)]
    pub fn value(self, code: u32) -> f32 {
        let magnitude = f32::from_bits((code & (self.sign() - 1)) << (23 - self.mantissa_bits()));
        let value = magnitude * f32::from_bits((127 + self.lacking()) << 23);
        f32::from_bits(value.to_bits() | u32::from(code & self.sign() != 0) << 31)
    }

    /// The numbers of all bytes; those of four bits in their low half.
    pub fn values(self) -> [f32; 256] {
        std::array::from_fn(|code| self.value(code as u32))
    }

    /// The code of this sign that is nearest to a magnitude, and the reciprocal of its number, zero for zero
    /// and beyond the greatest.
    #[inline(always)]
    pub fn nearest(self, magnitude: f64, negative: bool) -> (i32, f64) {
        let bits = (magnitude as f32 * f32::from_bits((127 - self.lacking()) << 23)).to_bits();
        let dropped = 23 - self.mantissa_bits();
        let code = (bits + (1 << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped;
        let reciprocal =
            if code == 0 || code > self.greatest() { 0.0 } else { 1.0 / f64::from(self.value(code)) };
        (code.min(self.greatest()) as i32 | if negative { self.sign() as i32 } else { 0 }, reciprocal)
    }

    /// One number for each mantissa, the greatest there are.
    pub fn greatest_of_each_mantissa(self) -> Vec<f64> {
        let codes = (0..1u32 << self.mantissa_bits()).map(|step| self.greatest() - step);
        codes.map(|code| f64::from(self.value(code))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codes_agree() {
        for (float, greatest, least) in [
            (Minifloat::E4m3, 448.0, 1.0 / 512.0),
            (Minifloat::E5m2, 57344.0, 1.0 / 65536.0),
            (Minifloat::E2m1, 6.0, 0.5),
        ] {
            assert_eq!((float.value(float.greatest()), float.value(1)), (greatest, least));
            for code in 1..=float.greatest() {
                let value = float.value(code);
                assert_eq!(float.nearest(f64::from(value), false), (code as i32, 1.0 / f64::from(value)));
                assert_eq!(float.value(code | float.sign()), -value);
                assert_eq!(float.nearest(f64::from(value), true).0, (code | float.sign()) as i32);
            }
            assert_eq!(float.nearest(f64::from(greatest) * 2.0, false).1, 0.0);
            assert_eq!(float.value(float.sign()).to_bits(), (-0.0f32).to_bits());
        }
        let e2m1: Vec<f32> = (0..8).map(|code| Minifloat::E2m1.value(code)).collect();
        assert_eq!(e2m1, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(
            Minifloat::E4m3.greatest_of_each_mantissa(),
            [448.0, 416.0, 384.0, 352.0, 320.0, 288.0, 256.0, 240.0]
        );
    }
}
