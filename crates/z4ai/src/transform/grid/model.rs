//! Where the groups of a section lie, and for the encoder how they are found.

use super::fit::Quantisation;
use super::groups::Rows;
use super::{plane as grid_plane, supports};
use crate::dtype::Dtype;
use crate::entropy::plane;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::transform::{Contents, Position, Transform};

/// The model of group-quantised weights.
#[derive(Debug)]
pub(crate) struct GridModel {
    pub(super) dtype: Dtype,
    pub(super) row_length: usize,
    /// Whether groups lie in columns; blocks are then whole rows.
    pub(super) by_columns: bool,
    /// How the weights were quantised; the decoder finds it in each block.
    pub(super) quantisation: Option<Quantisation>,
}

impl GridModel {
    /// Elements of a row, if blocks have to consist of whole ones.
    pub fn whole_rows(&self) -> Option<usize> {
        self.by_columns.then_some(self.row_length)
    }

    pub(super) fn rows(&self, start: usize) -> Rows {
        Rows { length: self.row_length, first_column: start % self.row_length }
    }
}

impl Transform for GridModel {
    const TAG: u8 = 6;
    const NAME: &'static str = "grid";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let dtype = section.dtype.filter(|&dtype| supports(dtype));
        let dtype = dtype.ok_or_else(|| Error::corrupt("a grid of a dtype that has none"))?;
        let mut row_length = reader.length()?;
        let by_columns = row_length == 0 && !reader.peek().is_empty();
        if by_columns {
            row_length = reader.length()?;
        }
        if row_length == 0 {
            return Err(Error::corrupt("a grid with empty rows"));
        }
        Ok(Self { dtype, row_length, by_columns, quantisation: None })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.by_columns {
            put_length(out, 0);
        }
        put_length(out, self.row_length);
        Ok(())
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.start, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.start, out)
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        let length = reader.length()?;
        reader.take(length)?;
        let mut parts =
            vec![("levels".to_owned(), 0), ("scales".to_owned(), 0), ("off the grid".to_owned(), 0)];
        for index in 0..grid_plane::COUNT {
            let before = reader.position();
            let length = reader.length()?;
            if length > 0 {
                plane::skip_bytes(reader, length)?;
            }
            let part = match index {
                grid_plane::LEVELS => 0,
                grid_plane::RAW => 2,
                _ => 1,
            };
            parts[part].1 += reader.position() - before;
        }
        Ok(parts)
    }
}
