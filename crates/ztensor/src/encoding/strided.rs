//! Gathers a strided view into contiguous, row-major elements.

use crate::error::{Error, Result};
use crate::index::Strided;

/// Copies every element of the view, in row-major order, into `out`.
pub(super) fn gather(buffer: &[u8], view: &Strided, out: &mut [u8]) -> Result<()> {
    let elements = view.shape.elements().ok_or_else(|| Error::malformed("the shape overflows"))?;
    if elements == 0 {
        return Ok(());
    }
    let elements = usize::try_from(elements).map_err(|_| Error::malformed("the shape overflows"))?;
    if view.strides.len() != view.shape.len() || !out.len().is_multiple_of(elements) {
        return Err(Error::malformed("the strides do not match the shape"));
    }
    check_bounds(buffer.len() as u64, view, (out.len() / elements) as u64)?;
    let width = out.len() / elements;

    // Dimensions that continue the inner one contiguously are copied as one run.
    let mut run = width;
    let mut outer = view.shape.len();
    while outer > 0 && view.strides[outer - 1] == run as i64 {
        run *= view.shape[outer - 1] as usize;
        outer -= 1;
    }
    let mut counter = vec![0u64; outer];
    let mut position = view.offset as i64;
    for target in out.chunks_exact_mut(run.max(1)) {
        let start = position as usize;
        target.copy_from_slice(&buffer[start..start + run]);
        for dimension in (0..outer).rev() {
            counter[dimension] += 1;
            position += view.strides[dimension];
            if counter[dimension] < view.shape[dimension] {
                break;
            }
            position -= view.strides[dimension] * view.shape[dimension] as i64;
            counter[dimension] = 0;
        }
    }
    Ok(())
}

/// Checks that the first and the last byte any index can reach lie in the buffer.
pub(crate) fn check_bounds(buffer: u64, view: &Strided, width: u64) -> Result<()> {
    let outside = || Error::malformed("the strides reach outside the storage");
    let (mut low, mut high) = (i128::from(view.offset), i128::from(view.offset) + i128::from(width));
    for (&dimension, &stride) in view.shape.iter().zip(&view.strides) {
        if dimension == 0 {
            return Ok(());
        }
        // A u64 times an i64 always fits i128; rank is bounded by the metadata's size, so the sums do too.
        let reach = i128::from(dimension - 1) * i128::from(stride);
        low = low.checked_add(reach.min(0)).ok_or_else(outside)?;
        high = high.checked_add(reach.max(0)).ok_or_else(outside)?;
    }
    if low < 0 || high > i128::from(buffer) { Err(outside()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Data, Strided};
    use crate::tensor::Shape;

    fn view(shape: &[u64], strides: &[i64], offset: u64) -> Strided {
        let inner = Data::Inline([].as_slice().into());
        Strided { inner, inner_length: 0, offset, shape: Shape::from(shape), strides: strides.to_vec() }
    }

    #[test]
    fn a_transposed_matrix_is_gathered_in_row_order() {
        let buffer: Vec<u8> = (0..6).collect();
        let mut out = [0; 6];
        gather(&buffer, &view(&[3, 2], &[1, 3], 0), &mut out).unwrap();
        assert_eq!(out, [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn expanded_and_reversed_views_are_gathered() {
        let buffer: Vec<u8> = (0..4).collect();
        let mut out = [0; 6];
        gather(&buffer, &view(&[2, 3], &[0, -1], 3), &mut out).unwrap();
        assert_eq!(out, [3, 2, 1, 3, 2, 1]);
    }

    #[test]
    fn views_that_leave_the_storage_are_refused() {
        let mut out = [0; 6];
        assert!(gather(&[0; 5], &view(&[3, 2], &[2, 1], 0), &mut out).is_err());
        assert!(gather(&[0; 6], &view(&[3, 2], &[-2, 1], 0), &mut out).is_err());
        assert!(gather(&[0; 6], &view(&[3, 2], &[i64::MAX, i64::MAX], 0), &mut out).is_err());
    }
}
