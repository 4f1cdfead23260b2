//! Bytes of unknown structure: zstd, in independent blocks where that costs nothing, else in one block with long-distance matching.

use crate::error::{Error, Result};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Compresses a block; `long` turns on long-distance matching over the whole of it.
pub(crate) fn encode(bytes: &[u8], level: i32, long: bool) -> Result<Vec<u8>> {
    let mut compressor = Compressor::new(level)?;
    compressor.set_parameter(CParameter::ContentSizeFlag(false))?;
    compressor.set_parameter(CParameter::ChecksumFlag(false))?;
    compressor.set_parameter(CParameter::DictIdFlag(false))?;
    if long {
        let window = bytes.len().next_power_of_two().trailing_zeros().clamp(20, 27);
        compressor.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
        compressor.set_parameter(CParameter::WindowLog(window))?;
    }
    Ok(compressor.compress(bytes)?)
}

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
