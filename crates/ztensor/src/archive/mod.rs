//! Archives: a `.zt` file that holds the tensors of some model file, compressed, and everything else of it as a skeleton, so that the
//! original comes back byte for byte. Opened, an archive looks like the original: the same parser reads it through an
//! [`Assembly`](crate::source::assembly::Assembly) of pieces that are decoded when they are asked for. A delta ([`crate::delta`]) is an
//! archive some of whose pieces are stored as differences to a base. `spec/archive.md` has the details.

mod base;
mod describe;
mod description;
mod digest;
mod open;
mod original;
mod restore;
mod runs;
mod table;
mod write;

pub use base::Candidate;
pub use describe::{describe, digest, find, is_original};
pub use restore::{restore, restore_bytes, verify};
pub use runs::{Run, runs};
pub use write::{ArchiveOptions, Stats, archive, archive_bytes, archive_reader, archive_source};

pub(crate) use base::{Base, Search, digest_of, wrong_base};
pub(crate) use description::{BaseDescription, Description, FileIdentity, NamedFile, is_plain};
pub(crate) use digest::identify;
pub(crate) use open::{NamedSource, assemble, decoding_cost};
pub(crate) use original::Original;
pub(crate) use table::BaseTensor;
pub(crate) use write::{Alone, Encoded, Encoder, encode_alone, raw_or_frame, write};

use crate::source::Source;
use std::sync::Arc;

/// What an archive says about the file it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveInfo {
    /// The original's format, as `Reader.format` names it.
    pub format: String,
    /// The original's length in bytes.
    pub length: u64,
    /// The original's sha256, in hexadecimal.
    pub sha256: String,
    /// The files of an original in several, the one that is opened first; empty for an original in one.
    pub files: Vec<FileInfo>,
    /// Bytes of the archive.
    pub stored: u64,
    /// The file that a delta was made against.
    pub base: Option<BaseInfo>,
}

/// What an archive says about one of several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The file's name, relative to the folder of the model.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// Its sha256, in hexadecimal.
    pub sha256: String,
}

/// What a delta says about its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseInfo {
    /// The file's name when the delta was made; empty if it had none.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// Its sha256, in hexadecimal.
    pub sha256: String,
    /// The files of a base in several; empty for a base in one.
    pub files: Vec<FileInfo>,
}

impl ArchiveInfo {
    pub(crate) fn new(description: &Description, files: &[Arc<Source>]) -> ArchiveInfo {
        let file = |file: &NamedFile| FileInfo {
            name: file.name.clone(),
            length: file.identity.length,
            sha256: file.identity.digest(),
        };
        let base = description.base.as_ref().map(|base| BaseInfo {
            name: base.name.clone(),
            length: base.identity.length,
            sha256: base.identity.digest(),
            files: base.files.iter().map(file).collect(),
        });
        ArchiveInfo {
            format: description.format.clone(),
            length: description.original.length,
            sha256: description.original.digest(),
            files: description.files.iter().map(file).collect(),
            stored: files.iter().map(|file| file.len()).sum(),
            base,
        }
    }
}
