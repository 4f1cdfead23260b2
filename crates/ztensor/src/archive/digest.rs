//! The digest of a whole source, taken in windows so that a file of any size needs little memory.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use super::description::FileIdentity;
use crate::error::Result;
use crate::source::Source;

/// Length and sha256 of a file.
pub(crate) fn identify(file: &Source) -> Result<FileIdentity> {
    let mut hasher = Sha256::new();
    for window in windows(file) {
        hasher.update(&window?);
    }
    Ok(FileIdentity { length: file.len(), sha256: hasher.finalize().into() })
}

/// What stands for several files: their lengths together and the digest of their digests. One file stands for itself.
pub(crate) fn combine(files: &[FileIdentity]) -> FileIdentity {
    if let [only] = files {
        return *only;
    }
    let mut hasher = Sha256::new();
    files.iter().for_each(|file| hasher.update(file.sha256));
    let length = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.length));
    FileIdentity { length, sha256: hasher.finalize().into() }
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
