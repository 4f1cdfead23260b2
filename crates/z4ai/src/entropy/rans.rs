//! Interleaved rANS: the entropy coder of the default tier. A stream has 1, 4 or 32 states ("lanes"); symbol `i` belongs to lane `i mod lanes`,
//! so that neighbouring symbols do not wait for each other and 32 of them decode at once in vector registers. Each symbol may be coded
//! in a context, which selects one of several frequency tables.
//!
//! States live in `[2^15, 2^31)` and exchange 16-bit little-endian words with the stream. A stream is: the final states (4 bytes per lane),
//! then the words in the order in which the decoder wants them.

use super::table::{EncoderSymbol, FrequencyTable};
use crate::arch;
use crate::error::{Error, Result};

/// Lower bound of a state between symbols.
pub(crate) const STATE_MIN: u32 = 1 << 15;
/// Upper bound (exclusive).
pub(crate) const STATE_END: u32 = 1 << 31;
/// Lanes of a large stream.
pub(crate) const LANES: usize = 32;

/// How many lanes a stream of `count` symbols has; flushing a state costs 4 bytes, which short streams cannot afford.
pub(crate) fn lanes_for(count: usize) -> usize {
    match count {
        0..512 => 1,
        512..16384 => 4,
        _ => LANES,
    }
}

/// Tables ready for encoding: 256 entries per context.
#[derive(Debug)]
pub(crate) struct EncoderTables {
    symbols: Vec<EncoderSymbol>,
}

impl EncoderTables {
    pub fn new(tables: &[FrequencyTable]) -> Self {
        Self { symbols: tables.iter().flat_map(FrequencyTable::encoder_symbols).collect() }
    }
}

/// Tables ready for decoding: the slots of a power-of-two number of contexts in one vector.
#[derive(Debug)]
pub(crate) struct DecoderTables {
    slots: Vec<u32>,
    precision: u32,
}

impl DecoderTables {
    /// All tables must have one precision; their number must be a power of two.
    pub fn new(tables: &[FrequencyTable]) -> Result<Self> {
        let precision = tables.first().map_or(0, |table| table.precision);
        if !tables.len().is_power_of_two() || tables.iter().any(|table| table.precision != precision) {
            return Err(Error::corrupt("frequency tables of different precision"));
        }
        let mut slots = Vec::with_capacity(tables.len() << precision);
        tables.iter().for_each(|table| table.append_slots(&mut slots));
        Ok(Self { slots, precision })
    }

    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    pub fn precision(&self) -> u32 {
        self.precision
    }
}

/// Encodes `symbols`, each in the context of the same index (or all in context 0 when `contexts` is empty), and appends the stream. Every symbol
/// must have a frequency in its context's table.
pub(crate) fn encode(tables: &EncoderTables, symbols: &[u8], contexts: &[u8], out: &mut Vec<u8>) {
    match lanes_for(symbols.len()) {
        1 => encode_lanes::<1>(tables, symbols, contexts, out),
        4 => encode_lanes::<4>(tables, symbols, contexts, out),
        _ => encode_lanes::<LANES>(tables, symbols, contexts, out),
    }
}

fn encode_lanes<const N: usize>(tables: &EncoderTables, symbols: &[u8], contexts: &[u8], out: &mut Vec<u8>) {
    let mut states = [STATE_MIN; N];
    // The encoder runs backwards; words are collected in its order and turned round at the end.
    let mut words: Vec<u16> = vec![0; symbols.len() + 1];
    let mut count = 0;
    let mut step = |state: &mut u32, symbol: u8, context: u8| {
        let entry = tables.symbols[usize::from(context) << 8 | usize::from(symbol)];
        // Branch-free: the word is always written, and kept only if the state was too large.
        let spill = *state >= entry.limit;
        if let Some(word) = words.get_mut(count) {
            *word = *state as u16;
        }
        count += usize::from(spill);
        let x = if spill { *state >> 16 } else { *state };
        let quotient = ((u64::from(x) * u64::from(entry.reciprocal)) >> 32) as u32 >> entry.shift;
        *state = x.wrapping_add(entry.bias).wrapping_add(quotient.wrapping_mul(u32::from(entry.complement)));
    };
    let whole = symbols.len() / N * N;
    let (body, tail) = symbols.split_at(whole);
    if contexts.is_empty() {
        for (lane, &symbol) in tail.iter().enumerate().rev() {
            step(&mut states[lane], symbol, 0);
        }
        for group in body.chunks_exact(N).rev() {
            for lane in (0..N).rev() {
                step(&mut states[lane], group[lane], 0);
            }
        }
    } else {
        let (body_contexts, tail_contexts) = contexts.split_at(whole);
        for (lane, (&symbol, &context)) in tail.iter().zip(tail_contexts).enumerate().rev() {
            step(&mut states[lane], symbol, context);
        }
        for (group, group_contexts) in body.chunks_exact(N).zip(body_contexts.chunks_exact(N)).rev() {
            for lane in (0..N).rev() {
                step(&mut states[lane], group[lane], group_contexts[lane]);
            }
        }
    }
    words.truncate(count);
    out.reserve(4 * N + 2 * count);
    states.iter().for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
    out.extend(words.iter().rev().flat_map(|word| word.to_le_bytes()));
}

