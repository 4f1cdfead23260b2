//! Symbols, escapes and planes back to floats, one block at a time.

use super::model::FloatModel;
use super::scale::Scales;
use super::signs::Signs;
use super::tails::MAX_TAILS;
use super::{CENTRE, CHUNK, ESCAPE_STRETCH, JOINT_BITS, low_bits};
use crate::arch::{HeadFormat, HeadInputs, Kernel, Lines, RowLines, Sign, Split};
use crate::entropy::plane;
use crate::entropy::rans::{self, LANES};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use std::cell::RefCell;

/// The temporaries of one chunk. The paddings keep arrays that are walked together from sharing the low bits of their addresses, which CPUs take for
/// a dependency between a store and the loads behind it. Each thread has one: clearing them takes longer than decoding a small tensor.
struct Scratch {
    octaves: [i16; CHUNK + PADDING],
    offsets: [u16; CHUNK + 2 * PADDING],
    places: [u32; CHUNK / LANES],
    symbols: [u8; CHUNK + 2 * PADDING],
    fields: [u16; CHUNK + 3 * PADDING],
    heads: [u16; CHUNK],
    tails: [[u8; CHUNK]; MAX_TAILS],
    /// A bit per element.
    escaped: [u32; CHUNK / LANES],
}

const PADDING: usize = 128;

/// The longest rows whose lines are kept, so that the second-level cache holds them, and the fewest rows of a block.
const LONGEST_LINE: usize = 1 << 13;
const FEWEST_ROWS: usize = 16;

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Box::new(Scratch {
        octaves: [0; CHUNK + PADDING],
        offsets: [0; CHUNK + 2 * PADDING],
        places: [0; CHUNK / LANES],
        symbols: [0; CHUNK + 2 * PADDING],
        fields: [0; CHUNK + 3 * PADDING],
        heads: [0; CHUNK],
        tails: [[0; CHUNK]; MAX_TAILS],
        escaped: [0; CHUNK / LANES],
    }));
}

/// What the heads of a chunk are decoded from, and what that goes through: slices with one value per element.
struct HeadDecoder<'s, 'a> {
    symbols: &'s mut rans::Decoder<'a>,
    kernel: Kernel,
    /// The chunk's first element, in the section.
    start: usize,
    /// The verbatim bits.
    packed: &'s [u8],
    octaves: &'s mut [i16],
    /// Where the slots of each symbol's context begin.
    offsets: &'s mut [u16],
    /// Where the groups of elements are in the lines of rows.
    places: &'s mut [u32],
    row_lines: Option<&'s RowLines>,
    found: &'s mut [u8],
    fields: &'s mut [u16],
    /// A bit per element.
    escaped: &'s mut [u32],
}

