//! A block to a stream of symbols, and a bit stream with what symbols leave open.

use super::element::MEANINGS;
use super::model::{SubnormalModel, SubnormalSigns, fill_symbols};
use super::steps::ELEMENTS_TOGETHER;
use crate::arch;
use crate::entropy::rans::{self, most_lanes_for};
use crate::transform::float::FLOAT_CHUNK;

impl SubnormalModel {
    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub(super) fn encode_block(&self, bytes: &[u8], start: usize, out: &mut Vec<u8>) {
        let count = bytes.len() / 2;
        let (mut symbols, mut contexts) = (vec![0; count], vec![0; count]);
        let mut expected = [0; FLOAT_CHUNK];
        arch::vectorised(
            #[inline(always)]
            || {
                fill_symbols(bytes, &mut symbols);
                for (index, contexts) in contexts.chunks_mut(FLOAT_CHUNK).enumerate() {
                    let expected = &mut expected[..contexts.len()];
                    self.contexts.contexts(start + index * FLOAT_CHUNK, expected);
                    contexts.iter_mut().zip(expected).for_each(|(to, &mut from)| *to = from as u8);
                }
            },
        );
        rans::encode_in(most_lanes_for(count), self.contexts.tables.encoder(), &symbols, &contexts, out);
        match self.signs {
            SubnormalSigns::Verbatim => write_bits::<1>(bytes, &symbols, out),
            SubnormalSigns::Positive | SubnormalSigns::Negative => write_bits::<0>(bytes, &symbols, out),
        }
    }
}

/// Appends what the symbols of elements leave open: of each its sign, if `SIGNS` is 1, and above that its
/// verbatim bits.
pub(super) fn write_bits<const SIGNS: u32>(bytes: &[u8], symbols: &[u8], out: &mut Vec<u8>) {
    let (elements, _) = bytes.as_chunks::<2>();
    let (mut pending, mut count) = (0u64, 0);
    for (elements, symbols) in elements.chunks(ELEMENTS_TOGETHER).zip(symbols.chunks(ELEMENTS_TOGETHER)) {
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
