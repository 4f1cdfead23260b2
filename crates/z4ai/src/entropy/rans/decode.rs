//! The decoder's side of a stream.

use super::{DecoderTables, LANES, MOST_LANES, STATE_END, STATE_MIN, lanes_for};
use crate::arch::{HeadCall, HeadInputs, Kernel, Restoration, RestoredBlock};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::reference::{RawReader, Word};

/// Decodes one stream, piece by piece.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    tables: &'a DecoderTables,
    states: [u32; MOST_LANES],
    lanes: usize,
    words: &'a [u8],
    kernel: Kernel,
}

impl<'a> Decoder<'a> {
    /// Opens the stream of `count` symbols at the reader's position.
    pub fn open<'f: 'a>(
        tables: &'a DecoderTables,
        reader: &mut Reader<'f>,
        count: usize,
        kernel: Kernel,
    ) -> Result<Self> {
        Self::open_in(lanes_for(count), tables, reader, kernel)
    }

    /// Opens the stream of this number of lanes (1, 4, [`LANES`] or [`MOST_LANES`]) at the reader's position.
    pub fn open_in<'f: 'a>(
        lanes: usize,
        tables: &'a DecoderTables,
        reader: &mut Reader<'f>,
        kernel: Kernel,
    ) -> Result<Self> {
        let length = reader.length()?;
        let stream = reader.take(length)?;
        let (head, words) =
            stream.split_at_checked(4 * lanes).ok_or_else(|| Error::truncated("entropy-coded stream"))?;
        let mut states = [STATE_MIN; MOST_LANES];
        for (state, bytes) in states.iter_mut().zip(head.chunks_exact(4)) {
            *state = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if !(STATE_MIN..STATE_END).contains(state) {
                return Err(Error::corrupt("an entropy coder's state is out of range"));
            }
        }
        Ok(Self { tables, states, lanes, words, kernel })
    }

    /// Decodes the next `out.len()` symbols; every piece but the last must be a multiple of [`MOST_LANES`] long. `offsets` has where in the slots each symbol's
    /// context begins ([`DecoderTables::precision`] bits to the left of its number), or is empty for context 0 throughout.
    pub fn decode(&mut self, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        let (tables, states) = (self.tables, &mut self.states);
        let (done, bytes) = self.kernel.rans_decode(tables, self.lanes, states, offsets, self.words, out);
        self.words = self.words.get(bytes..).unwrap_or_default();
        for (index, symbol) in out.iter_mut().enumerate().skip(done) {
            *symbol = self.step(index, usize::from(offsets.get(index).copied().unwrap_or(0)))?;
        }
        Ok(())
    }

    /// Decodes the next symbols with the heads of floats that they belong to, a whole chunk of them, as [`Kernel::decode_heads`] says; `false` if the kernel cannot.
    pub fn decode_heads(
        &mut self,
        inputs: HeadInputs,
        escaped: &mut [u32],
        heads: &mut [u16],
    ) -> Result<bool> {
        /// Elements that are decoded at a time where the words end, since kernels read further than they need.
        const LAST: usize = 2 * MOST_LANES;
        if self.lanes < LANES || !heads.len().is_multiple_of(8 * LANES) {
            return Ok(false);
        }
        let (tables, states, kernel) = (self.tables, &mut self.states[..self.lanes], self.kernel);
        let count = heads.len();
        let mut decode_from = |words: &[u8], range| {
            kernel.decode_heads(HeadCall { tables, inputs, states, words, range, escaped, heads })
        };
        let made = decode_from(self.words, 0..count);
        let Some((mut done, bytes)) = made else { return Ok(false) };
        self.words = self.words.get(bytes..).unwrap_or_default();
        while done < count {
            let mut padded = [0; 4 * LAST];
            let rest = self.words.len().min(2 * LAST);
            padded.iter_mut().zip(&self.words[..rest]).for_each(|(padded, &word)| *padded = word);
            let made = decode_from(&padded, done..count.min(done + LAST));
            let Some((next, bytes)) = made.filter(|made| made.0 > done && made.1 <= rest) else {
                return Err(Error::truncated("entropy-coded stream"));
            };
            self.words = self.words.get(bytes..).unwrap_or_default();
            done = next;
        }
        Ok(true)
    }

