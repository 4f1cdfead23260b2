//! What all blocks of a section share: the scales of rows and columns, and a frequency table for each
//! context.

use crate::entropy::table::MAX_PRECISION;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::scale_contexts::ScaleTables;
use crate::transform::{Contents, Position, Transform, one_part};

/// The shared description of a section.
#[derive(Debug)]
pub(crate) struct ScaledModel(pub(super) ScaleTables);

impl Transform for ScaledModel {
    const TAG: u8 = 14;
    const NAME: &'static str = "scaled";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        if section.width() != 1 {
            return Err(Error::corrupt("bytes in contexts of elements of more than a byte"));
        }
        let bits = reader.u8()?;
        ScaleTables::read(reader, bits, MAX_PRECISION, section.elements(), "bytes").map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(self.0.bits());
        self.0.write(out)
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.start, out);
        Ok(())
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.start, out)
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        Ok(one_part("byte 0", reader))
    }
}
