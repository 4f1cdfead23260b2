//! What an archive says of its original, without decoding anything.

use std::path::Path;

use super::{ArchiveInfo, identify};
use crate::error::Result;
use crate::open::OpenOptions;
use crate::source::{Io, Source};

/// What an archive or a delta says; a delta's base is not needed for it.
pub fn describe(archive: &Path) -> Result<ArchiveInfo> {
    OpenOptions::default().describe_archive(archive)
}

/// Whether a file is the original of an archive, by length and digest.
pub fn is_original(archive: &ArchiveInfo, file: &Path) -> Result<bool> {
    let source = Source::open_regular(file, Io::Auto)?;
    if source.len() != archive.length {
        return Ok(false);
    }
    Ok(identify(&[source.into()])?.digest() == archive.sha256)
}
