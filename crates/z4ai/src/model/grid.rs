//! Group-quantised weights: levels and scales, the planes of each block coded by themselves.

use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::entropy::plane;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::transform::grid::{self, Plan, Rows};

/// Where the groups of a section lie, and for the encoder how they are found.
#[derive(Debug)]
pub(crate) struct GridModel {
    dtype: Dtype,
    row_length: usize,
    plan: Option<Plan>,
}

impl GridModel {
    /// Makes the model for a section of whole elements, if they lie on a grid and that is worth it.
    pub fn fit(bytes: &[u8], dtype: Dtype, row_length: Option<usize>) -> Option<Self> {
        if !grid::supports(dtype) {
            return None;
        }
        let elements = bytes.len() / dtype.width();
        let row_length = row_length.unwrap_or(elements).max(1);
        let plan = grid::detect(bytes, dtype, row_length)?;
        // Dense floats need about this much; a grid that takes more was found by chance.
        let dense = if dtype.width() == 2 { 9.5 } else { 22.0 };
        (plan.bits_per_element < dense).then_some(Self { dtype, row_length, plan: Some(plan) })
    }

    /// Appends the model.
    pub fn write(&self, out: &mut Vec<u8>) {
        put_length(out, self.row_length);
    }

    /// Reads the model.
    pub fn read(reader: &mut Reader, dtype: Option<Dtype>) -> Result<Self> {
        let dtype = dtype.filter(|&dtype| grid::supports(dtype));
        let dtype = dtype.ok_or_else(|| Error::corrupt("a grid of a dtype that has none"))?;
        let row_length = reader.length()?;
        if row_length == 0 {
            return Err(Error::corrupt("a grid with empty rows"));
        }
        Ok(Self { dtype, row_length, plan: None })
    }

    fn rows(&self, start: usize) -> Rows {
        Rows { length: self.row_length, first_column: start % self.row_length }
    }

    /// Appends a block.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let plan = self.plan.as_ref();
        let encoded = plan.and_then(|plan| grid::encode(bytes, self.dtype, self.rows(start), plan));
        let encoded = encoded.ok_or_else(|| Error::corrupt("a grid was read, not planned"))?;
        put_length(out, encoded.header.len());
        out.extend_from_slice(&encoded.header);
        for plane in &encoded.planes {
            put_length(out, plane.len());
            if !plane.is_empty() {
                plane::write_bytes(plane, kernel, out)?;
            }
        }
        Ok(())
    }

    /// Decodes a block.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let length = reader.length()?;
        let header = reader.take(length)?;
        let mut planes: [Vec<u8>; grid::plane::COUNT] = Default::default();
        for plane in &mut planes {
            let length = reader.length()?;
            // No plane is longer than the elements; scales are four planes of one byte per group.
            if length > out.len() {
                return Err(Error::corrupt("a plane of a grid is longer than its block"));
            }
            if length > 0 {
                *plane = plane::read_bytes(reader, length, kernel)?;
            }
        }
        let planes = std::array::from_fn(|index| planes[index].as_slice());
        kernel.vectorised(
            #[inline(always)]
            || grid::decode(header, &planes, self.dtype, self.rows(start), out),
        )
    }

    /// The planes of a block, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader) -> Result<Vec<(String, usize)>> {
        let length = reader.length()?;
        reader.take(length)?;
        let mut parts =
            vec![("levels".to_owned(), 0), ("scales".to_owned(), 0), ("off the grid".to_owned(), 0)];
        for index in 0..grid::plane::COUNT {
            let before = reader.position();
            let length = reader.length()?;
            if length > 0 {
                plane::skip_bytes(reader, length)?;
            }
            let part = match index {
                grid::plane::LEVELS => 0,
                grid::plane::RAW => 2,
                _ => 1,
            };
            parts[part].1 += reader.position() - before;
        }
        Ok(parts)
    }
}
