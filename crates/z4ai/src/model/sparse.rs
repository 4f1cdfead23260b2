//! Pruned weights: which elements are zero, and a model for the others.

use super::Model;
use crate::arch::Kernel;
use crate::decompress::zeroed;
use crate::dtype::Dtype;
use crate::entropy::plane;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::threads;
use crate::transform::float::FloatModel;
use crate::transform::planes::PlanesModel;
use crate::transform::sparse;

/// The model of a section's elements that are not zero. They have lost their place, so it knows no rows or columns.
#[derive(Debug)]
pub(crate) struct SparseModel {
    width: usize,
    is_float: bool,
    dense: Box<Model>,
}

impl SparseModel {
    /// Whether many of these elements are zero.
    pub fn suits(bytes: &[u8], dtype: Dtype) -> bool {
        sparse::detect(bytes, dtype.scalar_width(), dtype.float_layout().is_some())
    }

    /// Makes the model for a section of whole elements.
    pub fn fit(bytes: &[u8], dtype: Dtype, block: usize, kernel: Kernel) -> Result<Self> {
        let layout = dtype.float_layout();
        let (width, is_float) = (dtype.scalar_width(), layout.is_some());
        let parts = threads::map(bytes.chunks(block), |part| sparse::encode(part, width, is_float).dense);
        let dense = parts.concat();
        let dense = match layout {
            Some(layout) => Model::Float(Box::new(FloatModel::fit_flat(layout, &dense, block, kernel)?)),
            None => Model::Planes(PlanesModel::fit(&dense, width)?),
        };
        Ok(Self { width, is_float, dense: Box::new(dense) })
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        self.dense.write(kernel, out)
    }

    /// Reads the model of a section of `length` bytes.
    pub fn read(reader: &mut Reader, dtype: Option<Dtype>, length: usize, kernel: Kernel) -> Result<Self> {
        let Some(dtype) = dtype else { return Err(Error::corrupt("sparse elements without a dtype")) };
        let dense = match reader.peek().first() {
            // One level only: a model inside a model inside a model would be a way to exhaust the stack.
            Some(&(super::FLOAT | super::PLANES)) => Model::read_from(reader, Some(dtype), length, kernel)?,
            _ => return Err(Error::corrupt("sparse elements are coded as floats or planes")),
        };
        Ok(Self {
            width: dtype.scalar_width(),
            is_float: dtype.float_layout().is_some(),
            dense: Box::new(dense),
        })
    }

    /// Appends a block.
    pub fn encode(&self, bytes: &[u8], kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let sparse = sparse::encode(bytes, self.width, self.is_float);
        plane::write_bytes(&sparse.bitmap, kernel, out)?;
        put_length(out, sparse.zero_signs.len());
        plane::write_bytes(&sparse.zero_signs, kernel, out)?;
        self.dense.encode(&sparse.dense, 0, &[], kernel, out)
    }

    /// Decodes a block.
    pub fn decode(&self, reader: &mut Reader, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let count = out.len() / self.width;
        let bitmap = plane::read_bytes(reader, count.div_ceil(8), kernel)?;
        let sign_bytes = reader.length()?;
        if sign_bytes > bitmap.len() {
            return Err(Error::corrupt("more signs of zeros than elements"));
        }
        let zero_signs = plane::read_bytes(reader, sign_bytes, kernel)?;
        let mut dense = zeroed(sparse::dense_count(&bitmap, count)? * self.width)?;
        self.dense.decode(reader, 0, &[], kernel, &mut dense)?;
        sparse::decode(&bitmap, &zero_signs, &dense, self.width, kernel, out)
    }

    /// The planes of a block of `elements` elements, by name and encoded length. How the bitmap splits them is not known without decoding it.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let bitmap = plane::skip_bytes(reader, elements.div_ceil(8))?;
        let sign_bytes = reader.length()?;
        let signs = plane::skip_bytes(reader, sign_bytes)?;
        let parts =
            [("bitmap of zeros", bitmap), ("signs of zeros", signs), ("other elements", reader.remaining())];
        Ok(parts.map(|(name, length)| (name.to_owned(), length)).to_vec())
    }
}
