//! The fast coder for floats: exponents as nested bit planes, sign and mantissa as they are.
//!
//! A block is `code, stream lengths, tail of each chunk, deeper levels, spelled-out symbols, first level, planes of each
//! chunk, sixteen zero bytes`.
//! Everything about a block but its element count, geometry and shifts is in the block; the caller keeps those. Decoding
//! has no data-dependent branches except for the rare spelled-out symbols.

mod code;
mod geometry;
mod shifts;
mod streams;
mod tail;

pub(crate) use code::Code;
pub(crate) use geometry::Geometry;
pub(crate) use shifts::Shifts;
pub(crate) use streams::{
    BitWriter, CHUNK, Cursor, GROUP, Portable, Steps, decode as decode_symbols, histogram,
};
pub(crate) use tail::{Sign, Tail, Word, merge, store};

use crate::arch::Kernel;
use crate::error::{Error, Result};
use streams::LOOKAHEAD;

/// Append the nested form of `elements` (whole little-endian elements) to `out`.
pub(crate) fn encode(
    kernel: Kernel,
    elements: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    kernel.nested_encode(elements, geometry, shifts, out)
}

/// Decode a block into `out`, whose length says how many elements there are.
pub(crate) fn decode(
    kernel: Kernel,
    block: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut [u8],
) -> Result<()> {
    kernel.nested_decode(block, geometry, shifts, out)
}

/// The encoder, for one kernel.
#[inline(always)]
pub(crate) fn encode_with<K: Steps>(
    elements: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    match geometry.width {
        1 => encode_words::<K, u8>(elements, geometry, shifts, out),
        2 => encode_words::<K, u16>(elements, geometry, shifts, out),
        _ => encode_words::<K, u32>(elements, geometry, shifts, out),
    }
}

/// The decoder, for one kernel.
#[inline(always)]
pub(crate) fn decode_with<K: Steps>(
    block: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut [u8],
) -> Result<()> {
    match geometry.width {
        1 => decode_words::<K, u8>(block, geometry, shifts, out),
        2 => decode_words::<K, u16>(block, geometry, shifts, out),
        _ => decode_words::<K, u32>(block, geometry, shifts, out),
    }
}

/// The element count of a buffer, if it and the shifts agree.
fn element_count(bytes: usize, geometry: Geometry, shifts: &Shifts<'_>) -> Result<usize> {
    let count = bytes / geometry.width;
    if !bytes.is_multiple_of(geometry.width) || u32::try_from(bytes).is_err() {
        return Err(Error::corrupt("a nested block holds whole elements, less than 4 GiB of them"));
    }
    if !shifts.cover(count) {
        return Err(Error::corrupt("every row and column of a nested block has its shift"));
    }
    Ok(count)
}

#[inline(always)]
fn encode_words<K: Steps, T: Word>(
    elements: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = element_count(elements.len(), geometry, &shifts)?;
    let mut symbols = vec![0; count];
    let chunk_bytes = CHUNK * T::BYTES;
    let mut tails = Vec::with_capacity(count.div_ceil(CHUNK));
    // A loop rather than a closure, which would not be compiled for the kernel's instructions.
    for (elements, symbols) in elements.chunks(chunk_bytes).zip(symbols.chunks_mut(CHUNK)) {
        tails.push(tail::split::<T>(elements, geometry, symbols));
    }
    shifts.subtract(0, &mut symbols);
    let code = Code::design(&K::histogram(&symbols));
    let mut levels: Vec<BitWriter> =
        code.widths.iter().map(|&width| BitWriter::with_room_for(count * width as usize)).collect();
    let mut spelled = Vec::new();
    K::encode_symbols(&symbols, &code, &mut levels, &mut spelled);

    let mut levels = levels.into_iter().map(BitWriter::finish);
    let first = levels.next().unwrap_or_default();
    let deeper: Vec<Vec<u8>> = levels.collect();
    let spelled = code.spelled.then_some(spelled);
    code.write(out);
    for stream in deeper.iter().chain(&spelled) {
        out.extend_from_slice(&(stream.len() as u32).to_le_bytes());
    }
    out.extend(tails.iter().map(|tail| tail.to_byte()));
    for stream in deeper.iter().chain(&spelled).chain([&first]) {
        out.extend_from_slice(stream);
    }
    for (elements, &tail) in elements.chunks(chunk_bytes).zip(&tails) {
        K::store::<T>(elements, tail, out);
    }
    out.extend_from_slice(&[0; LOOKAHEAD]);
    Ok(())
}

