//! The digest of a whole source, taken in windows so that a file of any size needs little memory.

use std::borrow::Cow;
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
        for window in windows(file) {
            hasher.update(&window?);
        }
    }
    Ok(FileIdentity { length, sha256: hasher.finalize().into() })
}

/// A source from front to back in windows of a few MiB, up to the first that cannot be read. Windows of an assembled file end where its pieces end, so that each is
/// decoded once.
pub(super) fn windows(source: &Source) -> impl Iterator<Item = Result<Cow<'_, [u8]>>> {
    let mut position = 0;
    std::iter::from_fn(move || {
        let length = (position < source.len()).then(|| source.window(position))?;
        let window = source.bytes(position, length);
        position = if window.is_ok() { position + length } else { source.len() };
        Some(window)
    })
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
