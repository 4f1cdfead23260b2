//! Row-major positions turned into coordinates, for sparse tensors that store one number per value.

use crate::error::{Error, Result};
use crate::tensor::Shape;

/// Bytes of one position or coordinate.
const WIDTH: usize = 8;

/// The part of the output that takes the positions before they are spread: the list of the first dimension.
pub(super) fn positions<'a>(shape: &Shape, out: &'a mut [u8]) -> Result<&'a mut [u8]> {
    let list = out.len() / shape.len().max(1);
    if shape.is_empty() || !list.is_multiple_of(WIDTH) || list * shape.len() != out.len() {
        return Err(Error::malformed("the coordinates do not match the shape"));
    }
    Ok(&mut out[..list])
}

/// Replaces the positions in the first list by coordinates in all lists.
pub(super) fn spread(shape: &Shape, out: &mut [u8]) -> Result<()> {
    let list = positions(shape, out)?.len();
    let elements = shape.elements().ok_or_else(|| Error::malformed("the shape overflows"))?;
    for at in (0..list).step_by(WIDTH) {
        let mut position = u64::from_le_bytes(read(out, at));
        if position >= elements {
            return Err(Error::malformed(format!("position {position} lies outside the shape {shape}")));
        }
        for (dimension, &extent) in shape.iter().enumerate().rev() {
            let start = dimension * list + at;
            out[start..start + WIDTH].copy_from_slice(&(position % extent).to_le_bytes());
            position /= extent;
        }
    }
    Ok(())
}

fn read(bytes: &[u8], at: usize) -> [u8; WIDTH] {
    let mut unit = [0; WIDTH];
    unit.copy_from_slice(&bytes[at..at + WIDTH]);
    unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_become_one_list_per_dimension() {
        let shape = Shape::from([2, 3, 4]);
        let mut words = [0u64; 9];
        words[..3].copy_from_slice(&[0, 13, 23]);
        let mut out: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        spread(&shape, &mut out).unwrap();
        let found: Vec<u64> = out.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(found, [0, 1, 1, 0, 0, 2, 0, 1, 3]);
    }

    #[test]
    fn positions_outside_the_shape_are_refused() {
        let mut out = 6u64.to_le_bytes().repeat(2);
        assert!(spread(&Shape::from([2, 3]), &mut out).is_err());
        assert!(spread(&Shape::from([0, 3]), &mut [0; 16]).is_err());
        assert!(spread(&Shape::from([]), &mut [0; 8]).is_err());
    }
}
