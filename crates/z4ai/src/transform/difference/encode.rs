//! Elements to differences.

use super::each_element;
use super::model::DifferenceModel;
use crate::arch::memory;
use crate::error::Result;
use crate::transform::Position;

impl DifferenceModel {
    pub(super) fn encode_block(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        let differences = differences(bytes, at.reference, self.width)?;
        self.inner.encode(&differences, Position::element(at.start), out)
    }
}

/// Each element of `bytes` minus the one of `reference`, which is as long.
pub(crate) fn differences(bytes: &[u8], reference: &[u8], width: usize) -> Result<Vec<u8>> {
    let mut differences = memory::zeroed(bytes.len())?;
    differences.copy_from_slice(bytes);
    each_element(&mut differences, reference, width, u64::wrapping_sub);
    Ok(differences)
}
