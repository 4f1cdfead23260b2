//! Floats against a reference with AVX-512: differences 64 elements at a time, and two blocks of two-byte
//! elements restored in turn.

mod differences;
mod raw_bits;
mod restore;

use super::Avx512;
use crate::entropy::rans::LANES;
use crate::error::Result;
use crate::transform::reference::{
    ChunkScratch, CodedBlock, EXPONENT_NUMBERS, RAW_LANES, RawDifferences, RawLanes, RawReader, RawWords,
    Steps, View, Word,
};

impl Steps for Avx512 {
    fn differences<W: Word>(
        self,
        view: View,
        current: &[u8],
        base: &[u8],
        chunk: &mut ChunkScratch<W>,
    ) -> u32 {
        let ChunkScratch { differences, symbols, exponents, .. } = chunk;
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        let (done, bits) = unsafe {
            differences::differences(view.movement(), current, base, differences, symbols, exponents)
        };
        bits + chunk.transform_from(done, current, base, view)
    }

    fn write_raw_bits<W: Word>(self, raw: RawDifferences<W>, state: &mut RawLanes, words: &mut RawWords) {
        if raw.lanes != RAW_LANES || !matches!(W::BYTES, 2 | 4) {
            return raw.write(state, words);
        }
        let (pieces, last) = raw.split();
        last.write(state, words);
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { raw_bits::write(pieces.alphabet, pieces.symbols, pieces.differences, state, words) };
    }

    fn read_differences<W: Word>(self, raw: &mut RawReader, symbols: &[u8], differences: &mut [W]) {
        self.0.read_differences(raw, symbols, differences);
    }

    fn contexts(self, row: &[u8; EXPONENT_NUMBERS], numbers: &[u8], contexts: &mut [u8]) {
        self.0.contexts(row, numbers, contexts);
    }

    fn restore_decayed<W: Word>(self, view: View, base: &[u8], out: &mut [u8]) {
        self.0.restore_decayed::<W>(view, base, out);
    }

    fn restore<W: Word>(self, block: &mut CodedBlock, base: &[u8], out: &mut [u8]) -> Result<()> {
        self.0.restore::<W>(block, base, out)
    }

    /// Of wider elements two blocks do not fit the nearest caches, and most of the work is with raw bits.
    fn has_fast_pairs(self, width: usize) -> bool {
        width == 2
    }

    fn restore_pair<W: Word>(
        self,
        blocks: &mut [CodedBlock; 2],
        bases: [&[u8]; 2],
        [out, second_out]: [&mut [u8]; 2],
    ) -> Result<()> {
        let in_lanes = |block: &CodedBlock| block.stream.as_ref().is_some_and(|stream| stream.lanes == LANES);
        if self.has_fast_pairs(W::BYTES) && blocks.iter().all(in_lanes) {
            // SAFETY: an `Avx512` exists only where the CPU has these instructions.
            unsafe { restore::restore_two(blocks, bases, [&mut *out, &mut *second_out]) };
        }
        // The longer one has some left, and both where their words are about to end.
        let [first, second] = blocks;
        self.restore::<W>(first, bases[0], out)?;
        self.restore::<W>(second, bases[1], second_out)
    }
}
