//! Floats against a reference with AVX2: 32 elements at a time.

pub(in crate::arch) mod differences;
mod look_up;
mod raw_bits;
pub(in crate::arch) mod restore;
mod symbols;

use super::Avx2;
use crate::entropy::rans::LANES;
use crate::error::{Error, Result};
use crate::transform::reference::{
    self, Alphabet, ChunkScratch, CodedBlock, EXPONENT_NUMBERS, RawDifferences, RawLanes, RawReader,
    RawWords, Steps, View, Word,
};

/// The loop that restores reads no further than this from the words that it needs.
const RESTORE_MARGIN: usize = 4 * LANES;

impl Steps for Avx2 {
    fn differences<W: Word>(
        self,
        view: View,
        current: &[u8],
        base: &[u8],
        chunk: &mut ChunkScratch<W>,
    ) -> u32 {
        let ChunkScratch { differences, symbols, exponents, .. } = chunk;
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        let (done, bits) = unsafe {
            differences::differences(view.movement(), current, base, differences, symbols, exponents)
        };
        bits + chunk.transform_from(done, current, base, view)
    }

    fn write_raw_bits<W: Word>(self, raw: RawDifferences<W>, state: &mut RawLanes, words: &mut RawWords) {
        if raw.lanes == 1 || !has_raw_loop::<W>() {
            return raw.write(state, words);
        }
        let (pieces, last) = raw.split();
        last.write(state, words);
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        unsafe { raw_bits::write(pieces.alphabet, pieces.symbols, pieces.differences, state, words) };
    }

    fn read_differences<W: Word>(self, raw: &mut RawReader, symbols: &[u8], differences: &mut [W]) {
        let (alphabet, mut done) = (Alphabet::of_width(W::BYTES), 0);
        while done < symbols.len() {
            // SAFETY: an `Avx2` exists only where the CPU has these instructions.
            done += unsafe { raw_bits::read(alphabet, &symbols[done..], raw, &mut differences[done..]) };
            // It stops where raw bits are in one lane, or about to end.
            done = raw.read_piece(done, symbols, differences);
        }
    }

    fn contexts(self, row: &[u8; EXPONENT_NUMBERS], numbers: &[u8], contexts: &mut [u8]) {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        let done = unsafe { look_up::look_up(row, numbers, contexts) };
        reference::contexts_from(done, row, numbers, contexts);
    }

    fn restore_decayed<W: Word>(self, view: View, base: &[u8], out: &mut [u8]) {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        let done = unsafe { restore::decay::<W>(view.movement(), base, out) };
        reference::apply(
            self,
            &[W::default(); reference::REFERENCE_CHUNK],
            &base[done..],
            view,
            &mut out[done..],
        );
    }

    fn restore<W: Word>(self, block: &mut CodedBlock, base: &[u8], out: &mut [u8]) -> Result<()> {
        self.restore_groups::<W>(block, base, out)?;
        reference::restore::<W, Self>(self, block, base, out)
    }
}

impl Avx2 {
    /// Makes as many elements as there are whole groups of, in streams of [`LANES`].
    fn restore_groups<W: Word>(self, block: &mut CodedBlock, base: &[u8], out: &mut [u8]) -> Result<()> {
        if block.stream.as_ref().is_none_or(|stream| stream.lanes != LANES) {
            return Ok(());
        }
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        let bytes = unsafe { restore::restore::<W>(block, None, base, out) };
        let Some(stream) = &mut block.stream else { return Ok(()) };
        stream.skip_words(bytes);
        if stream.words.len() > RESTORE_MARGIN {
            return Ok(());
        }
        let (mut padded, left) = ([0; 2 * RESTORE_MARGIN], stream.words.len());
        padded.iter_mut().zip(stream.words).for_each(|(padded, word)| *padded = *word);
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        let bytes =
            unsafe { restore::restore::<W>(block, Some(&padded[..left + RESTORE_MARGIN]), base, out) };
        if bytes > left {
            return Err(Error::truncated("entropy-coded stream"));
        }
        block.stream.iter_mut().for_each(|stream| stream.skip_words(bytes));
        Ok(())
    }
}

/// Whether elements of this width have a loop for raw bits.
fn has_raw_loop<W: Word>() -> bool {
    matches!(W::BYTES, 2 | 4)
}
