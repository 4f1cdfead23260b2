//! The digest of a whole source, taken in windows so that a file of any size needs little memory.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::description::FileIdentity;
use crate::error::Result;
use crate::source::Source;

/// Length and sha256 of files, one after the other.
pub(crate) fn identify(files: &[Arc<Source>]) -> Result<FileIdentity> {
    let mut hasher = Sha256::new();
    let mut length = 0;
    for file in files {
        length += file.len();
        in_windows(file, |window| {
            hasher.update(window);
            Ok(())
        })?;
    }
    Ok(FileIdentity { length, sha256: hasher.finalize().into() })
}

/// Walks a source from front to back in windows of a few MiB. Windows of an assembled file end where its pieces end, so that each is
/// decoded once.
pub(super) fn in_windows(source: &Source, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut position = 0;
    while position < source.len() {
        let length = source.window(position);
        visit(&source.bytes(position, length)?)?;
        position += length;
    }
    Ok(())
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
