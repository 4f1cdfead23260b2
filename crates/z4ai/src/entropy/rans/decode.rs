//! The decoder's side of a stream.

use super::{DecoderTables, MOST_LANES, STATE_END, STATE_MIN, Steps};
use crate::arch::dispatch;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// Decodes one stream, piece by piece.
#[derive(Debug)]
pub(crate) struct SymbolDecoder<'a> {
    pub tables: &'a DecoderTables,
    pub states: [u32; MOST_LANES],
    pub lanes: usize,
    /// What is left of the words.
    pub words: &'a [u8],
}

impl<'a> SymbolDecoder<'a> {
    /// Opens the stream of this number of lanes (1, 4, [`LANES`] or [`MOST_LANES`]) at the reader's position.
    pub fn open_in<'f: 'a>(lanes: usize, tables: &'a DecoderTables, reader: &mut Reader<'f>) -> Result<Self> {
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
        Ok(Self { tables, states, lanes, words })
    }

    /// Decodes the next `out.len()` symbols; every piece but the last must be a multiple of [`MOST_LANES`]
    /// long. `offsets` has where in the slots each symbol's context begins ([`DecoderTables::precision`] bits
    /// to the left of its number), or is empty for context 0 throughout.
    pub fn decode(&mut self, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        dispatch!(kernel => kernel.decode_symbols(self, offsets, out))
    }

    /// Goes on after so many bytes of words.
    pub fn skip_words(&mut self, bytes: usize) {
        self.words = self.words.get(bytes..).unwrap_or_default();
    }

    /// Decodes symbols one by one, from `out[done]` on.
    pub fn decode_from(&mut self, done: usize, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        for (index, symbol) in out.iter_mut().enumerate().skip(done) {
            *symbol = self.step(index, usize::from(offsets.get(index).copied().unwrap_or(0)))?;
        }
        Ok(())
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