/// Decodes one stream, piece by piece.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    tables: &'a DecoderTables,
    states: [u32; LANES],
    lanes: usize,
    words: &'a [u8],
    kernel: arch::Kernel,
}

impl<'a> Decoder<'a> {
    /// Opens a stream of `count` symbols that fills `stream`.
    pub fn new(
        tables: &'a DecoderTables,
        stream: &'a [u8],
        count: usize,
        kernel: arch::Kernel,
    ) -> Result<Self> {
        let lanes = lanes_for(count);
        let (head, words) =
            stream.split_at_checked(4 * lanes).ok_or_else(|| Error::truncated("entropy-coded stream"))?;
        let mut states = [STATE_MIN; LANES];
        for (state, bytes) in states.iter_mut().zip(head.chunks_exact(4)) {
            *state = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if !(STATE_MIN..STATE_END).contains(state) {
                return Err(Error::corrupt("an entropy coder's state is out of range"));
            }
        }
        Ok(Self { tables, states, lanes, words, kernel })
    }

    /// Decodes the next `out.len()` symbols. Every piece but the last must be a multiple of [`LANES`] long. `contexts` is empty for context 0 throughout.
    pub fn decode(&mut self, contexts: &[u8], out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        if self.lanes == LANES {
            let (symbols, bytes) =
                self.kernel.rans_decode(self.tables, &mut self.states, contexts, self.words, out);
            done = symbols;
            self.words = self.words.get(bytes..).unwrap_or_default();
        }
        for index in done..out.len() {
            let context = usize::from(contexts.get(index).copied().unwrap_or(0));
            let state = &mut self.states[index % self.lanes];
            let slot = *state as usize & ((1 << self.tables.precision) - 1);
            let entry =
                self.tables.slots[(context << self.tables.precision | slot) & (self.tables.slots.len() - 1)];
            out[index] = entry as u8;
            *state = (entry >> 20) * (*state >> self.tables.precision) + (entry >> 8 & 0xfff);
            if *state < STATE_MIN {
                let (word, rest) =
                    self.words.split_at_checked(2).ok_or_else(|| Error::truncated("entropy-coded stream"))?;
                *state = *state << 16 | u32::from(word[0]) | u32::from(word[1]) << 8;
                self.words = rest;
            }
        }
        Ok(())
    }

    /// Fails unless the stream ended exactly where the encoder began.
    pub fn finish(&self) -> Result<()> {
        if self.words.is_empty() && self.states[..self.lanes].iter().all(|&state| state == STATE_MIN) {
            return Ok(());
        }
        Err(Error::corrupt("an entropy-coded stream does not end where it should"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Histogram, SYMBOLS};
    use super::*;
    use proptest::prelude::*;

    fn tables(symbols: &[u8], contexts: &[u8], count: usize, precision: u32) -> Vec<FrequencyTable> {
        let mut histograms: Vec<Histogram> = vec![[0; SYMBOLS]; count];
        for (index, &symbol) in symbols.iter().enumerate() {
            histograms[usize::from(contexts.get(index).copied().unwrap_or(0))][usize::from(symbol)] += 1;
        }
        histograms
            .iter_mut()
            .map(|histogram| {
                histogram[7] += 1;
                FrequencyTable::normalise(histogram, precision)
            })
            .collect()
    }

    fn round_trip(symbols: &[u8], contexts: &[u8], count: usize, precision: u32) {
        let tables = tables(symbols, contexts, count, precision);
        let mut stream = Vec::new();
        encode(&EncoderTables::new(&tables), symbols, contexts, &mut stream);
        let decoder_tables = DecoderTables::new(&tables).unwrap();
        for kernel in arch::Kernel::available() {
            let mut decoder = Decoder::new(&decoder_tables, &stream, symbols.len(), kernel).unwrap();
            let mut decoded = vec![0; symbols.len()];
            for (start, piece) in decoded.chunks_mut(4096).enumerate() {
                let contexts =
                    if contexts.is_empty() { contexts } else { &contexts[start * 4096..][..piece.len()] };
                decoder.decode(contexts, piece).unwrap();
            }
            assert_eq!(decoded, symbols, "{kernel:?}");
            decoder.finish().unwrap();
            for cut in [stream.len() - 1, stream.len() / 2, 3] {
                let short = Decoder::new(&decoder_tables, &stream[..cut], symbols.len(), kernel);
                let failed =
                    short.and_then(|mut d| d.decode(contexts, &mut decoded).and_then(|()| d.finish()));
                assert!(failed.is_err());
            }
        }
    }

    #[test]
    fn long_streams_survive_on_every_kernel() {
        let symbols: Vec<u8> =
            (0..70_001u32).map(|i| (i.wrapping_mul(i) >> 7 & i >> 3) as u8 & 0x3f).collect();
        let contexts: Vec<u8> = (0..70_001u32).map(|i| (i.wrapping_mul(2654435761) >> 30) as u8).collect();
        for precision in 8..=12 {
            round_trip(&symbols, &contexts, 4, precision);
            round_trip(&symbols, &[], 1, precision);
        }
        round_trip(&[9; 20_000], &[], 1, 12);
    }

    proptest! {
        #[test]
        fn short_streams_survive(symbols in proptest::collection::vec(any::<u8>(), 1..2000), precision in 8u32..=12) {
            round_trip(&symbols, &[], 1, precision);
        }
    }
}
