//! What an archive says of its original, without decoding anything.

use std::path::Path;

use super::{ArchiveInfo, OpenOptions, identify};
use crate::error::{Kind, Result};
use crate::formats::zt;
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
    Ok(identify(&source)?.digest() == archive.sha256)
}

/// The sha256 of a file, in hexadecimal.
pub fn digest(file: &Path) -> Result<String> {
    Ok(identify(&Source::open_regular(file, Io::Auto)?)?.digest())
}

/// What a file says if it is an archive or a delta; `None` if it is another file. One that is damaged is an error.
pub fn find(file: &Path) -> Result<Option<ArchiveInfo>> {
    let source = Source::open_regular(file, Io::Auto)?;
    if !zt::is_zt(&source.head(8)?) {
        return Ok(None);
    }
    match describe(file) {
        Ok(info) => Ok(Some(info)),
        Err(error) if error.kind() == Kind::InvalidArgument => Ok(None),
        Err(error) => Err(error),
    }
}
