//! Booleans that are neither 0 nor 1. NumPy and PyTorch take every byte of a boolean array for one or the other, and what they do with a third is not
//! defined; files may hold any byte. In memory of their own booleans are made 0 or 1, and views are given of those only that are.

use ztensor::{DType, ElementType};

/// Whether elements are booleans.
pub(crate) fn are_booleans(element: &ElementType) -> bool {
    element.storage == DType::Bool
}

/// Makes booleans 0 or 1; leaves other elements alone.
pub(crate) fn normalise(element: &ElementType, bytes: &mut [u8]) {
    if are_booleans(element) {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
}

/// Whether bytes are booleans as they are.
pub(crate) fn are_normal(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |seen, byte| seen | byte) <= 1
}