impl FloatModel {
    /// Decodes a block into `out`, whole elements of which the first is element `start` of the section.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        SCRATCH.with_borrow_mut(|scratch| self.decode_chunks(reader, start, kernel, scratch, out))?;
        self.signs.decode(self.layout, reader, &self.scales, start, kernel, out)
    }

    fn decode_chunks(
        &self,
        reader: &mut Reader,
        start: usize,
        kernel: Kernel,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<()> {
        let width = self.layout.width;
        let count = out.len() / width;
        let (lanes, row_lines) = (self.lanes(count), self.row_lines(count));
        let mut symbols = rans::Decoder::open_in(lanes, self.tables.decoder(), reader, kernel)?;
        let escape_bytes = reader.length()?;
        if escape_bytes > count * self.escape_bytes() {
            return Err(Error::corrupt("a block has more escapes than elements"));
        }
        let escapes = plane::read_bytes(reader, escape_bytes, kernel)?;
        let mut escapes = escapes.as_slice();
        let bits = self.low_bits();
        let mut low = reader.take(low_bits::packed_len(count, bits))?;
        let mut tails = self.tails.decoder(reader, start, count, kernel)?;
        for (index, chunk) in out.chunks_mut(CHUNK * width).enumerate() {
            let elements = chunk.len() / width;
            let (packed, rest) = low.split_at(low_bits::packed_len(elements, bits).min(low.len()));
            low = rest;
            let mut decoder = HeadDecoder {
                symbols: &mut symbols,
                kernel,
                start: start + index * CHUNK,
                packed,
                octaves: &mut scratch.octaves[..elements],
                offsets: &mut scratch.offsets[..elements],
                places: &mut scratch.places,
                row_lines,
                found: &mut scratch.symbols[..elements],
                fields: &mut scratch.fields[..elements],
                escaped: &mut scratch.escaped[..elements / LANES],
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
            kernel.vectorised(
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

    /// Decodes the heads of a chunk: all at once where the kernel can, else step by step.
    fn decode_heads(&self, decoder: &mut HeadDecoder, escapes: &mut &[u8], heads: &mut [u16]) -> Result<()> {
        let HeadDecoder { symbols, kernel, start, packed, octaves, offsets, places, row_lines, .. } = decoder;
        let (kernel, start) = (*kernel, *start);
        let split = self.split();
        let groups = heads.len() / LANES;
        let in_rows = self.scales.is_even(start, LANES);
        let scales = || self.scales.segments(start, groups, LANES);
        let expected = match row_lines {
            Some(lines) if in_rows => lines.expected(scales(), &mut octaves[..groups], &mut places[..groups]),
            None if in_rows && self.scales.columns.is_empty() => {
                split.same(scales(), &mut octaves[..groups], offsets)
            }
            _ => split.each(self.lines(split, kernel, start, octaves, offsets)),
        };
        let inputs = HeadInputs { format: self.head_format(), expected, packed };
        if symbols.decode_heads(inputs, decoder.escaped, heads)? {
            return self.place_escapes(decoder.escaped, escapes, heads);
        }
        let lines = self.lines(split, kernel, start, octaves, offsets);
        symbols.decode(lines.offsets(), decoder.found)?;
        kernel.vectorised(
            #[inline(always)]
            || {
                low_bits::unpack(packed, self.low_bits(), decoder.fields);
                self.assemble(decoder.found, decoder.fields, lines.octaves(), heads);
                self.place_escapes_of(decoder.found, escapes, heads)
            },
        )
    }

    fn split(&self) -> Split {
        Split::new(CENTRE as i16, self.tables.decoder())
    }

    /// What is expected of each element from `start` on.
    fn lines<'s>(
        &self,
        split: Split,
        kernel: Kernel,
        start: usize,
        octaves: &'s mut [i16],
        offsets: &'s mut [u16],
    ) -> Lines<'s> {
        kernel.vectorised(
            #[inline(always)]
            || split.lines(self.scales.segments(start, octaves.len(), 1), octaves, offsets),
        )
    }

    /// The lines that all rows have in common, where there are columns and so many rows in a block of `count` elements that the lines are soon made.
    fn row_lines(&self, count: usize) -> Option<&RowLines> {
        let Scales { row_length, columns, .. } = &self.scales;
        let usable = !columns.is_empty()
            && row_length.is_multiple_of(LANES)
            && *row_length <= LONGEST_LINE
            && count / FEWEST_ROWS >= *row_length;
        usable.then(|| self.row_lines.get_or_init(|| RowLines::new(self.split(), columns)))
    }

    fn head_format(&self) -> HeadFormat {
        let sign = match self.signs {
            Signs::Verbatim => Sign::Stored,
            Signs::Constant(negative) => Sign::Constant(negative),
            // They are put in their places later.
            Signs::Skewed(_) | Signs::Context(_) => Sign::Constant(false),
        };
        HeadFormat { low_mantissa: self.layout.head_mantissa_bits() - JOINT_BITS, sign }
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let start = reader.position();
        let length = reader.length()?;
        reader.take(length)?;
        let escape_bytes = reader.length()?;
        plane::skip_bytes(reader, escape_bytes)?;
        let mut parts = vec![("exponent".to_owned(), reader.position() - start)];
        let low = low_bits::packed_len(elements, self.low_bits());
        reader.take(low)?;
        parts.push(("sign and mantissa".to_owned(), low));
        parts.extend(self.tails.parts(reader, elements)?);
        if self.signs.are_apart() {
            parts.push(("sign".to_owned(), reader.remaining()));
        }
        Ok(parts)
    }

    /// Heads from symbols, fields and octaves.
    #[inline(always)]
    fn assemble(&self, symbols: &[u8], fields: &[u16], octaves: &[i16], heads: &mut [u16]) {
        let low_mantissa = self.layout.head_mantissa_bits() - JOINT_BITS;
        let mantissa_mask = (1u16 << low_mantissa) - 1;
        let sign = if let Signs::Constant(true) = self.signs { 0x8000 } else { 0 };
        for (head, ((&symbol, &field), &octave)) in
            heads.iter_mut().zip(symbols.iter().zip(fields).zip(octaves))
        {
            let top = u16::from(symbol).wrapping_add(octave as u16) << low_mantissa & 0x7fff;
            *head = (field & !mantissa_mask) << (15 - low_mantissa) | sign | top | field & mantissa_mask;
        }
    }

    /// Replaces the exponents that were escaped, for which the symbols gave garbage; `escaped` has a bit for each head.
    fn place_escapes(&self, escaped: &[u32], escapes: &mut &[u8], heads: &mut [u16]) -> Result<()> {
        /// Groups that are looked at together.
        const STRETCH: usize = 16;
        // Most stretches have none.
        let stretches = escaped.chunks(STRETCH).zip(heads.chunks_mut(STRETCH * LANES));
        let some = stretches.filter(|(escaped, _)| escaped.iter().fold(0, |all, bits| all | bits) != 0);
        let groups = some.flat_map(|(escaped, heads)| escaped.iter().zip(heads.chunks_exact_mut(LANES)));
        for (&escaped, heads) in groups {
            let mut rest = escaped;
            while let Some(head) = heads.get_mut(rest.trailing_zeros() as usize) {
                *head = self.place_escape(*head, escapes)?;
                rest &= rest - 1;
            }
        }
        Ok(())
    }

    /// The same for heads that `symbols` were decoded for.
    #[inline(always)]
    fn place_escapes_of(&self, symbols: &[u8], escapes: &mut &[u8], heads: &mut [u16]) -> Result<()> {
        for (heads, symbols) in heads.chunks_mut(ESCAPE_STRETCH).zip(symbols.chunks(ESCAPE_STRETCH)) {
            let symbols = &symbols[..heads.len()];
            if symbols.iter().fold(u8::MAX, |least, &symbol| least.min(symbol)) >> JOINT_BITS != 0 {
                continue;
            }
            for (_, head) in symbols.iter().zip(heads).filter(|(symbol, _)| *symbol >> JOINT_BITS == 0) {
                *head = self.place_escape(*head, escapes)?;
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
pub(super) fn interleave(width: usize, heads: &[u16], planes: &[&[u8]; MAX_TAILS], out: &mut [u8]) {
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
