//! The model of the elements that are not zero.

use crate::dtype::Dtype;
use crate::entropy::plane;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::float::FloatModel;
use crate::transform::planes::PlanesModel;
use crate::transform::{Contents, Model, Position, Transform};

/// The model of a section's elements that are not zero.
#[derive(Debug)]
pub(crate) struct SparseModel {
    pub(super) width: usize,
    pub(super) is_float: bool,
    pub(super) dense: Model,
}

impl SparseModel {
    pub(super) fn new(dtype: Dtype, dense: Model) -> Self {
        Self { width: dtype.scalar_width(), is_float: dtype.float_layout().is_some(), dense }
    }
}

impl Transform for SparseModel {
    const TAG: u8 = 7;
    const NAME: &'static str = "sparse";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let Some(dtype) = section.dtype else {
            return Err(Error::corrupt("sparse elements without a dtype"));
        };
        // One level only, so that no frame nests models until the stack overflows.
        let Some(&(FloatModel::TAG | PlanesModel::TAG)) = reader.peek().first() else {
            return Err(Error::corrupt("sparse elements are coded as floats or planes"));
        };
        Ok(Self::new(dtype, Model::read_from(reader, section)?))
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.dense.write(out)
    }

    fn encode(&self, bytes: &[u8], _: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, out)
    }

    fn decode(&self, reader: &mut Reader, _: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, out)
    }

    /// How the bitmap splits the elements is not known without decoding it, so the others are one part.
    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let bitmap = plane::skip_bytes(reader, elements.div_ceil(8))?;
        let sign_bytes = reader.length()?;
        let signs = plane::skip_bytes(reader, sign_bytes)?;
        let parts =
            [("bitmap of zeros", bitmap), ("signs of zeros", signs), ("other elements", reader.remaining())];
        Ok(parts.map(|(name, length)| (name.to_owned(), length)).to_vec())
    }
}
