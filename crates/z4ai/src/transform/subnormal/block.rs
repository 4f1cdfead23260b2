//! The two directions of a block: a stream of symbols, then a bit stream with what symbols leave open.

use super::element::MEANINGS;
use super::model::{Signs, SubnormalModel, fill_symbols};
use crate::arch::{Kernel, VerbatimBits};
use crate::entropy::rans::{self, most_lanes_for};
use crate::entropy::table::SYMBOLS;
use crate::error::Result;
use crate::frame::wire::Reader;
use crate::transform::float::CHUNK;

/// Elements whose bits are read at once: a word holds them, wherever in a byte they begin.
const TOGETHER: usize = 4;

impl SubnormalModel {
    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) {
        let count = bytes.len() / 2;
        let (mut symbols, mut contexts) = (vec![0; count], vec![0; count]);
        let mut expected = [0; CHUNK];
        kernel.vectorised(
            #[inline(always)]
            || {
                fill_symbols(bytes, &mut symbols);
                for (index, contexts) in contexts.chunks_mut(CHUNK).enumerate() {
                    let expected = &mut expected[..contexts.len()];
                    self.contexts(start + index * CHUNK, expected);
                    contexts.iter_mut().zip(expected).for_each(|(to, &mut from)| *to = from as u8);
                }
            },
        );
        rans::encode_in(most_lanes_for(count), self.tables.encoder(), &symbols, &contexts, kernel, out);
        match self.signs {
            Signs::Verbatim => write_bits::<1>(bytes, &symbols, out),
            Signs::Positive | Signs::Negative => write_bits::<0>(bytes, &symbols, out),
        }
    }

    /// Decodes a block of whole elements, the first of which is element `start` of the section.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let tables = self.tables.decoder();
        let lanes = most_lanes_for(out.len() / 2);
        let mut stream = rans::Decoder::open_in(lanes, tables, reader, kernel)?;
        let mut restorer = Restorer::new(reader.peek(), self.signs);
        let (mut expected, mut offsets, mut symbols) = ([0i16; CHUNK], [0u16; CHUNK], [0u8; CHUNK]);
        for (index, chunk) in out.chunks_mut(2 * CHUNK).enumerate() {
            let count = chunk.len() / 2;
            kernel.vectorised(
                #[inline(always)]
                || {
                    self.contexts(start + index * CHUNK, &mut expected[..count]);
                    let contexts = offsets[..count].iter_mut().zip(&expected);
                    contexts.for_each(|(to, &from)| *to = (from as u16) << tables.precision());
                },
            );
            stream.decode(&offsets[..count], &mut symbols[..count])?;
            restorer.restore(&symbols[..count], kernel, chunk);
        }
        stream.finish()?;
        reader.take(restorer.verbatim.position.div_ceil(8))?;
        Ok(())
    }

    /// The planes of a block, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader) -> Result<Vec<(String, usize)>> {
        let start = reader.position();
        let length = reader.length()?;
        reader.take(length)?;
        let symbols = reader.position() - start;
        let parts = [("exponent", symbols), ("sign and mantissa", reader.remaining())];
        Ok(parts.map(|(name, length)| (name.to_owned(), length)).to_vec())
    }
}

/// Appends what the symbols of elements leave open: of each its sign, if `SIGNS` is 1, and above that its verbatim bits.
fn write_bits<const SIGNS: u32>(bytes: &[u8], symbols: &[u8], out: &mut Vec<u8>) {
    let (elements, _) = bytes.as_chunks::<2>();
    let (mut pending, mut count) = (0u64, 0);
    for (elements, symbols) in elements.chunks(TOGETHER).zip(symbols.chunks(TOGETHER)) {
        for (&element, &symbol) in elements.iter().zip(symbols) {
            let bits = u32::from(MEANINGS[usize::from(symbol)].bits);
            let element = u16::from_le_bytes(element);
            // The sign becomes the lowest bit.
            let field = element.rotate_left(SIGNS) & ((1 << (bits + SIGNS)) - 1);
            pending |= u64::from(field) << count;
            count += bits + SIGNS;
        }
        let whole = count / 8;
        out.extend_from_slice(&pending.to_le_bytes()[..whole as usize]);
        pending >>= 8 * whole;
        count %= 8;
    }
    if count > 0 {
        out.push(pending as u8);
    }
}

/// Reads what [`write_bits`] wrote, and makes the elements.
struct Restorer<'a> {
    verbatim: VerbatimBits<'a>,
    /// The magnitude of each symbol, with the sign if all have the same, and above it how many bits follow in the stream.
    table: [u32; SYMBOLS],
}

impl<'a> Restorer<'a> {
    fn new(bytes: &'a [u8], signs: Signs) -> Self {
        let (negative, signs) = (signs == Signs::Negative, signs == Signs::Verbatim);
        let sign = if negative { 0x8000 } else { 0 };
        let entry = |symbol: usize| {
            let meaning = MEANINGS[symbol];
            u32::from(meaning.magnitude | sign) | (u32::from(meaning.bits) + u32::from(signs)) << 16
        };
        let verbatim = VerbatimBits { bytes, position: 0, signs, negative };
        Self { verbatim, table: std::array::from_fn(entry) }
    }

