//! Elements to planes of indices.

use super::model::{IndexCode, PaletteModel};
use super::table::{Indices, Palette};
use crate::error::{Error, Result};
use crate::frame::wire::put_length;
use crate::transform::{Position, Transform, opaque};

impl IndexCode {
    fn encode(&self, indices: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Scaled(model) => model.encode(indices, at, out)?,
            Self::Plane(model) => model.encode(indices, out),
            Self::Repeating { level } => {
                let encoded = opaque::encode(indices, *level, false)?;
                put_length(out, encoded.len());
                out.extend(encoded);
            }
        }
        Ok(())
    }
}

impl PaletteModel {
    /// Appends a block.
    pub(super) fn encode_block(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        let indices = indices(&self.palette, bytes)?;
        self.low.encode(&indices.low, at, out)?;
        if !self.has_one_plane() {
            self.high.encode(&indices.high, out);
        }
        Ok(())
    }
}

/// The indices of elements, all of which the palette has.
pub(super) fn indices(palette: &Palette, bytes: &[u8]) -> Result<Indices> {
    palette.encode(bytes).ok_or_else(|| Error::corrupt("an element is missing from its palette"))
}
