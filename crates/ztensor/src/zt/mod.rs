//! The `.zt` container: read in its three generations (0.1, 1.2, 2), written as 1.2,
//! or as 2 on request. `spec/zt.md` has the bytes.

mod append;
mod candidates;
mod cbor;
mod edit;
mod exclusive;
mod journal;
mod legacy;
mod manifest;
mod read;
mod repair;
mod rules;
mod v2;
mod write;

pub use edit::{remove_tensors, replace_tensor};
pub use repair::{Repair, repair, repair_at};
pub use write::{
    Checksum, Compression, TensorInput, TensorStream, TensorWrite, Version, Writer, enclose_bytes,
};

use crate::error::Result;
use crate::formats::Input;
use crate::index::Index;

/// First and last bytes of a 1.2 file.
const MAGIC: &[u8; 8] = b"ZTEN1000";

/// The magic number of any generation.
pub(crate) fn matches(head: &[u8], _input: &Input) -> bool {
    is_zt(head)
}

/// Whether a file with these first bytes is a `.zt` file.
pub(crate) fn is_zt(head: &[u8]) -> bool {
    [MAGIC, legacy::MAGIC, v2::MAGIC].iter().any(|magic| head.starts_with(*magic))
}

/// Indexes a file of any generation.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let mut magic = [0; MAGIC.len()];
    input.source().read_into(0, &mut magic)?;
    match &magic {
        MAGIC => read::index(input),
        v2::MAGIC => v2::index(input),
        _ => legacy::index(input),
    }
}
