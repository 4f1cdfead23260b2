//! A stream of symbols, whose contexts have tables, and of bits, which come with their probabilities, for models whose next context depends on what came last. There
//! is a single state, since such models wait for themselves anyway. Symbols and bits take turns in stretches: those of so many elements, then these of the same elements.

use super::{DecoderTables, EncoderTables, STATE_END, STATE_MIN};
use crate::entropy::mixing::PROBABILITY_BITS;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};

/// A bit and the probability (in 1/2^[`PROBABILITY_BITS`]) that it would be a 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bit {
    pub value: bool,
    pub probability: u16,
}

impl Bit {
    /// Where its share of the range begins, and how large it is.
    #[inline(always)]
    pub fn share(self) -> (u32, u32) {
        // A coin toss, so not a branch.
        let (probability, clear) = (u32::from(self.probability), u32::from(!self.value).wrapping_neg());
        (probability & clear, (probability ^ clear).wrapping_add(clear & ((1 << PROBABILITY_BITS) + 1)))
    }
}

/// Appends the stream of `symbols`, each in the context of the same index, and of as many bits or none at all, in stretches of `stretch` elements.
pub(crate) fn encode_mixed(
    tables: &EncoderTables,
    symbols: &[u8],
    contexts: &[u8],
    bits: &[Bit],
    stretch: usize,
    out: &mut Vec<u8>,
) {
    let (entries, precision) = (tables.entries(), tables.precision());
    let mut state = STATE_MIN;
    let mut words: Vec<u16> = Vec::with_capacity(symbols.len() / 2);
    let mut make_room = |state: u32, frequency: u32, precision: u32| {
        if state < frequency << (31 - precision) {
            return state;
        }
        words.push(state as u16);
        state >> 16
    };
    // The decoder runs forwards, so the encoder runs backwards.
    for (index, symbols) in symbols.chunks(stretch).enumerate().rev() {
        let range = index * stretch..index * stretch + symbols.len();
        for bit in bits.get(range.clone()).unwrap_or_default().iter().rev() {
            let (start, frequency) = bit.share();
            state = make_room(state, frequency, PROBABILITY_BITS);
            state = ((state / frequency) << PROBABILITY_BITS) + state % frequency + start;
        }
        for (&symbol, &context) in symbols.iter().zip(contexts.get(range).unwrap_or_default()).rev() {
            let entry = entries[usize::from(context) << 8 | usize::from(symbol)];
            state = make_room(state, entry.frequency(), precision);
            state = entry.push(state, precision);
        }
    }
    put_length(out, 4 + 2 * words.len());
    out.extend_from_slice(&state.to_le_bytes());
    words.iter().rev().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Decodes such a stream.
#[derive(Debug)]
pub(crate) struct MixedDecoder<'a> {
    slots: &'a [u32],
    precision: u32,
    state: u32,
    /// The words, and one 0 that is read again and again if they are not enough.
    words: Vec<u16>,
    next: usize,
}

impl<'a> MixedDecoder<'a> {
    /// Opens the stream at the reader's position.
    pub fn open(tables: &'a DecoderTables, reader: &mut Reader) -> Result<Self> {
        let length = reader.length()?;
        let stream = reader.take(length)?;
        let (head, words) =
            stream.split_first_chunk().ok_or_else(|| Error::truncated("entropy-coded stream"))?;
        let state = u32::from_le_bytes(*head);
        if !(STATE_MIN..STATE_END).contains(&state) {
            return Err(Error::corrupt("an entropy coder's state is out of range"));
        }
        let (words, rest) = words.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::corrupt("an entropy-coded stream ends inside a word"));
        }
        let words = words.iter().map(|&word| u16::from_le_bytes(word)).chain([0]).collect();
        Ok(Self { slots: tables.slots(), precision: tables.precision(), state, words, next: 0 })
    }

    /// Takes over the state after a symbol, with a new word if it has become too small.
    #[inline(always)]
    fn refill(&mut self, state: u32) {
        // Whether a word is wanted is a coin toss to a branch predictor, so the word is read either way and masked out.
        let small = u32::from(state < STATE_MIN);
        let word = u32::from(self.words.get(self.next).copied().unwrap_or(0));
        self.next += small as usize;
        self.state = state << (16 * small) | word & small.wrapping_neg();
    }

    /// The next symbol; the slots of its context begin at `offset`.
    #[inline(always)]
    pub fn symbol(&mut self, offset: usize) -> u8 {
        let slot = self.state as usize & ((1 << self.precision) - 1);
        let entry = self.slots[(offset | slot) & (self.slots.len() - 1)];
        self.refill((entry >> 20) * (self.state >> self.precision) + (entry >> 8 & 0xfff));
        entry as u8
    }

    /// The next bit, which is a 1 with this probability.
    #[inline(always)]
    pub fn bit(&mut self, probability: u32) -> bool {
        let slot = self.state & ((1 << PROBABILITY_BITS) - 1);
        let value = slot < probability;
        let (start, frequency) = Bit { value, probability: probability as u16 }.share();
        self.refill(frequency * (self.state >> PROBABILITY_BITS) + slot - start);
        value
    }

    /// Fails unless the stream ended exactly where the encoder began.
    pub fn finish(&self) -> Result<()> {
        if self.next + 1 == self.words.len() && self.state == STATE_MIN {
            return Ok(());
        }
        Err(Error::corrupt("an entropy-coded stream does not end where it should"))
    }
}
