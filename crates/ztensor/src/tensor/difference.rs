//! How the elements of two tensors of one type differ: by how many, and by how much where the type has values.

use half::{bf16, f16};

use super::{DType, ElementType, LogicalType};

/// How two tensors of one type and shape differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ElementDifference {
    /// Elements whose bits differ.
    pub elements: u64,
    /// All elements.
    pub total: u64,
    /// The largest difference of two values; `None` where the type has none, or all that differ are not numbers.
    pub largest: Option<f64>,
}

impl ElementDifference {
    /// Compares the elements of two buffers of one length.
    pub fn between(element: &ElementType, x: &[u8], y: &[u8]) -> ElementDifference {
        let width = element.bits().map_or(1, |bits| (bits as usize / 8).max(1));
        let mut found = ElementDifference { total: (x.len() / width) as u64, ..ElementDifference::default() };
        for (a, b) in x.chunks_exact(width).zip(y.chunks_exact(width)).filter(|(a, b)| a != b) {
            found.elements += 1;
            let gap = number(element, a).zip(number(element, b)).map(|(a, b)| (a - b).abs());
            found.largest = found.largest.into_iter().chain(gap.filter(|gap| !gap.is_nan())).reduce(f64::max);
        }
        found
    }

    /// Of two parts of a tensor, the whole.
    pub fn and(self, other: ElementDifference) -> ElementDifference {
        ElementDifference {
            elements: self.elements + other.elements,
            total: self.total + other.total,
            largest: self.largest.into_iter().chain(other.largest).reduce(f64::max),
        }
    }
}

/// One element as a number, for types whose value is plain; of a complex number its real part.
pub fn number(element: &ElementType, unit: &[u8]) -> Option<f64> {
    if !matches!(element.logical, None | Some(LogicalType::Complex64 | LogicalType::Complex128)) {
        return None;
    }
    Some(match element.storage {
        DType::F64 => f64::from_le_bytes(*unit.first_chunk()?),
        DType::F32 => f32::from_le_bytes(*unit.first_chunk()?).into(),
        DType::F16 => f16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::BF16 => bf16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::I64 => i64::from_le_bytes(*unit.first_chunk()?) as f64,
        DType::I32 => i32::from_le_bytes(*unit.first_chunk()?).into(),
        DType::I16 => i16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::I8 => i8::from_le_bytes(*unit.first_chunk()?).into(),
        DType::U64 => u64::from_le_bytes(*unit.first_chunk()?) as f64,
        DType::U32 => u32::from_le_bytes(*unit.first_chunk()?).into(),
        DType::U16 => u16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::U8 | DType::Bool => f64::from(*unit.first()?),
    })
}
