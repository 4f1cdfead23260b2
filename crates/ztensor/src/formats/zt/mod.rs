//! The `.zt` container as it is read: its three generations (0.1, 1.2, 2), and the parts of the format that reading and writing share: manifests,
//! CBOR, rules, the journal. [`crate::zt`] writes it. `spec/zt.md` has the bytes.

pub(crate) mod archived;
pub(crate) mod boxes;
pub(crate) mod candidates;
pub(crate) mod cbor;
pub(crate) mod journal;
mod legacy;
pub(crate) mod manifest;
pub(crate) mod read;
pub(crate) mod rules;
pub(crate) mod v2;

use super::Input;
use crate::error::Result;
use crate::index::Index;
use crate::limits::{Budget, Limits};
use crate::source::Source;
use crate::tensor::Attributes;

/// First and last bytes of a 1.2 file.
pub(crate) const MAGIC: &[u8; 8] = b"ZTEN1000";

/// The magic number of any generation.
pub(crate) fn matches(head: &[u8], _input: &Input) -> bool {
    is_zt(head)
}

/// Whether a file with these first bytes is a `.zt` file.
pub(crate) fn is_zt(head: &[u8]) -> bool {
    [MAGIC, legacy::MAGIC, v2::MAGIC].iter().any(|magic| head.starts_with(*magic))
}

/// The attributes of a file of version 1.2.
pub(crate) fn attributes(source: &Source) -> Result<Attributes> {
    let tail = read::tail_at(source, source.len())?;
    Ok(read::load(source, tail, &mut Budget::new(Limits::default()))?.attributes)
}

/// Indexes a file of any generation.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let mut magic = [0; MAGIC.len()];
    input.source().read_into(0, &mut magic)?;
    let mut index = match &magic {
        MAGIC => read::index(input),
        v2::MAGIC => v2::index(input),
        _ => legacy::index(input),
    }?;
    boxes::take(input, &mut index)?;
    Ok(index)
}
