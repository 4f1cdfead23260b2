//! The seekable zstd encoding of `.zt` 2: independent frames of equal size with a checksum each, then a seek table in a skippable frame. The table
//! says where every frame lies, so that all cores decode one tensor, and a slice decodes only the frames it touches.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Decoded bytes of every frame that is written, but the last.
const FRAME: usize = 4 << 20;
/// Decoded bytes that the format allows in a frame.
const LARGEST_FRAME: usize = 16 << 20;
const FRAME_MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Bytes behind the entries of the seek table: their number, a description, the magic number.
const TABLE_FOOTER: usize = 9;
/// Bytes before the entries: the head of the skippable frame.
const TABLE_HEAD: usize = 8;
/// In a frame's description: a checksum follows the content.
const CHECKSUM_FLAG: u8 = 1 << 2;

/// Compresses on all cores. The bytes do not depend on the number of cores.
pub(crate) fn compress(data: &[u8], level: i32) -> Result<Vec<u8>> {
    let failed = |cause| Error::from(cause).with_context("zstd could not compress");
    let frame = |piece: &[u8]| {
        let mut compressor = zstd::bulk::Compressor::new(level).map_err(failed)?;
        compressor.include_checksum(true).map_err(failed)?;
        compressor.compress(piece).map_err(failed).map(|frame| (frame, piece.len() as u32))
    };
    let frames: Vec<(Vec<u8>, u32)> = data.par_chunks(FRAME).map(frame).collect::<Result<_>>()?;
    let mut stream = Vec::with_capacity(
        frames.iter().map(|(frame, _)| frame.len()).sum::<usize>()
            + TABLE_HEAD
            + 8 * frames.len()
            + TABLE_FOOTER,
    );
    frames.iter().for_each(|(frame, _)| stream.extend_from_slice(frame));
    stream.extend_from_slice(&SKIPPABLE_MAGIC.to_le_bytes());
    stream.extend_from_slice(&((8 * frames.len() + TABLE_FOOTER) as u32).to_le_bytes());
    for (frame, decoded) in &frames {
        stream.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        stream.extend_from_slice(&decoded.to_le_bytes());
    }
    stream.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    stream.push(0);
    stream.extend_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
    Ok(stream)
}

/// Decodes a stream into a buffer of exactly its length.
pub(super) fn decompress(stored: &[u8], mut out: &mut [u8]) -> Result<()> {
    let frames = frames(stored, out.len() as u64)?;
    let mut work = Vec::with_capacity(frames.len());
    for frame in frames {
        let (target, rest) = std::mem::take(&mut out).split_at_mut(frame.length);
        work.push((frame, target));
        out = rest;
    }
    work.into_par_iter().try_for_each(|(frame, target)| frame.decompress(target))
}

/// Decodes the bytes from `start` on, as many as the buffer takes, of a stream of `length` bytes.
pub(super) fn decompress_range(stored: &[u8], length: u64, start: u64, out: &mut [u8]) -> Result<()> {
    let frames = frames(stored, length)?;
    let wanted = start..start + out.len() as u64;
    let touched = |frame: &&Frame<'_>| frame.start < wanted.end && frame.end() > wanted.start;
    let mut buffer = Vec::new();
    for frame in frames.iter().filter(touched) {
        let inside = overlap(&wanted, frame);
        let (from, to) = (inside.start - frame.start, inside.start - wanted.start);
        let count = (inside.end - inside.start) as usize;
        buffer.resize(frame.length, 0);
        frame.decompress(&mut buffer)?;
        out[to as usize..][..count].copy_from_slice(&buffer[from as usize..][..count]);
    }
    Ok(())
}

fn overlap(wanted: &Range<u64>, frame: &Frame<'_>) -> Range<u64> {
    wanted.start.max(frame.start)..wanted.end.min(frame.end())
}

/// One frame and the part of the output that it holds.
struct Frame<'a> {
    stored: &'a [u8],
    start: u64,
    length: usize,
}

impl Frame<'_> {
    fn end(&self) -> u64 {
        self.start + self.length as u64
    }

    fn decompress(&self, out: &mut [u8]) -> Result<()> {
        let length = zstd::zstd_safe::find_frame_compressed_size(self.stored);
        let one_frame =
            self.stored.starts_with(&FRAME_MAGIC.to_le_bytes()) && length == Ok(self.stored.len());
        if !one_frame {
            return Err(Error::malformed("an entry of the seek table is not one zstd frame"));
        }
        if self.stored.get(4).is_none_or(|description| description & CHECKSUM_FLAG == 0) {
            return Err(Error::malformed("a zstd frame without its checksum"));
        }
        match zstd::bulk::decompress_to_buffer(self.stored, out) {
            Ok(written) if written == out.len() => Ok(()),
            Ok(written) => Err(Error::malformed(format!(
                "a zstd frame has {written} bytes, but the seek table says {}",
                out.len()
            ))),
            Err(cause) => {
                Err(Error::malformed("a zstd frame is damaged or longer than announced").with_cause(cause))
            }
        }
    }
}

