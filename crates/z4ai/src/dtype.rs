//! Element types: their names, codes in a frame, widths, and where the fields of a float lie.

use crate::error::{Error, ErrorKind, Result};

/// The type of the elements in a buffer. It guides the choice of transform and never changes what is
/// restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// 8-bit float, 4 exponent and 3 mantissa bits.
    F8E4M3,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    F8E5M2,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 64-bit integer.
    U64,
    /// Booleans, one byte each.
    Bool,
    /// Pairs of binary32: elements are coded as their two halves.
    Complex64,
    /// Pairs of binary64.
    Complex128,
}

use Dtype::*;

/// Every dtype with its frame code, its canonical name and the other spellings accepted by [`Dtype::parse`].
const REGISTRY: &[(Dtype, u8, &str, &[&str])] = &[
    (Bf16, 1, "bf16", &["bfloat16"]),
    (F16, 2, "fp16", &["f16", "float16", "half"]),
    (F32, 3, "fp32", &["f32", "float32", "float"]),
    (F64, 4, "fp64", &["f64", "float64", "double"]),
    (
        F8E4M3,
        5,
        "fp8_e4m3",
        &["fp8", "f8_e4m3", "f8_e4m3fn", "float8_e4m3fn", "float8_e4m3", "f8e4m3fn", "f8e4m3"],
    ),
    (F8E5M2, 6, "fp8_e5m2", &["f8_e5m2", "float8_e5m2", "f8e5m2"]),
    (I8, 7, "int8", &["i8"]),
    (U8, 8, "uint8", &["u8"]),
    (I16, 9, "int16", &["i16"]),
    (U16, 10, "uint16", &["u16"]),
    (I32, 11, "int32", &["i32"]),
    (U32, 12, "uint32", &["u32"]),
    (I64, 13, "int64", &["i64"]),
    (U64, 14, "uint64", &["u64"]),
    (Bool, 15, "bool", &[]),
    (Complex64, 16, "complex64", &["c64"]),
    (Complex128, 17, "complex128", &["c128"]),
];

impl Dtype {
    /// Every dtype, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        REGISTRY.iter().map(|entry| entry.0)
    }

    /// Reads a dtype's name: the codes of the Python API (`bf16`, `fp32`, `int8`), the names in `.zt` files
    /// (`f32`, `u8`) and NumPy's (`float32`), in any case.
    pub fn parse(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        REGISTRY
            .iter()
            .find(|(_, _, canonical, others)| *canonical == lower || others.contains(&lower.as_str()))
            .map(|entry| entry.0)
            .ok_or_else(|| {
                let known: Vec<_> = REGISTRY.iter().map(|entry| entry.2).collect();
                Error::new(
                    ErrorKind::InvalidDtype,
                    format!("unknown dtype {name:?}; known are {}", known.join(", ")),
                )
            })
    }

    /// The canonical name.
    pub fn name(self) -> &'static str {
        REGISTRY.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.2)
    }

    /// Every name that [`Dtype::parse`] reads as this dtype, in lower case; the canonical one comes first.
    pub fn spellings(self) -> impl Iterator<Item = &'static str> {
        let entry = REGISTRY.iter().filter(move |entry| entry.0 == self);
        entry.flat_map(|(_, _, canonical, others)| std::iter::once(*canonical).chain(others.iter().copied()))
    }

    /// Bytes per element.
    pub fn width(self) -> usize {
        match self {
            F8E4M3 | F8E5M2 | I8 | U8 | Bool => 1,
            Bf16 | F16 | I16 | U16 => 2,
            F32 | I32 | U32 => 4,
            F64 | I64 | U64 | Complex64 => 8,
            Complex128 => 16,
        }
    }

    /// The number that stands for `dtype` in a frame; 0 is "no dtype: opaque bytes".
    pub(crate) fn to_code(dtype: Option<Self>) -> u8 {
        REGISTRY.iter().find(|entry| Some(entry.0) == dtype).map_or(0, |entry| entry.1)
    }

    pub(crate) fn from_code(code: u8) -> Result<Option<Self>> {
        if code == 0 {
            return Ok(None);
        }
        let known = REGISTRY.iter().find(|entry| entry.1 == code);
        known.map(|entry| Some(entry.0)).ok_or_else(|| Error::corrupt(format!("unknown dtype code {code}")))
    }

    /// Where sign, exponent and mantissa lie, for floats of two bytes and more.
    pub(crate) fn float_layout(self) -> Option<FloatLayout> {
        let (width, exponent_bits) = match self {
            Bf16 => (2, 8),
            F16 => (2, 5),
            F32 | Complex64 => (4, 8),
            F64 | Complex128 => (8, 11),
            _ => return None,
        };
        Some(FloatLayout { width, exponent_bits })
    }

    /// Bytes of the unit that the byte planes are taken from (a complex number is two floats).
    pub(crate) fn scalar_width(self) -> usize {
        self.float_layout().map_or(self.width(), |layout| layout.width)
    }
}

/// The fields of a float, seen from its *head*: the 16 most significant bits (sign, exponent, first mantissa
/// bits). The bytes below the head are the *tail*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FloatLayout {
    /// Bytes per element: 2, 4 or 8.
    pub width: usize,
    /// Bits of the exponent: 5, 8 or 11.
    pub exponent_bits: u32,
}

impl FloatLayout {
    /// Mantissa bits inside the head.
    pub fn head_mantissa_bits(self) -> u32 {
        15 - self.exponent_bits
    }

    /// Bytes below the head.
    pub fn tail_bytes(self) -> usize {
        self.width - 2
    }

    /// The heads of the whole elements in `bytes`.
    #[inline(always)]
    pub fn read_heads(self, bytes: &[u8], heads: &mut [u16]) {
        // Widths are spelt out so that each loop has a constant stride.
        match self.width {
            2 => read_heads::<2>(bytes, heads),
            4 => read_heads::<4>(bytes, heads),
            _ => read_heads::<8>(bytes, heads),
        }
    }

    /// The heads of the whole elements in `bytes` without their signs, and 0 for those below `least`.
    #[inline(always)]
    pub fn read_magnitudes(self, bytes: &[u8], least: u16, magnitudes: &mut [u16]) {
        let magnitude = |head: u16| if head & 0x7fff >= least { head & 0x7fff } else { 0 };
        if self.width == 2 {
            let heads = bytes.as_chunks().0.iter().map(|&head| u16::from_le_bytes(head));
            heads.zip(magnitudes).for_each(|(head, target)| *target = magnitude(head));
            return;
        }
        // Two loops vectorise better where heads are not side by side.
        self.read_heads(bytes, magnitudes);
        magnitudes.iter_mut().for_each(|head| *head = magnitude(*head));
    }
}

#[inline(always)]
fn read_heads<const WIDTH: usize>(bytes: &[u8], heads: &mut [u16]) {
    for (element, head) in bytes.chunks_exact(WIDTH).zip(heads) {
        *head = u16::from_le_bytes([element[WIDTH - 2], element[WIDTH - 1]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_survive() {
        for dtype in Dtype::all() {
            assert_eq!(Dtype::parse(dtype.name()).unwrap(), dtype);
            assert_eq!(Dtype::from_code(Dtype::to_code(Some(dtype))).unwrap(), Some(dtype));
        }
        assert_eq!(Dtype::parse("BF16").unwrap(), Bf16);
        assert_eq!(Dtype::parse("float8_e4m3fn").unwrap(), F8E4M3);
        assert_eq!(Dtype::parse("q4").unwrap_err().kind(), ErrorKind::InvalidDtype);
        assert!(Dtype::from_code(200).is_err());
    }
}
