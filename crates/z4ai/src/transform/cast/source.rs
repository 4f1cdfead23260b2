//! What elements come from: a narrower float type, or decimals, which are integers over a power of ten.

use super::convert::convert;
use super::decimals;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// The type that elements come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub dtype: Dtype,
    /// How many places numbers have after the point, where the type is one of integers.
    places: Option<u8>,
}

impl Source {
    /// A float type.
    pub fn float(dtype: Dtype) -> Self {
        Self { dtype, places: None }
    }

    /// Integers over a power of ten.
    pub fn decimals(dtype: Dtype, places: u8) -> Self {
        Self { dtype, places: Some(places) }
    }

    /// Reads what elements of `dtype` come from.
    pub fn read(reader: &mut Reader, dtype: Option<Dtype>) -> Result<Self> {
        let unknown = || Error::corrupt("a cast from a dtype that there is none from");
        let (source, dtype) = Dtype::from_code(reader.u8()?)?.zip(dtype).ok_or_else(unknown)?;
        if floats(dtype).contains(&source) {
            return Ok(Self::float(source));
        }
        if !integers(dtype).contains(&source) {
            return Err(unknown());
        }
        let places = reader.u8()?;
        if places > decimals::MOST_PLACES {
            return Err(Error::corrupt("decimals with more places than there are"));
        }
        Ok(Self::decimals(source, places))
    }

    pub fn write(self, out: &mut Vec<u8>) {
        out.push(Dtype::to_code(Some(self.dtype)));
        out.extend(self.places);
    }

    /// Whether it is one of decimals.
    pub fn is_decimal(self) -> bool {
        self.places.is_some()
    }

    /// Bytes of an element.
    pub fn width(self) -> usize {
        self.dtype.width()
    }

    /// Elements of `dtype` as those that they come from, or something near where they do not.
    pub fn narrow(self, elements: &[u8], dtype: Dtype, out: &mut [u8]) {
        match self.places {
            Some(places) => decimals::to_integers(elements, dtype, self.dtype, places, out),
            None => convert(elements, dtype, self.dtype, out),
        }
    }

    /// The elements of `dtype` that narrow ones stand for.
    pub fn widen(self, narrow: &[u8], dtype: Dtype, out: &mut [u8]) {
        match self.places {
            Some(places) => decimals::from_integers(narrow, dtype, self.dtype, places, out),
            None => convert(narrow, self.dtype, dtype, out),
        }
    }
}

/// The float types that elements of `dtype` may come from, those with the fewest bits first.
pub(super) fn floats(dtype: Dtype) -> &'static [Dtype] {
    match dtype {
        Dtype::Bf16 => &[Dtype::F8E5M2, Dtype::F8E4M3],
        Dtype::F16 => &[Dtype::F8E5M2, Dtype::F8E4M3, Dtype::Bf16],
        Dtype::F32 | Dtype::Complex64 => &[Dtype::F8E5M2, Dtype::F8E4M3, Dtype::Bf16, Dtype::F16],
        Dtype::F64 | Dtype::Complex128 => {
            &[Dtype::F8E5M2, Dtype::F8E4M3, Dtype::Bf16, Dtype::F16, Dtype::F32]
        }
        _ => &[],
    }
}

/// The types of integers that elements of `dtype` may be decimals with.
pub(super) fn integers(dtype: Dtype) -> &'static [Dtype] {
    match dtype {
        Dtype::Bf16 | Dtype::F16 => &[Dtype::I16],
        Dtype::F32 | Dtype::Complex64 | Dtype::F64 | Dtype::Complex128 => &[Dtype::I16, Dtype::I32],
        _ => &[],
    }
}