#[inline(always)]
fn decode_words<K: Steps, T: Word>(
    block: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut [u8],
) -> Result<()> {
    let count = element_count(out.len(), geometry, &shifts)?;
    let Layout { code, tails, mut cursor, ends, mut planes } = Layout::read(block, geometry, count)?;
    let mut symbols = [0_u8; CHUNK];
    for (index, (out, tail)) in out.chunks_mut(CHUNK * T::BYTES).zip(tails).enumerate() {
        let count = out.len() / T::BYTES;
        let (chunk_planes, rest) = planes
            .split_at_checked(tail.stored_length(count))
            .ok_or_else(|| Error::corrupt("a nested block ends in a chunk"))?;
        K::decode_symbols(&mut cursor, &code, count, &mut symbols, [out, chunk_planes])?;
        let symbols = &mut symbols[..count];
        shifts.add(index * CHUNK, symbols);
        K::merge::<T>(symbols, tail, chunk_planes, out)?;
        planes = rest;
    }
    let reached = cursor.levels.iter().map(|bits| bits.div_ceil(8));
    if reached.chain([cursor.spelled]).eq(ends) {
        Ok(())
    } else {
        Err(Error::corrupt("a nested bit stream has another length"))
    }
}

/// A block taken apart: where everything in it starts and ends.
struct Layout<'a> {
    code: Code,
    /// What each chunk stores of sign and mantissa.
    tails: Vec<Tail>,
    cursor: Cursor<'a>,
    /// End of each level's stream, then of the spelled-out symbols.
    ends: Vec<usize>,
    /// The planes of all chunks.
    planes: &'a [u8],
}

impl<'a> Layout<'a> {
    /// Check that the declared lengths fill the block exactly.
    fn read(block: &'a [u8], geometry: Geometry, count: usize) -> Result<Self> {
        let short = || Error::corrupt("a nested block ends inside its header");
        let (code, mut rest) = Code::read(block)?;
        let mut lengths = Vec::with_capacity(code.widths.len() + 1);
        for _ in 0..code.widths.len().saturating_sub(1) + usize::from(code.spelled) {
            let (length, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            lengths.push(u32::from_le_bytes(*length) as usize);
            rest = after;
        }
        let (tails, rest) = rest.split_at_checked(count.div_ceil(CHUNK)).ok_or_else(short)?;
        let tails = tails.iter().map(|&byte| Tail::from_byte(byte, geometry)).collect::<Result<Vec<_>>>()?;
        let mut spans = Spans { next: block.len() - rest.len() };
        let mut deeper = lengths.into_iter().map(|length| spans.take(length)).collect::<Result<Vec<_>>>()?;
        let first_bits =
            code.widths.first().map_or(0, |&width| count.next_multiple_of(GROUP) * width as usize);
        let first = spans.take(first_bits / 8)?;
        let spelled = if code.spelled { deeper.pop().ok_or_else(short)? } else { (first.0, first.0) };
        let levels: Vec<(usize, usize)> = [first].into_iter().chain(deeper).take(code.widths.len()).collect();
        let chunk_lengths = tails.iter().enumerate().map(|(index, tail)| {
            tail.stored_length((count - index * CHUNK).min(CHUNK)) // `tails` has one entry per started chunk
        });
        let planes = spans.take(chunk_lengths.sum())?;
        if block.len().checked_sub(planes.1) != Some(LOOKAHEAD) {
            return Err(Error::corrupt("a nested block ends with its planes and sixteen bytes"));
        }
        let cursor = Cursor {
            block,
            levels: levels.iter().map(|&(start, _)| start * 8).collect(),
            spelled: spelled.0,
        };
        let ends = levels.into_iter().chain([spelled]).map(|(_, end)| end).collect();
        Ok(Self { code, tails, cursor, ends, planes: block.get(planes.0..planes.1).ok_or_else(short)? })
    }
}

/// Consecutive byte ranges of a block.
struct Spans {
    next: usize,
}

impl Spans {
    /// The next `length` bytes.
    fn take(&mut self, length: usize) -> Result<(usize, usize)> {
        let start = self.next;
        self.next = start
            .checked_add(length)
            .ok_or_else(|| Error::corrupt("the streams of a nested block are longer than the block"))?;
        Ok((start, self.next))
    }
}

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