/// Reads the seek table of a stream that decodes to `length` bytes.
fn frames(stored: &[u8], length: u64) -> Result<Vec<Frame<'_>>> {
    let wrong = |rule: &str| Error::malformed(format!("the seek table of the zstd data is damaged: {rule}"));
    let number = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|field| field.first_chunk()).map(|field| u32::from_le_bytes(*field))
    };
    let (rest, footer) = stored.split_last_chunk::<TABLE_FOOTER>().ok_or_else(|| wrong("it is missing"))?;
    if number(footer, 5) != Some(SEEKABLE_MAGIC) {
        return Err(wrong("its magic number is missing"));
    }
    let count = number(footer, 0).unwrap_or_default() as usize;
    // The highest bit says that each entry has a checksum of its own; frames have theirs, which zstd checks.
    let width = match footer[4] {
        flags if flags & 0x7C != 0 => return Err(wrong("reserved bits are set")),
        flags if flags & 0x80 != 0 => 12,
        _ => 8,
    };
    let table = count.checked_mul(width).and_then(|entries| rest.len().checked_sub(entries));
    let (rest, entries) = rest.split_at(table.ok_or_else(|| wrong("it is longer than the data"))?);
    let (mut data, head) =
        rest.split_last_chunk::<TABLE_HEAD>().ok_or_else(|| wrong("it has no frame of its own"))?;
    if number(head, 0) != Some(SKIPPABLE_MAGIC)
        || number(head, 4).map(|size| size as usize) != Some(entries.len() + TABLE_FOOTER)
    {
        return Err(wrong("it is not one skippable frame"));
    }
    let mut frames: Vec<Frame<'_>> = Vec::with_capacity(count);
    let mut start = 0;
    for entry in entries.chunks_exact(width) {
        let (Some(packed), Some(content)) = (number(entry, 0), number(entry, 4)) else { continue };
        let (packed, content) = (packed as usize, content as usize);
        if content > LARGEST_FRAME {
            return Err(wrong("a frame holds more than 16 MiB"));
        }
        if frames.len() > 1
            && frames.last().map(|frame| frame.length) != frames.first().map(|frame| frame.length)
        {
            return Err(wrong("frames before the last differ in size"));
        }
        let (frame, rest) =
            data.split_at_checked(packed).ok_or_else(|| wrong("a frame is longer than the data"))?;
        frames.push(Frame { stored: frame, start, length: content });
        data = rest;
        start += content as u64;
    }
    if !data.is_empty() {
        return Err(wrong("it does not cover all data"));
    }
    if start != length {
        return Err(wrong(&format!("its frames hold {start} bytes, but the tensor has {length}")));
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<u8>, Vec<u8>) {
        let data: Vec<u8> = (0..FRAME * 2 + 1000).map(|byte| (byte / 7) as u8).collect();
        let stream = compress(&data, 1).unwrap();
        (data, stream)
    }

    #[test]
    fn what_was_compressed_comes_back_whole_and_in_parts() {
        let (data, stream) = sample();
        let mut out = vec![0; data.len()];
        decompress(&stream, &mut out).unwrap();
        assert!(out == data);
        for (start, length) in
            [(0, 10), (FRAME - 5, 10), (FRAME * 2 - 1, 1001), (5, FRAME * 2), (data.len(), 0)]
        {
            let mut out = vec![0; length];
            decompress_range(&stream, data.len() as u64, start as u64, &mut out).unwrap();
            assert!(out == data[start..start + length], "{length} bytes at {start}");
        }
        let mut none = [];
        decompress(&compress(&[], 1).unwrap(), &mut none).unwrap();
    }

    #[test]
    fn every_damaged_byte_of_the_table_is_noticed() {
        let (data, stream) = sample();
        let table = stream.len() - (TABLE_HEAD + 3 * 8 + TABLE_FOOTER);
        let mut out = vec![0; data.len()];
        for position in table..stream.len() {
            let mut damaged = stream.clone();
            damaged[position] ^= 0x44;
            assert!(decompress(&damaged, &mut out).is_err(), "byte {}", position - table);
        }
    }

    #[test]
    fn frames_keep_the_rules() {
        let build = |frames: &[(&[u8], u32)], checksum: bool| {
            let mut stream = Vec::new();
            let mut entries = Vec::new();
            for (content, announced) in frames {
                let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
                compressor.include_checksum(checksum).unwrap();
                let frame = compressor.compress(content).unwrap();
                entries.extend((frame.len() as u32).to_le_bytes());
                entries.extend(announced.to_le_bytes());
                stream.extend(frame);
            }
            stream.extend(SKIPPABLE_MAGIC.to_le_bytes());
            stream.extend((entries.len() as u32 + 9).to_le_bytes());
            stream.extend(entries);
            stream.extend((frames.len() as u32).to_le_bytes());
            stream.push(0);
            stream.extend(SEEKABLE_MAGIC.to_le_bytes());
            stream
        };
        let read = |stream: Vec<u8>, length: usize| decompress(&stream, &mut vec![0; length]);
        assert!(read(build(&[(b"ab", 2), (b"cd", 2), (b"e", 1)], true), 5).is_ok());
        assert!(read(build(&[(b"ab", 2)], false), 2).is_err());
        assert!(read(build(&[(b"ab", 2), (b"c", 1), (b"d", 1)], true), 4).is_err());
        assert!(read(build(&[(b"ab", 2), (b"cd", 2)], true), 5).is_err());
        assert!(read(build(&[(b"ab", 3)], true), 3).is_err());
        assert!(read(build(&[(b"ab", 1)], true), 1).is_err());
        let large = vec![0; LARGEST_FRAME + 1];
        assert!(read(build(&[(&large, large.len() as u32)], true), large.len()).is_err());
    }
}
