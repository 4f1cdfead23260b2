//! The digest of a whole source, taken in windows so that a file of any size needs little memory.

use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::source::Source;

/// The sha256 of a whole source, in hexadecimal.
pub(super) fn sha256_of(source: &Source) -> Result<String> {
    let mut hasher = Sha256::new();
    in_windows(source, |window| {
        hasher.update(window);
        Ok(())
    })?;
    Ok(hexadecimal(&hasher.finalize()))
}

/// Walks a source from front to back in windows of a few MiB.
pub(super) fn in_windows(source: &Source, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    const WINDOW: u64 = 16 << 20;
    let mut position = 0;
    while position < source.len() {
        let length = WINDOW.min(source.len() - position);
        visit(&source.bytes(position, length)?)?;
        position += length;
    }
    Ok(())
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
