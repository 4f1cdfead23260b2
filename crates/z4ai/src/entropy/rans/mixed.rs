//! A stream of symbols, whose contexts have tables, and of bits, which come with their probabilities, for
//! models whose next context depends on what came last. In such models each element depends on the one
//! before, so several *lanes* of elements go through one loop in step, each with a state of its own, which
//! hides the latency.

use super::{EncoderTables, STATE_END, STATE_MIN};
use crate::entropy::mixing::PROBABILITY_BITS;
use crate::entropy::table::{FrequencyTable, MAX_PRECISION, SYMBOLS};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};

/// The most lanes of a stream.
pub(crate) const MIXED_LANES: usize = 8;

/// The set of all lanes: bit *i* stands for lane *i*.
pub(crate) const ALL_LANES: u8 = u8::MAX;

/// Does something for each lane of a set; for all of them without a loop, so that what belongs to a lane can
/// stay in registers.
macro_rules! each_lane {
    ($lanes:expr, $lane:ident => $body:block) => {
        if $lanes == crate::entropy::rans::ALL_LANES {
            each_lane!(@ $lane, $body, 0 1 2 3 4 5 6 7);
        } else {
            for $lane in 0..crate::entropy::rans::MIXED_LANES {
                if $lanes >> $lane & 1 == 1 $body
            }
        }
    };
    (@ $lane:ident, $body:block, $($number:literal)*) => {
        $({
            let $lane = $number;
            $body
        })*
    };
}
pub(crate) use each_lane;

/// Elements that are coded together: their symbols first, then their bits. Each step has one element of each
/// lane of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub steps: usize,
    pub lanes: u8,
}

impl Stretch {
    /// How many lanes it has.
    pub fn width(self) -> usize {
        self.lanes.count_ones() as usize
    }

    /// How many elements it has.
    pub fn elements(self) -> usize {
        self.steps * self.width()
    }

    /// The numbers of its lanes.
    pub fn lanes(self) -> impl DoubleEndedIterator<Item = usize> + Clone {
        (0..MIXED_LANES).filter(move |lane| self.lanes >> lane & 1 == 1)
    }
}

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
        // Unpredictable, so branch-free.
        let (probability, clear) = (u32::from(self.probability), u32::from(!self.value).wrapping_neg());
        (probability & clear, (probability ^ clear).wrapping_add(clear & ((1 << PROBABILITY_BITS) + 1)))
    }
}

/// Appends the stream of `symbols`, each in the context of the same index, and of as many bits or none at
/// all, in these stretches of so many lanes.
pub(crate) fn encode_mixed(
    tables: &EncoderTables,
    symbols: &[u8],
    contexts: &[u8],
    bits: &[Bit],
    stretches: &[Stretch],
    lanes: usize,
    out: &mut Vec<u8>,
) {
    let (entries, precision) = (tables.entries(), tables.precision());
    let mut states = [STATE_MIN; MIXED_LANES];
    let mut words: Vec<u16> = Vec::with_capacity(symbols.len() / 2);
    let mut make_room = |state: u32, frequency: u32, precision: u32| {
        if state < frequency << (31 - precision) {
            return state;
        }
        words.push(state as u16);
        state >> 16
    };
    // The decoder runs forwards, so the encoder runs backwards.
    let mut end = symbols.len();
    for stretch in stretches.iter().rev() {
        let range = end.saturating_sub(stretch.elements())..end;
        end = range.start;
        let lanes = || stretch.lanes().rev().cycle();
        for (bit, lane) in bits.get(range.clone()).unwrap_or_default().iter().rev().zip(lanes()) {
            let (start, frequency) = bit.share();
            let state = make_room(states[lane], frequency, PROBABILITY_BITS);
            states[lane] = ((state / frequency) << PROBABILITY_BITS) + state % frequency + start;
        }
        let symbols = symbols[range.clone()].iter().zip(&contexts[range]);
        for ((&symbol, &context), lane) in symbols.rev().zip(lanes()) {
            let entry = entries[usize::from(context) << 8 | usize::from(symbol)];
            let state = make_room(states[lane], entry.frequency(), precision);
            states[lane] = entry.push(state, precision);
        }
    }
    let states = states.iter().take(lanes);
    put_length(out, 4 * states.len() + 2 * words.len());
    states.for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
    words.iter().rev().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// The form of a table of precision [`MAX_PRECISION`] for [`MixedDecoder`]: small, since a model with many
/// contexts accesses all of them at random, and small tensors have to make them.
#[derive(Debug, Clone)]
#[repr(C, align(4))]
pub(crate) struct MixedTable {
    /// The symbol of each slot.
    pub symbols: [u8; 1 << MAX_PRECISION],
    /// The frequency (upper half) and first slot of each symbol.
    pub shares: [u32; SYMBOLS],
}

impl MixedTable {
    pub fn new(table: &FrequencyTable) -> Self {
        let mut made = Self { symbols: [0; 1 << MAX_PRECISION], shares: [0; SYMBOLS] };
        let mut start = 0;
        for ((symbol, &frequency), share) in table.frequencies.iter().enumerate().zip(&mut made.shares) {
            let end = start + usize::from(frequency);
            made.symbols.get_mut(start..end).unwrap_or_default().fill(symbol as u8);
            *share = u32::from(frequency) << 16 | start as u32;
            start = end;
        }
        made
    }
}

/// The words of a stream, and as many zeros as a [`MixedDecoder`] may read if these are not enough.
#[derive(Debug)]
pub(crate) struct MixedWords(Vec<u16>);

/// The most symbols or bits that come between two [`MixedDecoder::go_on`].
pub(crate) const MIXED_WINDOW: usize = 4096;

/// Decodes such a stream.
#[derive(Debug)]
pub(crate) struct MixedDecoder<'a> {
    pub tables: &'a [MixedTable],
    pub states: [u32; MIXED_LANES],
    words: &'a [u16],
    pub window: &'a [u16; MIXED_WINDOW],
    /// Words of the window that have been used.
    pub used: usize,
}

