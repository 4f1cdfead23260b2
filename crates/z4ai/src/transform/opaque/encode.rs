//! A block to a zstd frame.

use crate::error::Result;
use zstd::bulk::Compressor;
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
