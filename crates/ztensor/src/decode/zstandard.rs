//! zstd components. A component may be several frames one after the other: legal zstd, and it lets all cores work on one tensor.

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Decoded bytes per frame when a component is written.
const FRAME: usize = 4 << 20;

/// Decodes concatenated frames into a buffer of exactly their length.
pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<()> {
    match split(stored, out) {
        Some(frames) if frames.len() > 1 => {
            frames.into_par_iter().try_for_each(|(frame, target)| decompress_one(frame, target))
        }
        _ => decompress_one(stored, out),
    }
}

fn decompress_one(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let written = zstd::bulk::decompress_to_buffer(stored, out).map_err(|cause| {
        Error::malformed("the zstd data is damaged or longer than announced").with_cause(cause)
    })?;
    if written != out.len() {
        return Err(Error::malformed(format!(
            "the zstd data has {written} bytes, but the tensor needs {}",
            out.len()
        )));
    }
    Ok(())
}

/// Pairs each frame with its part of the output; `None` unless every frame announces its size and they add up.
fn split<'a>(mut stored: &'a [u8], mut out: &'a mut [u8]) -> Option<Vec<(&'a [u8], &'a mut [u8])>> {
    let mut frames = Vec::new();
    while !stored.is_empty() {
        let length = zstd::zstd_safe::find_frame_compressed_size(stored).ok()?;
        let content = zstd::zstd_safe::get_frame_content_size(stored).ok()??;
        let (frame, rest) = stored.split_at_checked(length)?;
        let (target, remaining) =
            std::mem::take(&mut out).split_at_mut_checked(usize::try_from(content).ok()?)?;
        frames.push((frame, target));
        (stored, out) = (rest, remaining);
    }
    out.is_empty().then_some(frames)
}

/// Encodes as frames of a few MiB each, on all cores. The bytes do not depend on the number of cores.
pub(crate) fn compress(data: &[u8], level: i32) -> Result<Vec<u8>> {
    let encode = |piece: &[u8]| {
        zstd::bulk::compress(piece, level)
            .map_err(|cause| Error::from(cause).with_context("zstd could not compress"))
    };
    if data.len() <= FRAME {
        return encode(data);
    }
    let frames: Vec<Vec<u8>> = data.par_chunks(FRAME).map(encode).collect::<Result<_>>()?;
    Ok(frames.concat())
}
