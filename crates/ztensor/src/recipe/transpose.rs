//! Matrices of an operand with their columns as rows.

use super::fetched::Fetched;
use super::node::Node;
use super::number::Number;
use crate::error::Result;

/// Rows and columns of the squares that a matrix is copied by: a cache line of f32 for each of as many rows.
const SIDE: usize = 16;

/// Some numbers of transposed matrices: of `rows` × `columns` each before.
pub(super) fn transposed(
    (rows, columns): (u64, u64),
    node: &Node,
    operands: &Fetched<'_>,
    (first, count): (u64, usize),
    out: &mut [u8],
) -> Result<()> {
    let Node::Operand { number, of } = node else { return Ok(()) };
    let width = of.width();
    let matrix = rows * columns;
    let (mut first, mut left, mut rest) = (first, count as u64, out);
    while left > 0 {
        let (start, within) = (first / matrix * matrix, first % matrix);
        let taken = (matrix - within).min(left);
        // Rows of the result, the first and the last perhaps in part.
        let (top, bottom) = (within / rows, (within + taken - 1) / rows + 1);
        let (from, to) = (start + top, start + (rows - 1) * columns + bottom);
        let bytes = operands.bytes(*number, from * width as u64, (to - from) * width as u64)?;
        let (part, later) = std::mem::take(&mut rest).split_at_mut(taken as usize * width);
        let place = Place {
            columns: columns as usize,
            height: (bottom - top) as usize,
            rows: rows as usize,
            skipped: (within % rows) as usize,
        };
        match *of {
            Number::F64 => place.copy::<8>(&bytes, part),
            Number::F32 => place.copy::<4>(&bytes, part),
            Number::F16 | Number::Bf16 | Number::I16 => place.copy::<2>(&bytes, part),
            _ => place.copy::<1>(&bytes, part),
        }
        (first, left, rest) = (first + taken, left - taken, later);
    }
    Ok(())
}

/// Where the numbers of some rows of the result lie.
struct Place {
    columns: usize,
    /// Rows of the result that are concerned, and numbers of each.
    height: usize,
    rows: usize,
    /// Numbers of the first row that are left out.
    skipped: usize,
}

impl Place {
    /// Goes through squares of the matrix, so that what lies side by side is read and written at once.
    fn copy<const WIDTH: usize>(&self, bytes: &[u8], out: &mut [u8]) {
        let (from, into) = (bytes.as_chunks::<WIDTH>().0, out.as_chunks_mut::<WIDTH>().0);
        for first in (0..self.height).step_by(SIDE) {
            for row in (0..self.rows).step_by(SIDE) {
                let rows = SIDE.min(self.rows - row);
                for at in first..(first + SIDE).min(self.height) {
                    // The first row of the result may begin later, the last may end earlier.
                    let place = at * self.rows + row;
                    let (start, left_out) =
                        (place.saturating_sub(self.skipped), self.skipped.saturating_sub(place));
                    let end = (place + rows).saturating_sub(self.skipped).min(into.len());
                    let Some(out) = into.get_mut(start..end) else { continue };
                    let Some(from) = from.get((row + left_out) * self.columns + at..) else { continue };
                    out.iter_mut().zip(from.iter().step_by(self.columns)).for_each(|(out, of)| *out = *of);
                }
            }
        }
    }
}