/// What is read past the end of a stream that is cut short.
static NO_WORDS: [u16; MIXED_WINDOW] = [0; MIXED_WINDOW];

impl MixedWords {
    /// Reads a stream of so many lanes at the reader's position: the states and the words.
    pub fn read(lanes: usize, reader: &mut Reader) -> Result<([u32; MIXED_LANES], Self)> {
        let length = reader.length()?;
        let stream = reader.take(length)?;
        let (head, words) = stream
            .split_at_checked(4 * lanes.min(MIXED_LANES))
            .ok_or_else(|| Error::truncated("entropy-coded stream"))?;
        let mut states = [STATE_MIN; MIXED_LANES];
        for (state, bytes) in states.iter_mut().zip(head.as_chunks().0) {
            *state = u32::from_le_bytes(*bytes);
            if !(STATE_MIN..STATE_END).contains(state) {
                return Err(Error::corrupt("an entropy coder's state is out of range"));
            }
        }
        let (words, rest) = words.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::corrupt("an entropy-coded stream ends inside a word"));
        }
        let mut padded = Vec::with_capacity(words.len() + MIXED_WINDOW);
        padded.extend(words.iter().map(|&word| u16::from_le_bytes(word)));
        padded.resize(words.len() + MIXED_WINDOW, 0);
        Ok((states, Self(padded)))
    }
}

impl<'a> MixedDecoder<'a> {
    /// A decoder at the start of a stream.
    pub fn new(tables: &'a [MixedTable], states: [u32; MIXED_LANES], words: &'a MixedWords) -> Self {
        let mut made = Self { tables, states, words: &words.0, window: &NO_WORDS, used: 0 };
        made.go_on();
        made
    }

    /// Makes room for the next [`MIXED_WINDOW`] symbols or bits.
    #[inline(always)]
    pub fn go_on(&mut self) {
        self.words = self.words.get(self.used..).unwrap_or_default();
        self.window = self.words.first_chunk().unwrap_or(&NO_WORDS);
        self.used = 0;
    }

    /// Sets a lane's state after a symbol or a bit, refilled with a word if it is too small.
    #[inline(always)]
    fn refill(&mut self, lane: usize, state: u32) {
        // Branch-free: whether a lane refills is unpredictable, so the word is always loaded.
        let small = state < STATE_MIN;
        let word = u32::from(self.window[self.used & (MIXED_WINDOW - 1)]);
        self.used += usize::from(small);
        self.states[lane & (MIXED_LANES - 1)] = if small { state << 16 | word } else { state };
    }

    /// The next symbol of a lane, in one of the contexts.
    #[inline(always)]
    pub fn symbol(&mut self, lane: usize, context: usize) -> u8 {
        let state = self.states[lane & (MIXED_LANES - 1)];
        let slot = state & ((1 << MAX_PRECISION) - 1);
        let Some(table) = self.tables.get(context) else { return 0 };
        let symbol = table.symbols[slot as usize];
        let share = table.shares[usize::from(symbol)];
        self.refill(lane, (share >> 16) * (state >> MAX_PRECISION) + slot - (share & 0xffff));
        symbol
    }

    /// The next bit of a lane, which is a 1 with this probability.
    #[inline(always)]
    pub fn bit(&mut self, lane: usize, probability: u32) -> bool {
        let state = self.states[lane & (MIXED_LANES - 1)];
        let slot = state & ((1 << PROBABILITY_BITS) - 1);
        let value = slot < probability;
        // A 0 has the rest of the range.
        let share = probability * (state >> PROBABILITY_BITS);
        self.refill(lane, if value { share + slot } else { state - share - probability });
        value
    }

    /// Fails unless the stream ended exactly where the encoder began.
    pub fn finish(&self) -> Result<()> {
        if self.words.len() == self.used + MIXED_WINDOW && self.states == [STATE_MIN; MIXED_LANES] {
            return Ok(());
        }
        Err(Error::corrupt("an entropy-coded stream does not end where it should"))
    }
}
