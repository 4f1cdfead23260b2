//! Symbols, escapes and planes back to floats, one block at a time.

use super::expected::{HeadFormat, HeadSign, RowLines, ScaleSplit};
use super::model::FloatModel;
use super::scale::Scales;
use super::signs::Signs;
use super::steps::{HeadChunk, Steps};
use super::tails::MAX_TAILS;
use super::{CENTRE, FLOAT_CHUNK, JOINT_BITS, low_bits};
use crate::arch::{self, dispatch};
use crate::entropy::plane;
use crate::entropy::rans::{self, LANES};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use std::cell::RefCell;

/// The temporaries of one chunk. The paddings keep arrays that are walked together from sharing the low bits
/// of their addresses, which CPUs take for a dependency of later loads on a store (4K aliasing). Each thread
/// has one: clearing them takes longer than decoding a small tensor.
struct Scratch {
    octaves: [i16; FLOAT_CHUNK + PADDING],
    offsets: [u16; FLOAT_CHUNK + 2 * PADDING],
    places: [u32; FLOAT_CHUNK / LANES],
    symbols: [u8; FLOAT_CHUNK + 2 * PADDING],
    fields: [u16; FLOAT_CHUNK + 3 * PADDING],
    heads: [u16; FLOAT_CHUNK],
    tails: [[u8; FLOAT_CHUNK]; MAX_TAILS],
    /// A bit per element.
    escaped: [u32; FLOAT_CHUNK / LANES],
}

const PADDING: usize = 128;

/// The longest rows whose lines are kept, so that the second-level cache holds them, and the fewest rows of a
/// block for which making lines pays. Round numbers.
const LONGEST_LINE: usize = 1 << 13;
const FEWEST_LINE_ROWS: usize = 16;

thread_local! {
    static DECODE_SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Box::new(Scratch {
        octaves: [0; FLOAT_CHUNK + PADDING],
        offsets: [0; FLOAT_CHUNK + 2 * PADDING],
        places: [0; FLOAT_CHUNK / LANES],
        symbols: [0; FLOAT_CHUNK + 2 * PADDING],
        fields: [0; FLOAT_CHUNK + 3 * PADDING],
        heads: [0; FLOAT_CHUNK],
        tails: [[0; FLOAT_CHUNK]; MAX_TAILS],
        escaped: [0; FLOAT_CHUNK / LANES],
    }));
}

impl FloatModel {
    /// Decodes a block into `out`, whole elements of which the first is element `start` of the section.
    pub(super) fn decode_block(&self, reader: &mut Reader, start: usize, out: &mut [u8]) -> Result<()> {
        DECODE_SCRATCH.with_borrow_mut(|scratch| self.decode_chunks(reader, start, scratch, out))?;
        self.signs.decode(self.layout, reader, out)
    }

