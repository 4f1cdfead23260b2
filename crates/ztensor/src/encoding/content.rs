//! What a format says about values beyond their type, such as that booleans are 0 or 1.

use crate::error::{Error, Result};
use crate::index::Content;

/// Checks decoded bytes.
pub(super) fn check(content: Content, bytes: &[u8]) -> Result<()> {
    check_last(content, 0, bytes)
}

/// Checks the last of a tensor's decoded bytes, those from `first` on; of booleans any others just as well.
pub(crate) fn check_last(content: Content, first: u64, bytes: &[u8]) -> Result<()> {
    match content {
        Content::Any => Ok(()),
        Content::Booleans => match first_not_boolean(bytes) {
            Some((position, byte)) => Err(Error::malformed(format!(
                "element {} of a boolean tensor is {byte}, not 0 or 1",
                first.saturating_add(position as u64)
            ))),
            None => Ok(()),
        },
        Content::HalfByteLeft => match bytes.last() {
            Some(last) if last >> 4 != 0 => {
                Err(Error::malformed("the unused half of the last byte of a packed tensor is not zero"))
            }
            _ => Ok(()),
        },
    }
}

/// A first pass without a way out in the middle runs at the speed of memory; only damaged data is looked at twice.
fn first_not_boolean(bytes: &[u8]) -> Option<(usize, u8)> {
    if bytes.iter().fold(0, |seen, byte| seen | byte) <= 1 {
        return None;
    }
    bytes.iter().copied().enumerate().find(|(_, byte)| *byte > 1)
}
