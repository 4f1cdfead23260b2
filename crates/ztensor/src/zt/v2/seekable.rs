//! The seekable zstd encoding: independent frames of equal size with a checksum each, then a seek table in a skippable frame.

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Decoded bytes of every frame but the last.
const FRAME: usize = 4 << 20;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;

/// Compresses on all cores. The bytes do not depend on the number of cores.
pub(in crate::zt) fn compress(data: &[u8], level: i32) -> Result<Vec<u8>> {
    let failed = |cause| Error::from(cause).with_context("zstd could not compress");
    let frame = |piece: &[u8]| {
        let mut compressor = zstd::bulk::Compressor::new(level).map_err(failed)?;
        compressor.include_checksum(true).map_err(failed)?;
        compressor.compress(piece).map_err(failed).map(|frame| (frame, piece.len() as u32))
    };
    let frames: Vec<(Vec<u8>, u32)> = data.par_chunks(FRAME).map(frame).collect::<Result<_>>()?;
    let mut stream = Vec::with_capacity(
        frames.iter().map(|(frame, _)| frame.len()).sum::<usize>() + 17 + 8 * frames.len(),
    );
    frames.iter().for_each(|(frame, _)| stream.extend_from_slice(frame));
    stream.extend_from_slice(&SKIPPABLE_MAGIC.to_le_bytes());
    stream.extend_from_slice(&(8 * frames.len() as u32 + 9).to_le_bytes());
    for (frame, decoded) in &frames {
        stream.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        stream.extend_from_slice(&decoded.to_le_bytes());
    }
    stream.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    stream.push(0);
    stream.extend_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
    Ok(stream)
}
