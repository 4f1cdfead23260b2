//! Nested streams and planes to floats.

use super::code::Code;
use super::element_count;
use super::geometry::FloatFields;
use super::model::NestedModel;
use super::shifts::Shifts;
use super::steps::Steps;
use super::streams::{Cursor, LOOKAHEAD, NESTED_CHUNK, NESTED_GROUP};
use super::tail::{Tail, TailWord};
use crate::arch::{Instructions, dispatch};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

impl NestedModel {
    /// Decodes a block.
    pub(super) fn decode_block(&self, reader: &mut Reader, start: usize, out: &mut [u8]) -> Result<()> {
        let length = reader.length()?;
        decode(reader.take(length)?, self.geometry, self.shifts(start), out)
    }
}

/// Decodes a block into `out`, whose length says how many elements there are.
pub(super) fn decode(block: &[u8], geometry: FloatFields, shifts: Shifts<'_>, out: &mut [u8]) -> Result<()> {
    dispatch!(kernel => kernel.vectorised(
        #[inline(always)]
        || decode_with(kernel, block, geometry, shifts, out),
    ))
}

#[inline(always)]
fn decode_with<K: Steps>(
    kernel: K,
    block: &[u8],
    geometry: FloatFields,
    shifts: Shifts<'_>,
    out: &mut [u8],
) -> Result<()> {
    match geometry.width {
        1 => decode_words::<K, u8>(kernel, block, geometry, shifts, out),
        2 => decode_words::<K, u16>(kernel, block, geometry, shifts, out),
        _ => decode_words::<K, u32>(kernel, block, geometry, shifts, out),
    }
}

#[inline(always)]
fn decode_words<K: Steps, T: TailWord>(
    kernel: K,
    block: &[u8],
    geometry: FloatFields,
    shifts: Shifts<'_>,
    out: &mut [u8],
) -> Result<()> {
    let count = element_count(out.len(), geometry, &shifts)?;
    let NestedLayout { code, tails, mut cursor, ends, mut planes } =
        NestedLayout::read(block, geometry, count)?;
    let mut symbols = [0_u8; NESTED_CHUNK];
    for (index, (out, tail)) in out.chunks_mut(NESTED_CHUNK * T::BYTES).zip(tails).enumerate() {
        let count = out.len() / T::BYTES;
        let (chunk_planes, rest) = planes
            .split_at_checked(tail.stored_length(count))
            .ok_or_else(|| Error::corrupt("a nested block ends in a chunk"))?;
        kernel.decode_nested(&mut cursor, &code, count, &mut symbols, [out, chunk_planes])?;
        let symbols = &mut symbols[..count];
        shifts.add(index * NESTED_CHUNK, symbols);
        kernel.merge_tail::<T>(symbols, tail, chunk_planes, out)?;
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
struct NestedLayout<'a> {
    code: Code,
    /// What each chunk stores of sign and mantissa.
    tails: Vec<Tail>,
    cursor: Cursor<'a>,
    /// End of each level's stream, then of the spelled-out symbols.
    ends: Vec<usize>,
    /// The planes of all chunks.
    planes: &'a [u8],
}

impl<'a> NestedLayout<'a> {
    /// Checks that the declared lengths fill the block exactly.
    fn read(block: &'a [u8], geometry: FloatFields, count: usize) -> Result<Self> {
        let short = || Error::corrupt("a nested block ends inside its header");
        let (code, mut rest) = Code::read(block)?;
        let mut lengths = Vec::with_capacity(code.widths.len() + 1);
        for _ in 0..code.widths.len().saturating_sub(1) + usize::from(code.spelled) {
            let (length, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            lengths.push(u32::from_le_bytes(*length) as usize);
            rest = after;
        }
        let (tails, rest) = rest.split_at_checked(count.div_ceil(NESTED_CHUNK)).ok_or_else(short)?;
        let tails = tails.iter().map(|&byte| Tail::from_byte(byte, geometry)).collect::<Result<Vec<_>>>()?;
        let mut spans = Spans { next: block.len() - rest.len() };
        let mut deeper = lengths.into_iter().map(|length| spans.take(length)).collect::<Result<Vec<_>>>()?;
        let first_bits =
            code.widths.first().map_or(0, |&width| count.next_multiple_of(NESTED_GROUP) * width as usize);
        let first = spans.take(first_bits / 8)?;
        let spelled = if code.spelled { deeper.pop().ok_or_else(short)? } else { (first.0, first.0) };
        let levels: Vec<(usize, usize)> = [first].into_iter().chain(deeper).take(code.widths.len()).collect();
        let chunk_lengths = tails.iter().enumerate().map(|(index, tail)| {
            tail.stored_length((count - index * NESTED_CHUNK).min(NESTED_CHUNK)) // `tails` has one entry per started chunk
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
