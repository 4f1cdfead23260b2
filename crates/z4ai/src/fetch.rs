//! A range of a frame that is not in memory: only the headers and the blocks that the range needs are fetched.

use crate::arch::memory;
use crate::decompress::decompress_range;
use crate::delta::decompress_delta_range_trusted_into;
use crate::error::{Error, Result};
use crate::frame::header::Header;
use crate::frame::section::Section;
use crate::frame::wire::Reader;
use std::ops::Range;

/// Bytes that are fetched where a header begins; few are longer.
const HEAD: usize = 1 << 14;

/// Restores bytes `range` of the data of a frame of `frame_length` bytes into `out`. `fetch` reads the frame's bytes from an offset on; it is asked for
/// headers and for the blocks that hold the range, and for nothing else.
///
/// ```
/// let data: Vec<u8> = (0..1_000_000u32).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
/// let frame = z4ai::compress(&data, &z4ai::Options::new(z4ai::Dtype::U32))?;
/// let (mut out, mut fetched) = ([0; 8], 0);
/// z4ai::decompress_range_from(frame.len() as u64, 4000..4008, &mut out, |offset, bytes: &mut [u8]| {
///     fetched += bytes.len();
///     bytes.copy_from_slice(&frame[offset as usize..][..bytes.len()]);
///     Ok::<(), z4ai::Error>(())
/// })?;
/// assert_eq!(out, data[4000..4008]);
/// assert!(fetched < frame.len() / 2);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn decompress_range_from<E: From<Error>>(
    frame_length: u64,
    range: Range<u64>,
    out: &mut [u8],
    fetch: impl FnMut(u64, &mut [u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let fetched = Frame::with_blocks_of(&range, frame_length, fetch)?;
    Ok(decompress_range(&fetched.frame.bytes, range, out)?)
}

/// Restores bytes `range` of the data of a delta of `frame_length` bytes into `out`. `fetch` reads the frame's bytes from an offset on, and `fetch_reference` those of its reference; of both no more is
/// asked for than the range needs. The reference's digest is not compared, since that would take all of it, but a reference that differs in what was fetched is noticed: every block has a checksum.
///
/// ```
/// let weight = |i: u32| 1.0 + i.wrapping_mul(2654435769) as f32;
/// let old: Vec<u8> = (0..1_000_000).flat_map(|i| weight(i).to_le_bytes()).collect();
/// let tuned = |i: u32| weight(i) * (1.0 + (i.wrapping_mul(i) % 1013) as f32 * 1e-5);
/// let new: Vec<u8> = (0..1_000_000).flat_map(|i| tuned(i).to_le_bytes()).collect();
/// let frame = z4ai::compress_delta(&new, &old, &z4ai::Options::new(z4ai::Dtype::F32))?;
/// let (mut out, mut fetched) = ([0; 8], 0);
/// z4ai::decompress_delta_range_from(
///     (frame.len() as u64, old.len() as u64),
///     4000..4008,
///     &mut out,
///     |offset, bytes: &mut [u8]| Ok::<(), z4ai::Error>(bytes.copy_from_slice(&frame[offset as usize..][..bytes.len()])),
///     |offset, bytes| {
///         fetched += bytes.len();
///         Ok(bytes.copy_from_slice(&old[offset as usize..][..bytes.len()]))
///     },
/// )?;
/// assert_eq!(out, new[4000..4008]);
/// assert!(fetched < old.len() / 4);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn decompress_delta_range_from<E: From<Error>>(
    (frame_length, reference_length): (u64, u64),
    range: Range<u64>,
    out: &mut [u8],
    fetch: impl FnMut(u64, &mut [u8]) -> std::result::Result<(), E>,
    mut fetch_reference: impl FnMut(u64, &mut [u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let Fetched { frame, header, decoded } = Frame::with_blocks_of(&range, frame_length, fetch)?;
    header.require_reference()?.check_length(reference_length)?;
    let mut reference = memory::zeroed(addressable(reference_length)?)?;
    for part in decoded {
        let end = part.end.min(reference_length);
        // Both fit an address, since there is memory for all of the reference.
        match reference.get_mut(part.start.min(end) as usize..end as usize) {
            Some([]) | None => {}
            Some(bytes) => fetch_reference(part.start, bytes)?,
        }
    }
    Ok(decompress_delta_range_trusted_into(&frame.bytes, &reference, range, out)?)
}

fn addressable(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::out_of_memory(usize::MAX))
}

/// The part of a section of `length` bytes, the first of which is byte `start` of the data, that lies in `range`.
fn inside(range: &Range<u64>, start: u64, length: usize) -> Range<usize> {
    let place = |end: u64| end.saturating_sub(start).min(length as u64) as usize;
    place(range.start)..place(range.end)
}

/// A frame as far as it has been fetched; elsewhere there are zeros.
struct Frame<F> {
    bytes: Vec<u8>,
    fetch: F,
}

/// A frame of which some blocks have been fetched.
struct Fetched<F> {
    frame: Frame<F>,
    header: Header,
    /// The bytes of the data that these blocks decode to, as far as a reference may take part in that.
    decoded: Vec<Range<u64>>,
}

/// What is to be fetched of a section whose header is there.
struct Wanted {
    /// Decoded bytes.
    length: u64,
    needed: Vec<Range<usize>>,
    /// The bytes of the section that the needed blocks decode to; none where there are copies, with which no reference takes part.
    decoded: Range<usize>,
    /// Where the next section begins.
    end: usize,
}

impl<E: From<Error>, F: FnMut(u64, &mut [u8]) -> std::result::Result<(), E>> Frame<F> {
    /// Fetches the headers and the blocks that a range of the data needs.
    fn with_blocks_of(range: &Range<u64>, frame_length: u64, fetch: F) -> std::result::Result<Fetched<F>, E> {
        let length = addressable(frame_length)?;
        // Memory that is not written to is not used either.
        let mut frame = Frame { bytes: memory::zeroed(length)?, fetch };
        let mut next = 0..length.min(HEAD);
        frame.fetch(next.clone())?;
        let mut reader = Reader::new(&frame.bytes, "sections");
        let header = Header::read(&mut reader)?;
        next.start = reader.position();
        let (mut start, mut decoded) = (0u64, Vec::new());
        while header.length.is_none_or(|declared| start < declared) {
            let left = header.length.map(|declared| declared - start);
            let Some(section) = frame.section(next, left, |length| inside(range, start, length))? else {
                break;
            };
            section.needed.into_iter().try_for_each(|part| frame.fetch(part))?;
            let place = |end: usize| start.saturating_add(end as u64);
            decoded.push(place(section.decoded.start)..place(section.decoded.end));
            start = start.saturating_add(section.length);
            next = section.end..section.end;
        }
        Ok(Fetched { frame, header, decoded })
    }

    fn fetch(&mut self, part: Range<usize>) -> std::result::Result<(), E> {
        match self.bytes.get_mut(part.clone()) {
            Some([]) => Ok(()),
            Some(bytes) => (self.fetch)(part.start as u64, bytes),
            None => Err(Error::truncated("sections").into()),
        }
    }

    /// The section that begins with `there`, which has been fetched; `None` if there is none. As long as its header cannot be read, more is fetched:
    /// a header that is not complete does not match its checksum.
    fn section(
        &mut self,
        mut there: Range<usize>,
        left: Option<u64>,
        range: impl Fn(usize) -> Range<usize>,
    ) -> std::result::Result<Option<Wanted>, E> {
        loop {
            let known = there.len();
            match self.read_section(there.clone(), left, &range) {
                Ok(wanted) if known > 0 => return Ok(wanted),
                Err(error) if there.end >= self.bytes.len() => return Err(error.into()),
                _ => {}
            }
            let end = there.start.saturating_add((2 * known).max(HEAD)).min(self.bytes.len());
            self.fetch(there.end..end)?;
            there.end = end;
        }
    }

    fn read_section(
        &self,
        there: Range<usize>,
        left: Option<u64>,
        range: impl Fn(usize) -> Range<usize>,
    ) -> Result<Option<Wanted>> {
        let mut reader = Reader::new(&self.bytes, "sections");
        reader.take(there.start)?;
        let Some(section) = Section::read(&mut reader, left)? else { return Ok(None) };
        let end = reader.position();
        let blocks = section.blocks.iter().map(|block| block.payload.len());
        // The header of a single block may not have a checksum: it belongs to the block.
        let mut block_end = if blocks.len() == 1 { there.start } else { end - blocks.clone().sum::<usize>() };
        let mut needed: Vec<Range<usize>> = Vec::new();
        let range = range(section.length);
        let mut decoded = 0..0;
        if section.copies.is_empty() && !range.is_empty() {
            let last = (range.end - 1) / section.block_length;
            decoded = range.start / section.block_length * section.block_length
                ..last * section.block_length + section.decoded_block_length(last);
        }
        for (length, is_needed) in blocks.zip(section.needed(range)) {
            let start = block_end.max(there.end);
            block_end = if section.blocks.len() == 1 { end } else { block_end + length };
            match needed.last_mut() {
                _ if !is_needed || start >= block_end => {}
                Some(last) if last.end == start => last.end = block_end,
                _ => needed.push(start..block_end),
            }
        }
        Ok(Some(Wanted { length: section.length as u64, needed, decoded, end }))
    }
}
