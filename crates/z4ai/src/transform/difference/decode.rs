//! Differences to elements.

use super::each_element;
use super::model::DifferenceModel;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::Position;

impl DifferenceModel {
    pub(super) fn decode_block(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        if at.reference.len() != out.len() {
            return Err(Error::corrupt("differences from elements that the reference does not have"));
        }
        self.inner.decode(reader, Position::element(at.start), out)?;
        each_element(out, at.reference, self.width, u64::wrapping_add);
        Ok(())
    }
}
