//! Archives: a `.zt` file that holds the tensors of some model file, compressed, and everything else of it as a skeleton, so that the
//! original comes back byte for byte. Opened, an archive looks like the original: the same parser reads it through an
//! [`Assembly`](crate::source::assembly::Assembly) of pieces that are decoded when they are asked for. A delta ([`crate::delta`]) is an
//! archive some of whose pieces are stored as differences to a base. `spec/archive.md` has the details.

mod base;
mod collection;
mod derive;
mod derived;
mod describe;
mod description;
mod digest;
mod make;
mod open;
mod opening;
mod original;
mod restore;
mod runs;
mod table;
mod write;

pub use crate::index::{ArchiveInfo, BaseInfo, FileInfo};
pub use base::Candidate;
pub use collection::{Originals, archive_files};
pub use derive::{Computed, Derivation, Found, Operand, canonical_name, quantised_weights};
pub use describe::{describe, digest, find, is_original};
pub use make::archive;
pub use opening::OpenOptions;
pub use original::Original;
pub use restore::{restore, restore_bytes, verify};
pub use runs::{Run, runs};
pub use table::BaseTensor;
pub use write::{ArchiveOptions, Stats, archive_bytes, archive_reader, archive_source};

pub(crate) use base::{Search, digest_of, wrong_base};
pub(crate) use description::{BaseDescription, Description, FileIdentity, MOST_BASES, NamedFile};
pub(crate) use digest::identify;
pub(crate) use open::decoding_cost;

pub(crate) use write::{Alone, Encoded, Encoder, encode_alone, raw_or_frame, write_file, write_memory};

use std::sync::Arc;

use crate::source::Source;

/// What an archive says of itself, as callers see it.
pub(crate) fn info(description: &Description, files: &[Arc<Source>]) -> ArchiveInfo {
    let file = |file: &NamedFile| FileInfo {
        name: file.name.clone(),
        length: file.identity.length,
        sha256: file.identity.digest(),
    };
    let base = |base: &BaseDescription| BaseInfo {
        name: base.name.clone(),
        length: base.identity.length,
        sha256: base.identity.digest(),
        files: base.files.iter().map(file).collect(),
    };
    ArchiveInfo {
        format: description.format.clone(),
        length: description.original.length,
        sha256: description.original.digest(),
        files: description.files.iter().map(file).collect(),
        stored: files.iter().map(|file| file.len()).sum(),
        bases: description.bases.iter().map(base).collect(),
    }
}
