//! Groups in columns, such as the channels of a matrix that was transposed after it was quantised: the
//! columns of a block, which is whole rows, take the place of rows.

use super::fit::{detect_columns, is_worthwhile};
use super::groups::Rows;
use super::model::GridModel;
use super::supports;
use crate::arch::memory;
use crate::dtype::Dtype;
use crate::error::{Error, Result};

/// Elements and rows that a block by columns has at least, where there are as many, and the most elements.
/// Every column of every block has a scale of 32 bits: with 512 rows a sixteenth of a bit per element. Round
/// numbers.
const COLUMN_BLOCK_ELEMENTS: usize = 1 << 17;
const COLUMN_BLOCK_ROWS: usize = 512;
const MOST_COLUMN_ELEMENTS: usize = 1 << 21;
/// With fewer rows a scale costs more than a bit per element.
const FEWEST_ROWS: usize = 32;

/// The columns of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct GridColumns {
    width: usize,
    rows: usize,
    columns: usize,
}

impl GridColumns {
    /// The columns of a block of whole rows, as rows.
    pub fn as_rows(self) -> Rows {
        Rows::new(self.rows)
    }

    /// The elements column by column.
    pub fn gather(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = memory::zeroed(bytes.len())?;
        self.turn(bytes, &mut out, self.rows, self.columns);
        Ok(out)
    }

    /// Elements that are column by column, row by row.
    pub fn scatter(self, columns: &[u8], out: &mut [u8]) {
        self.turn(columns, out, self.columns, self.rows);
    }

    /// Writes a matrix of so many rows and columns the other way round.
    fn turn(self, bytes: &[u8], out: &mut [u8], rows: usize, columns: usize) {
        match self.width {
            2 => turn::<2>(bytes, out, rows, columns),
            _ => turn::<4>(bytes, out, rows, columns),
        }
    }
}

fn turn<const WIDTH: usize>(bytes: &[u8], out: &mut [u8], rows: usize, columns: usize) {
    // Squares whose lines stay in the first-level cache.
    const SQUARE: usize = 32;
    let (from, to) = (bytes.as_chunks::<WIDTH>().0, out.as_chunks_mut::<WIDTH>().0);
    for first_row in (0..rows).step_by(SQUARE) {
        for first_column in (0..columns).step_by(SQUARE) {
            for row in first_row..rows.min(first_row + SQUARE) {
                for column in first_column..columns.min(first_column + SQUARE) {
                    to[column * rows + row] = from[row * columns + column];
                }
            }
        }
    }
}

impl GridModel {
    /// The columns of a block of so many bytes, if groups lie in them.
    pub(super) fn columns_of(&self, bytes: usize, start: usize) -> Result<Option<GridColumns>> {
        let Some(row) = self.whole_rows().map(|length| length.saturating_mul(self.dtype.width())) else {
            return Ok(None);
        };
        if !bytes.is_multiple_of(row) || !start.is_multiple_of(self.row_length) {
            return Err(Error::corrupt("a grid by columns has blocks of whole rows"));
        }
        Ok(Some(GridColumns { width: self.dtype.width(), rows: bytes / row, columns: self.row_length }))
    }

    /// Makes the model for a section of whole rows, if the columns of a block lie on grids.
    pub fn fit_columns(bytes: &[u8], dtype: Dtype, row_length: usize) -> Option<Self> {
        let block = Self::column_block(bytes.len(), dtype, row_length).filter(|_| supports(dtype))?;
        let found = detect_columns(&bytes[..block], dtype, row_length);
        let found = found.filter(|found| is_worthwhile(found, dtype))?;
        Some(Self { dtype, row_length, by_columns: true, quantisation: Some(found) })
    }

    /// Bytes of a block by columns in a section of so many; `None` where there are too few rows, or other
    /// than whole ones.
    pub fn column_block(bytes: usize, dtype: Dtype, row_length: usize) -> Option<usize> {
        let row =
            row_length.checked_mul(dtype.width()).filter(|&row| row > 0 && bytes.is_multiple_of(row))?;
        let rows = (COLUMN_BLOCK_ELEMENTS / row_length).max(COLUMN_BLOCK_ROWS);
        let rows = rows.min(MOST_COLUMN_ELEMENTS / row_length).min(bytes / row);
        (rows >= FEWEST_ROWS).then_some(rows * row)
    }
}
