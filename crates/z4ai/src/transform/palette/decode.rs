//! Planes of indices to elements.

use super::model::{IndexCode, PaletteModel};
use crate::arch::memory;
use crate::error::Result;
use crate::frame::wire::Reader;
use crate::transform::{Position, Transform, opaque};

impl IndexCode {
    fn decode(&self, reader: &mut Reader, at: Position, count: usize) -> Result<Vec<u8>> {
        match self {
            Self::Scaled(model) => {
                let mut indices = memory::zeroed(count)?;
                model.decode(reader, at, &mut indices)?;
                Ok(indices)
            }
            Self::Plane(model) => model.decode(reader, count),
            Self::Repeating { .. } => {
                let length = reader.length()?;
                let mut indices = memory::zeroed(count)?;
                opaque::decode(reader.take(length)?, &mut indices)?;
                Ok(indices)
            }
        }
    }
}

impl PaletteModel {
    /// Decodes a block.
    pub(super) fn decode_block(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        let count = out.len() / self.palette.width();
        let low = self.low.decode(reader, at, count)?;
        let high = if self.has_one_plane() { Vec::new() } else { self.high.decode(reader, count)? };
        self.palette.decode(&low, &high, out)
    }
}
