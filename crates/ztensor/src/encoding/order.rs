//! Byte order, sign flips and fill values: element-wise changes made in place.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::index::SwappedFields;
use crate::tensor::{DType, ElementType, LogicalType};

/// Reverses the bytes of each unit of `width` bytes.
pub(super) fn swap(bytes: &mut [u8], width: usize) {
    match width {
        2 => reverse::<2>(bytes),
        4 => reverse::<4>(bytes),
        8 => reverse::<8>(bytes),
        _ => {}
    }
}

fn reverse<const WIDTH: usize>(bytes: &mut [u8]) {
    for unit in bytes.as_chunks_mut::<WIDTH>().0 {
        unit.reverse();
    }
}

/// Blocks one task works on.
const BLOCKS_PER_TASK: usize = 4096;

/// Reverses the bytes of the given fields in each block.
pub(super) fn swap_blocks(bytes: &mut [u8], block: usize, fields: &[SwappedFields]) {
    let block = block.max(1);
    bytes.par_chunks_mut(block * BLOCKS_PER_TASK).for_each(|task| {
        for block in task.chunks_exact_mut(block) {
            for run in fields {
                if let Some(units) = block.get_mut(run.offset..run.offset + run.width * run.count) {
                    swap(units, run.width);
                }
            }
        }
    });
}

/// Repeats one element over the buffer.
pub(super) fn fill(element: &[u8], out: &mut [u8]) -> Result<()> {
    if element.is_empty() || !out.len().is_multiple_of(element.len()) {
        return Err(Error::malformed("the fill value does not match the element type"));
    }
    for unit in out.chunks_exact_mut(element.len()) {
        unit.copy_from_slice(element);
    }
    Ok(())
}

/// Flips the sign of every element, or of every imaginary part.
pub(super) fn negate(bytes: &mut [u8], element: &ElementType, imaginary_only: bool) -> Result<()> {
    let width = element.storage.width();
    let complex = matches!(
        element.logical,
        Some(LogicalType::Complex32 | LogicalType::Complex64 | LogicalType::Complex128)
    );
    let float = matches!(element.storage, DType::F64 | DType::F32 | DType::F16 | DType::BF16);
    if !float || (imaginary_only && !complex) {
        return Err(Error::unsupported(format!("a negated or conjugated view of {element} elements")));
    }
    let (first, step) = if imaginary_only { (width, 2 * width) } else { (0, width) };
    for sign in bytes.iter_mut().skip(first + width - 1).step_by(step) {
        *sign ^= 0x80;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conjugation_flips_imaginary_signs_only() {
        let mut bytes: Vec<u8> = [1f32, 2.0, -3.0, -4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        negate(&mut bytes, &ElementType::logical(LogicalType::Complex64), true).unwrap();
        let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(values, [1.0, -2.0, -3.0, 4.0]);
    }

    #[test]
    fn swapping_blocks_touches_their_fields_only() {
        let mut bytes = vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let fields = [SwappedFields { offset: 1, width: 2, count: 2 }];
        swap_blocks(&mut bytes, 5, &fields);
        assert_eq!(bytes, [1, 3, 2, 5, 4, 6, 8, 7, 10, 9]);
    }

    #[test]
    fn swapping_reverses_each_unit() {
        let mut bytes = vec![1, 2, 3, 4, 5, 6];
        swap(&mut bytes, 2);
        assert_eq!(bytes, [2, 1, 4, 3, 6, 5]);
    }
}