    fn decode_chunks(
        &self,
        reader: &mut Reader,
        start: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<()> {
        let width = self.layout.width;
        let count = out.len() / width;
        let (lanes, row_lines) = (self.lanes(count), self.row_lines(count));
        let mut symbols = rans::SymbolDecoder::open_in(lanes, self.tables.decoder(), reader)?;
        let escape_bytes = reader.length()?;
        if escape_bytes > count * self.escape_bytes() {
            return Err(Error::corrupt("a block has more escapes than elements"));
        }
        let escapes = plane::read_bytes(reader, escape_bytes)?;
        let mut escapes = escapes.as_slice();
        let bits = self.low_bits();
        let mut low = reader.take(low_bits::packed_len(count, bits))?;
        let mut tails = self.tails.decoder(reader, start, count)?;
        for (index, chunk) in out.chunks_mut(FLOAT_CHUNK * width).enumerate() {
            let elements = chunk.len() / width;
            let (packed, rest) = low.split_at(low_bits::packed_len(elements, bits).min(low.len()));
            low = rest;
            let mut decoder = HeadChunk {
                model: self,
                symbols: &mut symbols,
                start: start + index * FLOAT_CHUNK,
                packed,
                octaves: &mut scratch.octaves[..elements],
                offsets: &mut scratch.offsets[..elements],
                places: &mut scratch.places,
                row_lines,
                found: &mut scratch.symbols[..elements],
                fields: &mut scratch.fields[..elements],
                escaped: &mut scratch.escaped[..elements.div_ceil(LANES)],
            };
            // Two-byte elements are their heads; on most machines these can be put together in place.
            if width == 2
                && cfg!(target_endian = "little")
                && let Ok(heads) = bytemuck::try_cast_slice_mut(chunk)
            {
                self.decode_heads(&mut decoder, &mut escapes, heads)?;
                continue;
            }
            self.decode_heads(&mut decoder, &mut escapes, &mut scratch.heads[..elements])?;
            let planes = tails.next(elements, &mut scratch.tails)?;
            let heads = &scratch.heads[..elements];
            arch::vectorised(
                #[inline(always)]
                || interleave(width, heads, &planes, chunk),
            );
        }
        if !escapes.is_empty() {
            return Err(Error::corrupt("a block has more escapes than escape symbols"));
        }
        symbols.finish()?;
        tails.finish()
    }

    /// Decodes the heads of a chunk.
    fn decode_heads(&self, chunk: &mut HeadChunk, escapes: &mut &[u8], heads: &mut [u16]) -> Result<()> {
        dispatch!(kernel => kernel.decode_heads(chunk, heads))?;
        self.place_escapes(chunk.escaped, escapes, heads)
    }

    pub(super) fn split(&self) -> ScaleSplit {
        ScaleSplit::new(CENTRE as i16, self.tables.decoder())
    }

    /// The lines that all rows have in common, where there are columns and so many rows in a block of `count`
    /// elements that the lines are soon made.
    fn row_lines(&self, count: usize) -> Option<&RowLines> {
        let Scales { row_length, columns, .. } = &self.scales;
        let usable = !columns.is_empty()
            && row_length.is_multiple_of(LANES)
            && *row_length <= LONGEST_LINE
            && count / FEWEST_LINE_ROWS >= *row_length;
        usable.then(|| self.row_lines.get_or_init(|| RowLines::new(self.split(), columns)))
    }

    pub(super) fn head_format(&self) -> HeadFormat {
        let sign = match self.signs {
            Signs::Verbatim => HeadSign::Stored,
            Signs::Constant(negative) => HeadSign::Constant(negative),
            // They are put in their places later.
            Signs::Coded(_) => HeadSign::Constant(false),
        };
        HeadFormat { low_mantissa: self.layout.head_mantissa_bits() - JOINT_BITS, sign }
    }

    /// Replaces the exponents that were escaped, for which the symbols gave garbage; `escaped` has a bit for
    /// each head.
    fn place_escapes(&self, escaped: &[u32], escapes: &mut &[u8], heads: &mut [u16]) -> Result<()> {
        /// Groups that are looked at together.
        const GROUPS_TOGETHER: usize = 16;
        // Most stretches have none.
        let stretches = escaped.chunks(GROUPS_TOGETHER).zip(heads.chunks_mut(GROUPS_TOGETHER * LANES));
        let some = stretches.filter(|(escaped, _)| escaped.iter().fold(0, |all, bits| all | bits) != 0);
        let groups = some.flat_map(|(escaped, heads)| escaped.iter().zip(heads.chunks_mut(LANES)));
        for (&escaped, heads) in groups {
            let mut rest = escaped;
            while let Some(head) = heads.get_mut(rest.trailing_zeros() as usize) {
                *head = self.place_escape(*head, escapes)?;
                rest &= rest - 1;
            }
        }
        Ok(())
    }

    /// `head` with the next of `escapes` as its exponent.
    fn place_escape(&self, head: u16, escapes: &mut &[u8]) -> Result<u16> {
        let mantissa_bits = self.layout.head_mantissa_bits();
        let exponent_mask = (1u16 << self.layout.exponent_bits) - 1;
        let (escape, rest) = escapes
            .split_at_checked(self.escape_bytes())
            .ok_or_else(|| Error::corrupt("a block has fewer escapes than escape symbols"))?;
        *escapes = rest;
        let exponent = escape.iter().rev().fold(0u16, |value, &byte| value << 8 | u16::from(byte));
        Ok(head & !(exponent_mask << mantissa_bits) | (exponent & exponent_mask) << mantissa_bits)
    }
}

/// Writes whole elements from their heads and tail planes.
#[inline(always)]
pub(crate) fn interleave(width: usize, heads: &[u16], planes: &[&[u8]; MAX_TAILS], out: &mut [u8]) {
    match width {
        2 => {
            for (element, head) in out.chunks_exact_mut(2).zip(heads) {
                element.copy_from_slice(&head.to_le_bytes());
            }
        }
        4 => {
            let tails = planes[0].iter().zip(planes[1]);
            for ((element, head), (&first, &second)) in out.chunks_exact_mut(4).zip(heads).zip(tails) {
                let value = u32::from(*head) << 16 | u32::from(second) << 8 | u32::from(first);
                element.copy_from_slice(&value.to_le_bytes());
            }
        }
        _ => {
            for (index, (element, head)) in out.chunks_exact_mut(8).zip(heads).enumerate() {
                let tail = planes.iter().rev().fold(0u64, |value, plane| {
                    value << 8 | u64::from(plane.get(index).copied().unwrap_or(0))
                });
                element.copy_from_slice(&(u64::from(*head) << 48 | tail).to_le_bytes());
            }
        }
    }
}
