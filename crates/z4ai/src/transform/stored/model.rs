//! The model of stored data, which has no parameters.

use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::{Contents, Position, Transform, one_part};

/// The model of data as it is.
#[derive(Debug)]
pub(crate) struct StoredModel;

impl Transform for StoredModel {
    const TAG: u8 = crate::frame::STORED;
    const NAME: &'static str = "stored";
    const HAS_MODES: bool = false;
    const TAKES_ALL_BYTES: bool = true;

    fn read(_: &mut Reader, _: Contents) -> Result<Self> {
        Ok(Self)
    }

    fn write(&self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn encode(&self, bytes: &[u8], _: Position, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(bytes);
        Ok(())
    }

    fn decode(&self, reader: &mut Reader, _: Position, out: &mut [u8]) -> Result<()> {
        if reader.remaining() != out.len() {
            return Err(Error::corrupt("a stored block of the wrong length"));
        }
        out.copy_from_slice(reader.take(out.len())?);
        Ok(())
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        Ok(one_part("bytes", reader))
    }
}
