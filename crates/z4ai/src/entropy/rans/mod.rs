//! Interleaved rANS: the entropy coder of the default tier. A stream has 1, 4, 32 or 64 states ("lanes");
//! symbol `i` belongs to lane `i mod lanes`, so that neighbouring symbols do not depend on each other and
//! many of them are coded at once in vector registers. Each symbol may be coded in a context, which selects
//! one of several frequency tables.
//!
//! States live in `[2^15, 2^31)` and exchange 16-bit little-endian words with the stream. A stream is: the
//! final states (4 bytes per lane), then the words in the order in which the decoder wants them.

mod compact;
mod decode;
mod encode;
mod mixed;
mod steps;
#[cfg(test)]
mod tests;

pub(crate) use compact::{
    COMPACT_CONTEXTS, COMPACT_HALF, CompactPlanes, CompactTable, CompactTables, ESCAPE_SYMBOLS,
};
pub(crate) use decode::SymbolDecoder;
pub(crate) use encode::{encode_before, encode_in, room_for};
pub(crate) use mixed::{
    ALL_LANES, Bit, MIXED_LANES, MIXED_WINDOW, MixedDecoder, MixedTable, MixedWords, Stretch, each_lane,
    encode_mixed,
};

pub(crate) use steps::{Steps, decode_by_groups, encode_by_groups, encode_symbols};

use super::table::{EncoderSymbol, FrequencyTable};
use crate::error::{Error, Result};
use std::sync::OnceLock;

/// Lower bound of a state between symbols.
pub(crate) const STATE_MIN: u32 = 1 << 15;
/// Upper bound (exclusive).
pub(crate) const STATE_END: u32 = 1 << 31;
/// Lanes of a stream that vector registers code.
pub(crate) const LANES: usize = 32;
/// Lanes of a long stream: the latency of a symbol (look-up, multiplication, refill) is longer than the
/// throughput of 32 of them.
pub(crate) const MOST_LANES: usize = 2 * LANES;

/// How many lanes a stream of `count` symbols has; flushing a state costs 4 bytes, which short streams cannot
/// afford.
pub(crate) fn lanes_for(count: usize) -> usize {
    match count {
        0..512 => 1,
        512..32768 => 4,
        _ => LANES,
    }
}

/// How many lanes a stream of `count` symbols has whose decoder has much other work to do between them: long
/// streams then have twice the lanes, to hide the latency of look-ups.
pub(crate) fn most_lanes_for(count: usize) -> usize {
    if count < 98304 { lanes_for(count) } else { MOST_LANES }
}

/// How many lanes a stream of `count` symbols has that is a small part of its block, beside which more states
/// cost little.
pub(crate) fn lanes_beside(count: usize) -> usize {
    if count < 8192 { lanes_for(count) } else { LANES }
}

/// The tables of a power-of-two number of contexts. The forms that the two directions look symbols up in are
/// made lazily: each direction needs only one of them, and for a small tensor making it is much of the
/// work.
#[derive(Debug)]
pub(crate) struct Tables {
    frequencies: Vec<FrequencyTable>,
    encoder: OnceLock<EncoderTables>,
    decoder: OnceLock<DecoderTables>,
}

impl Tables {
    /// All tables must have one precision; their number must be a power of two.
    pub fn new(frequencies: Vec<FrequencyTable>) -> Result<Self> {
        let precision = frequencies.first().map_or(0, |table| table.precision);
        let same = frequencies.iter().all(|table| table.precision == precision);
        if !frequencies.len().is_power_of_two() || !same {
            return Err(Error::corrupt("frequency tables of different precision"));
        }
        Ok(Self { frequencies, encoder: OnceLock::new(), decoder: OnceLock::new() })
    }

    /// The frequencies, by context.
    pub fn frequencies(&self) -> &[FrequencyTable] {
        &self.frequencies
    }

    /// The precision of every table.
    pub fn precision(&self) -> u32 {
        self.frequencies.first().map_or(0, |table| table.precision)
    }

    /// The encoder's form.
    pub fn encoder(&self) -> &EncoderTables {
        self.encoder.get_or_init(|| EncoderTables {
            entries: self.frequencies.iter().flat_map(FrequencyTable::encoder_symbols).collect(),
            precision: self.precision(),
            compact: OnceLock::new(),
        })
    }

    /// The decoder's form.
    pub fn decoder(&self) -> &DecoderTables {
        self.decoder.get_or_init(|| {
            let precision = self.precision();
            let mut slots = Vec::with_capacity(self.frequencies.len() << precision);
            self.frequencies.iter().for_each(|table| table.append_slots(&mut slots));
            DecoderTables { slots, precision }
        })
    }
}

/// Tables ready for encoding: 256 symbols per context, all in one vector.
#[derive(Debug)]
pub(crate) struct EncoderTables {
    entries: Vec<EncoderSymbol>,
    precision: u32,
    compact: OnceLock<Option<CompactTables>>,
}

impl EncoderTables {
    pub fn entries(&self) -> &[EncoderSymbol] {
        &self.entries
    }

    /// The entries in the form that registers hold, if the symbols are few enough.
    pub fn compact(&self) -> Option<&CompactTables> {
        self.compact.get_or_init(|| CompactTables::new(&self.entries)).as_ref()
    }

    pub fn precision(&self) -> u32 {
        self.precision
    }
}

/// Tables ready for decoding: the slots of all contexts in one vector.
#[derive(Debug)]
pub(crate) struct DecoderTables {
    slots: Vec<u32>,
    precision: u32,
}

impl DecoderTables {
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    pub fn precision(&self) -> u32 {
        self.precision
    }
}