    /// Decodes the next symbols with the elements of a delta that they belong to, as [`Kernel::restore`] says, and returns how many; the caller decodes the others.
    pub fn restore<W: Word>(
        &mut self,
        inputs: Restoration,
        raw: &mut RawReader,
        out: &mut [u8],
    ) -> Result<usize> {
        /// Kernels read no further than this from the words that they need.
        const MARGIN: usize = 4 * LANES;
        let (tables, kernel) = (self.tables, self.kernel);
        let Ok(states) = <&mut [u32; LANES]>::try_from(&mut self.states[..self.lanes]) else { return Ok(0) };
        let block = RestoredBlock { inputs, states, words: self.words, raw, out };
        let (made, bytes) = kernel.restore::<W>(tables, block);
        self.words = self.words.get(bytes..).unwrap_or_default();
        if self.words.len() > MARGIN {
            return Ok(made);
        }
        let mut padded = [0; 2 * MARGIN];
        padded.iter_mut().zip(self.words).for_each(|(padded, word)| *padded = *word);
        let inputs = Restoration { made: inputs.made + made, ..inputs };
        let words = &padded[..self.words.len() + MARGIN];
        let (last, bytes) = kernel.restore::<W>(tables, RestoredBlock { inputs, states, words, raw, out });
        self.words = self.words.get(bytes..).ok_or_else(|| Error::truncated("entropy-coded stream"))?;
        Ok(made + last)
    }

    /// [`Self::restore`] for two blocks with the same tables and contexts, as far as [`Kernel::restore_two`] goes.
    pub fn restore_two<W: Word>(
        [first, second]: [&mut Self; 2],
        inputs: [Restoration; 2],
        raw: [&mut RawReader; 2],
        out: [&mut [u8]; 2],
    ) -> [usize; 2] {
        let (Ok(first_states), Ok(second_states)) = (
            <&mut [u32; LANES]>::try_from(&mut first.states[..first.lanes]),
            <&mut [u32; LANES]>::try_from(&mut second.states[..second.lanes]),
        ) else {
            return [0; 2];
        };
        let ([raw, second_raw], [out, second_out]) = (raw, out);
        let blocks = [
            RestoredBlock { inputs: inputs[0], states: first_states, words: first.words, raw, out },
            RestoredBlock {
                inputs: inputs[1],
                states: second_states,
                words: second.words,
                raw: second_raw,
                out: second_out,
            },
        ];
        let [(made, bytes), (second_made, second_bytes)] =
            first.kernel.restore_two::<W>(first.tables, blocks);
        first.words = first.words.get(bytes..).unwrap_or_default();
        second.words = second.words.get(second_bytes..).unwrap_or_default();
        [made, second_made]
    }

    /// Decodes symbol `index` of the stream, for contexts that depend on the symbols before it.
    #[inline(always)]
    pub fn step(&mut self, index: usize, offset: usize) -> Result<u8> {
        let state = &mut self.states[index & (self.lanes - 1) & (MOST_LANES - 1)];
        let slot = *state as usize & ((1 << self.tables.precision) - 1);
        let entry = self.tables.slots[(offset | slot) & (self.tables.slots.len() - 1)];
        *state = (entry >> 20) * (*state >> self.tables.precision) + (entry >> 8 & 0xfff);
        if *state < STATE_MIN {
            let (word, rest) =
                self.words.split_at_checked(2).ok_or_else(|| Error::truncated("entropy-coded stream"))?;
            *state = *state << 16 | u32::from(word[0]) | u32::from(word[1]) << 8;
            self.words = rest;
        }
        Ok(entry as u8)
    }

    /// Fails unless the stream ended exactly where the encoder began.
    pub fn finish(&self) -> Result<()> {
        if self.words.is_empty() && self.states[..self.lanes].iter().all(|&state| state == STATE_MIN) {
            return Ok(());
        }
        Err(Error::corrupt("an entropy-coded stream does not end where it should"))
    }
}
