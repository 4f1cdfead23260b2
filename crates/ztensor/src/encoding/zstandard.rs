//! zstd components. A component may be several frames one after the other: legal zstd, and it lets all cores work on one tensor.

use std::io::Read;

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Decoded bytes per frame when a component is written.
const FRAME: usize = 4 << 20;
/// The longest frame of which a part is decoded by going through it in pieces: zstd keeps at most this much of what it has decoded.
const LONGEST_STREAMED: u64 = 1 << 27;

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

/// Decodes the bytes from `start` on, of `length` bytes in all, from the frames that hold them. `false` if they cannot be told from the frames' headers, or are parts of a frame
/// that takes as much memory in pieces as it does as a whole.
pub(super) fn decompress_range(stored: &[u8], length: u64, start: u64, out: &mut [u8]) -> Result<bool> {
    let end = start.saturating_add(out.len() as u64);
    let (mut tasks, mut frames, mut rest) = (Vec::new(), stored, out);
    let mut position = 0u64;
    while !frames.is_empty() {
        let (Ok(stored_length), Ok(Some(content))) = (
            zstd::zstd_safe::find_frame_compressed_size(frames),
            zstd::zstd_safe::get_frame_content_size(frames),
        ) else {
            return Ok(false);
        };
        let Some((frame, later)) = frames.split_at_checked(stored_length) else { return Ok(false) };
        let Some(next) = position.checked_add(content).filter(|&next| next <= length) else {
            return Ok(false);
        };
        let (from, to) = (start.clamp(position, next), end.clamp(position, next));
        if from < to {
            let (target, after) = std::mem::take(&mut rest).split_at_mut((to - from) as usize);
            if (target.len() as u64) < content && content > LONGEST_STREAMED {
                return Ok(false);
            }
            tasks.push((frame, content, from - position, target));
            rest = after;
        }
        (frames, position) = (later, next);
    }
    if position != length || !rest.is_empty() {
        return Ok(false);
    }
    tasks.into_par_iter().try_for_each(|(frame, content, skip, target)| {
        if target.len() as u64 == content {
            decompress_one(frame, target)
        } else {
            decompress_part(frame, skip, target)
        }
    })?;
    Ok(true)
}

/// Decodes a frame up to the part that is wanted, and that part.
fn decompress_part(frame: &[u8], skip: u64, target: &mut [u8]) -> Result<()> {
    let damaged = |cause| Error::malformed("the zstd data is damaged").with_cause(cause);
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(damaged)?.single_frame();
    let skipped = std::io::copy(&mut (&mut decoder).take(skip), &mut std::io::sink()).map_err(damaged)?;
    if skipped != skip {
        return Err(Error::malformed("the zstd data is shorter than announced"));
    }
    decoder.read_exact(target).map_err(damaged)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_of_several_frames() {
        let data: Vec<u8> = (0..100_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        let frames: Vec<u8> =
            data.chunks(30_000).flat_map(|piece| zstd::bulk::compress(piece, 1).unwrap()).collect();
        for (start, end) in
            [(0, 0), (0, 400_000), (1, 29_999), (29_999, 30_001), (30_000, 60_000), (1234, 399_999)]
        {
            let mut out = vec![0; end - start];
            assert!(decompress_range(&frames, data.len() as u64, start as u64, &mut out).unwrap());
            assert!(out == data[start..end]);
        }
    }

    #[test]
    fn frames_that_do_not_say_how_long_they_are_are_left_to_the_caller() {
        let stream = zstd::stream::encode_all(&[1u8; 5000][..], 1).unwrap();
        assert!(!decompress_range(&stream, 5000, 10, &mut [0; 10]).unwrap());
        let frame = zstd::bulk::compress(&[1; 5000], 1).unwrap();
        assert!(!decompress_range(&frame, 6000, 10, &mut [0; 10]).unwrap());
        assert!(!decompress_range(&frame, 4000, 10, &mut [0; 10]).unwrap());
    }
}
