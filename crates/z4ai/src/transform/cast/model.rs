//! The type that elements come from, and the model of them as such.

use super::source::Source;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::difference::DifferenceModel;
use crate::transform::records::RecordsModel;
use crate::transform::stored::StoredModel;
use crate::transform::{Contents, Model, Position, Transform};

/// The model of a section's elements as those of a narrower type.
#[derive(Debug)]
pub(crate) struct CastModel {
    pub(super) dtype: Dtype,
    pub(super) source: Source,
    pub(super) inner: Model,
}

impl CastModel {
    /// Wraps the model that was made for the elements of `source`.
    pub fn new(dtype: Dtype, source: Source, inner: Model) -> Self {
        Self { dtype, source, inner }
    }

    /// The type that elements come from, and their model as such.
    pub fn inner(&self) -> (Source, &Model) {
        (self.source, &self.inner)
    }

    /// How many elements there are in so many bytes.
    pub(super) fn count(&self, bytes: usize) -> usize {
        bytes / self.dtype.scalar_width()
    }
}

impl Transform for CastModel {
    const TAG: u8 = 12;
    const NAME: &'static str = "cast";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let source = Source::read(reader, section.dtype)?;
        let dtype = section.dtype.ok_or_else(|| Error::corrupt("a cast of elements without a dtype"))?;
        // One level only, so that no frame nests models until the stack overflows.
        if let Some(&(Self::TAG | DifferenceModel::TAG | RecordsModel::TAG | StoredModel::TAG)) =
            reader.peek().first()
        {
            return Err(Error::corrupt(
                "a cast of elements that are stored, records, differences or casts themselves",
            ));
        }
        let length = section.elements() * source.width();
        let inner = Model::read_from(reader, Contents { dtype: Some(source.dtype), length })?;
        if matches!(inner, Model::Reference(_)) && (source.width() == 1 || source.is_decimal()) {
            return Err(Error::corrupt("a cast from eight bits or decimals with a reference"));
        }
        Ok(Self::new(dtype, source, inner))
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.source.write(out);
        self.inner.write(out)
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at, out)
    }

    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let before = reader.position();
        let count = reader.length()?;
        for _ in 0..count.min(elements) {
            reader.length()?;
        }
        reader.take(count.min(elements) * self.dtype.scalar_width())?;
        let mut parts = vec![("exceptions".to_owned(), reader.position() - before)];
        let length = reader.length()?;
        let mut inner = Reader::new(reader.take(length)?, "cast block");
        parts.extend(self.inner.parts(&mut inner, elements)?);
        Ok(parts)
    }
}