    /// Makes the elements that have these symbols.
    fn restore(&mut self, symbols: &[u8], kernel: Kernel, out: &mut [u8]) {
        let done = kernel.restore_subnormals(symbols, &mut self.verbatim, out);
        let (symbols, out) = (&symbols[done..], &mut out[2 * done..]);
        kernel.vectorised(
            #[inline(always)]
            || match self.verbatim.signs {
                true => self.restore_rest::<1>(symbols, out),
                false => self.restore_rest::<0>(symbols, out),
            },
        );
    }

    #[inline(always)]
    fn restore_rest<const SIGNS: u32>(&mut self, symbols: &[u8], out: &mut [u8]) {
        let (elements, _) = out.as_chunks_mut::<2>();
        let (groups, rest) = elements.as_chunks_mut::<TOGETHER>();
        let (group_symbols, rest_symbols) = symbols.as_chunks::<TOGETHER>();
        for (elements, symbols) in groups.iter_mut().zip(group_symbols) {
            self.restore_group::<SIGNS>(symbols, elements);
        }
        self.restore_group::<SIGNS>(rest_symbols, rest);
    }

    #[inline(always)]
    fn restore_group<const SIGNS: u32>(&mut self, symbols: &[u8], elements: &mut [[u8; 2]]) {
        let mut word = self.word();
        for (element, &symbol) in elements.iter_mut().zip(symbols) {
            let entry = self.table[usize::from(symbol)];
            let bits = entry >> 16;
            let field = word as u16 & ((1u32 << bits) - 1) as u16;
            word >>= bits;
            self.verbatim.position += bits as usize;
            *element = (entry as u16 | field.rotate_right(SIGNS)).to_le_bytes();
        }
    }

    /// The next 57 bits at least, with zeros after the end.
    #[inline(always)]
    fn word(&self) -> u64 {
        let VerbatimBits { bytes, position, .. } = self.verbatim;
        let rest = bytes.get(position / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        word >> (position % 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::subnormal::element::symbol;
    use proptest::prelude::*;

    /// Elements of many magnitudes, with one sign or both.
    fn elements() -> impl Strategy<Value = Vec<u16>> {
        let element = (any::<u16>(), 0u32..16).prop_map(|(bits, shift)| bits >> shift);
        let mask = prop_oneof![Just((0xffff, 0)), Just((0x7fff, 0)), Just((0x7fff, 0x8000))];
        (prop::collection::vec((element, any::<bool>()), 0..700), mask).prop_map(|(elements, (and, or))| {
            let signed = |(element, sign): (u16, bool)| (element | u16::from(sign) << 15) & and | or;
            elements.into_iter().map(signed).collect()
        })
    }

    fn bytes_of(elements: &[u16]) -> Vec<u8> {
        elements.iter().flat_map(|element| element.to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn verbatim_bits_survive_in_pieces(elements in elements(), piece in 1usize..300, after in 0usize..100) {
            let bytes = bytes_of(&elements);
            let symbols: Vec<u8> = elements.iter().map(|&element| symbol(element)).collect();
            let negative = elements.iter().all(|element| element >> 15 == 1);
            let signs = match elements.iter().any(|element| element >> 15 == 1) {
                false => Signs::Positive,
                true if negative => Signs::Negative,
                true => Signs::Verbatim,
            };
            let mut out = Vec::new();
            match signs {
                Signs::Verbatim => write_bits::<1>(&bytes, &symbols, &mut out),
                _ => write_bits::<0>(&bytes, &symbols, &mut out),
            }
            let length = out.len();
            out.resize(length + after, 0xee);
            for kernel in Kernel::available() {
                let mut restorer = Restorer::new(&out, signs);
                let mut restored = vec![0xcc; bytes.len()];
                for (symbols, out) in symbols.chunks(piece).zip(restored.chunks_mut(2 * piece)) {
                    restorer.restore(symbols, kernel, out);
                }
                prop_assert_eq!(restorer.verbatim.position.div_ceil(8), length);
                prop_assert_eq!(&restored, &bytes);
            }
        }

        #[test]
        fn any_bytes_give_the_same_elements_with_every_kernel(
            symbols in prop::collection::vec(0u8..168, 0..400), bytes in prop::collection::vec(any::<u8>(), 0..500), signs in 0..3,
        ) {
            let signs = [Signs::Verbatim, Signs::Positive, Signs::Negative][signs as usize];
            let made: Vec<_> = Kernel::available().into_iter().map(|kernel| {
                let (mut restorer, mut out) = (Restorer::new(&bytes, signs), vec![0; 2 * symbols.len()]);
                restorer.restore(&symbols, kernel, &mut out);
                (restorer.verbatim.position, out)
            }).collect();
            prop_assert!(made.iter().all(|other| *other == made[0]));
        }
    }
}
