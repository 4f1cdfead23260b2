//! The `.zt` container.

use crate::error::{Error, Result};
use crate::formats::Input;
use crate::index::Index;

pub(crate) fn matches(head: &[u8], _input: &Input) -> bool {
    head.starts_with(b"ZTEN1000")
}

pub(crate) fn index(_input: &mut Input) -> Result<Index> {
    Err(Error::unsupported("soon"))
}
