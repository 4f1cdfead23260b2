//! The model of the differences, which is one of those that need no reference.

use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::reference::ReferenceModel;
use crate::transform::stored::StoredModel;
use crate::transform::{Contents, Model, Position, Transform};

/// The model of a section's differences.
#[derive(Debug)]
pub(crate) struct DifferenceModel {
    pub(super) width: usize,
    pub(super) inner: Model,
}

impl DifferenceModel {
    /// Wraps the model that was made for the [`super::differences`] of a section.
    pub fn new(width: usize, inner: Model) -> Self {
        Self { width, inner }
    }
}

impl Transform for DifferenceModel {
    const TAG: u8 = 8;
    const NAME: &'static str = "difference";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        // One level only, so that no frame nests models until the stack overflows.
        if let Some(&(DifferenceModel::TAG | ReferenceModel::TAG | StoredModel::TAG)) = reader.peek().first()
        {
            return Err(Error::corrupt("differences are coded with a model that needs no reference"));
        }
        Ok(Self::new(section.width(), Model::read_from(reader, section)?))
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.inner.write(out)
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at, out)
    }

    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        self.inner.parts(reader, elements)
    }
}
