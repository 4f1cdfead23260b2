//! Archives: a `.zt` file that holds the tensors of some model file, compressed, and everything else of it as a skeleton, so that the
//! original comes back byte for byte. Opened, an archive looks like the original: the same parser reads it through an
//! [`Assembly`](crate::source::assembly::Assembly) of pieces that are decoded when they are asked for. `spec/archive.md` has the details.

mod description;
mod digest;
mod open;
mod restore;
mod write;

pub use restore::restore;
pub use write::{ArchiveOptions, Stats, archive, archive_bytes};

pub(crate) use description::Description;
pub(crate) use open::assemble;

/// What an archive says about the file it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveInfo {
    /// The original's format, as `Reader.format` names it.
    pub format: String,
    /// The original's length in bytes.
    pub length: u64,
    /// The original's sha256, in hexadecimal.
    pub sha256: String,
    /// Bytes of the archive.
    pub stored: u64,
}
