//! A zstd frame to a block.

use crate::error::{Error, Result};
use zstd::bulk::Decompressor;

/// Decodes a block that must fill `out` exactly.
pub(crate) fn decode(payload: &[u8], out: &mut [u8]) -> Result<()> {
    let mut decompressor = Decompressor::new()?;
    let written = decompressor
        .decompress_to_buffer(payload, out)
        .map_err(|error| Error::corrupt(format!("a zstd block does not decode: {error}")))?;
    if written != out.len() {
        return Err(Error::corrupt("a zstd block decodes to fewer bytes than declared"));
    }
    Ok(())
}
