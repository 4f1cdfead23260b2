//! Where sign, exponent and mantissa sit in an element. The nested coder needs nothing else about a number
//! format, so that one implementation serves every float with at most eight exponent bits.

/// The bit layout of a float of 1, 2 or 4 bytes: sign on top, then the exponent, then the mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FloatFields {
    /// Bytes per element: 1, 2 or 4.
    pub(crate) width: usize,
    /// Bits of mantissa; the exponent takes what is left below the sign and is at most 8 bits wide.
    pub(crate) mantissa_bits: u32,
}

impl FloatFields {
    /// bfloat16: 8 exponent and 7 mantissa bits.
    pub(crate) const BF16: Self = Self { width: 2, mantissa_bits: 7 };
    /// IEEE half precision: 5 exponent and 10 mantissa bits.
    pub(crate) const FP16: Self = Self { width: 2, mantissa_bits: 10 };
    /// IEEE single precision: 8 exponent and 23 mantissa bits.
    pub(crate) const FP32: Self = Self { width: 4, mantissa_bits: 23 };
    /// 8-bit float with 4 exponent and 3 mantissa bits.
    pub(crate) const FP8_E4M3: Self = Self { width: 1, mantissa_bits: 3 };
    /// 8-bit float with 5 exponent and 2 mantissa bits.
    pub(crate) const FP8_E5M2: Self = Self { width: 1, mantissa_bits: 2 };

    /// Position of the sign bit.
    pub(crate) const fn sign_bit(self) -> u32 {
        self.width as u32 * 8 - 1
    }

    /// The exponent field, shifted down to bit 0.
    pub(crate) const fn exponent_mask(self) -> u32 {
        (1 << (self.sign_bit() - self.mantissa_bits)) - 1
    }

    /// The mantissa field.
    pub(crate) const fn mantissa_mask(self) -> u32 {
        (1 << self.mantissa_bits) - 1
    }
}
