//! What the encoder asks of zstd; a frame says nothing of it.

use super::{decode, encode};
use crate::error::Result;
use crate::frame::wire::Reader;
use crate::transform::{Contents, Position, Transform, one_part};

/// The model of opaque bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpaqueModel {
    /// zstd's level.
    pub level: i32,
    /// Whether matches may be far apart.
    pub long: bool,
}

impl Transform for OpaqueModel {
    const TAG: u8 = 1;
    const NAME: &'static str = "opaque";
    // zstd finds the end of its frame only in a payload of its own.
    const TAKES_ALL_BYTES: bool = true;

    fn read(_: &mut Reader, _: Contents) -> Result<Self> {
        Ok(Self::default())
    }

    fn write(&self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn encode(&self, bytes: &[u8], _: Position, out: &mut Vec<u8>) -> Result<()> {
        out.extend(encode(bytes, self.level, self.long)?);
        Ok(())
    }

    fn decode(&self, reader: &mut Reader, _: Position, out: &mut [u8]) -> Result<()> {
        decode(reader.rest(), out)
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        Ok(one_part("bytes", reader))
    }
}
