//! Interleaved rANS: the entropy coder of the default tier. A stream has 1, 4 or 32 states ("lanes"); symbol `i` belongs to lane `i mod lanes`,
//! so that neighbouring symbols do not wait for each other and 32 of them decode at once in vector registers. Each symbol may be coded
//! in a context, which selects one of several frequency tables.
//!
//! States live in `[2^15, 2^31)` and exchange 16-bit little-endian words with the stream. A stream is: the final states (4 bytes per lane),
//! then the words in the order in which the decoder wants them.

use super::table::{EncoderSymbol, FrequencyTable, SYMBOLS};
use crate::arch::Kernel;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};

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
        512..32768 => 4,
        _ => LANES,
    }
}

/// Tables ready for encoding: one row of symbols per context, of which there are 1, 4, 16 or 32.
#[derive(Debug)]
pub(crate) struct EncoderTables {
    contexts: Vec<[EncoderSymbol; SYMBOLS]>,
}

impl EncoderTables {
    pub fn new(tables: &[FrequencyTable]) -> Self {
        Self { contexts: tables.iter().map(FrequencyTable::encoder_symbols).collect() }
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

/// Encodes `symbols`, each in the context of the same index (or all in context 0 when `contexts` is empty), and appends the stream's length and the stream.
/// Every symbol must have a frequency in its context's table.
pub(crate) fn encode(
    tables: &EncoderTables,
    symbols: &[u8],
    contexts: &[u8],
    kernel: Kernel,
    out: &mut Vec<u8>,
) {
    match lanes_for(symbols.len()) {
        1 => encode_lanes::<1>(tables, symbols, contexts, kernel, out),
        4 => encode_lanes::<4>(tables, symbols, contexts, kernel, out),
        _ => encode_lanes::<LANES>(tables, symbols, contexts, kernel, out),
    }
}

fn encode_lanes<const N: usize>(
    tables: &EncoderTables,
    symbols: &[u8],
    contexts: &[u8],
    kernel: Kernel,
    out: &mut Vec<u8>,
) {
    let mut encoder = Encoder::<N> { states: [STATE_MIN; N], words: vec![0; symbols.len() + N], count: 0 };
    kernel.vectorised(
        #[inline(always)]
        || {
            let tables = tables.contexts.as_slice();
            if let Some(many) = tables.first_chunk::<32>() {
                encoder.run(many, symbols, contexts);
            } else if let Some(sixteen) = tables.first_chunk::<16>() {
                encoder.run(sixteen, symbols, contexts);
            } else if let Some(four) = tables.first_chunk::<4>() {
                encoder.run(four, symbols, contexts);
            } else if let Some(one) = tables.first_chunk::<1>() {
                encoder.run(one, symbols, &[]);
            }
        },
    );
    encoder.finish(out);
}

/// The encoder's side of a stream. It runs backwards, so that the decoder can run forwards.
struct Encoder<const N: usize> {
    states: [u32; N],
    /// In the encoder's order; turned round at the end.
    words: Vec<u16>,
    count: usize,
}

impl<const N: usize> Encoder<N> {
    #[inline(always)]
    fn run<const C: usize>(
        &mut self,
        tables: &[[EncoderSymbol; SYMBOLS]; C],
        symbols: &[u8],
        contexts: &[u8],
    ) {
        let whole = symbols.len() / N * N;
        let (body, tail) = symbols.split_at(whole);
        let (body_contexts, tail_contexts) = contexts.split_at(whole.min(contexts.len()));
        if !tail.is_empty() {
            self.group(tables, tail, tail_contexts);
        }
        if C == 1 {
            body.chunks_exact(N).rev().for_each(|group| self.group(tables, group, &[]));
        } else {
            let groups = body.chunks_exact(N).zip(body_contexts.chunks_exact(N));
            groups.rev().for_each(|(group, contexts)| self.group(tables, group, contexts));
        }
    }

    /// Encodes up to one symbol per lane.
    #[inline(always)]
    fn group<const C: usize>(
        &mut self,
        tables: &[[EncoderSymbol; SYMBOLS]; C],
        symbols: &[u8],
        contexts: &[u8],
    ) {
        // The words have room for one per symbol and a whole group more.
        let Some(window) = self.words.get_mut(self.count..).and_then(<[u16]>::first_chunk_mut::<N>) else {
            return;
        };
        let mut used = 0;
        for lane in (0..symbols.len().min(N)).rev() {
            let context = if C == 1 { 0 } else { usize::from(contexts[lane]) & (C - 1) };
            let entry = tables[context][usize::from(symbols[lane])];
            let state = self.states[lane];
            // Whether a word leaves is a coin toss to a branch predictor, so it is always written and kept only if it had to leave.
            let spill = u32::from(state >= entry.limit);
            window[used & (N - 1)] = state as u16;
            used += spill as usize;
            let state = state >> (16 * spill);
            let quotient = ((u64::from(state) * u64::from(entry.reciprocal)) >> entry.shift) as u32;
            self.states[lane] = state
                .wrapping_add(entry.bias)
                .wrapping_add(quotient.wrapping_mul(u32::from(entry.complement)));
        }
        self.count += used;
    }

    fn finish(&self, out: &mut Vec<u8>) {
        put_length(out, 4 * N + 2 * self.count);
        self.states.iter().for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
        let start = out.len();
        out.resize(start + 2 * self.count, 0);
        let words = self.words.get(..self.count).unwrap_or_default();
        for (bytes, word) in out[start..].chunks_exact_mut(2).zip(words.iter().rev()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Decodes one stream, piece by piece.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    tables: &'a DecoderTables,
    states: [u32; LANES],
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
        let length = reader.length()?;
        let stream = reader.take(length)?;
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

    /// Decodes the next `out.len()` symbols; every piece but the last must be a multiple of [`LANES`] long. `offsets` has where in the slots each symbol's
    /// context begins ([`DecoderTables::precision`] bits to the left of its number), or is empty for context 0 throughout.
    pub fn decode(&mut self, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        if self.lanes == LANES {
            let (symbols, bytes) =
                self.kernel.rans_decode(self.tables, &mut self.states, offsets, self.words, out);
            done = symbols;
            self.words = self.words.get(bytes..).unwrap_or_default();
        }
        for (index, symbol) in out.iter_mut().enumerate().skip(done) {
            *symbol = self.step(index, usize::from(offsets.get(index).copied().unwrap_or(0)))?;
        }
        Ok(())
    }

    /// Decodes symbol `index` of the stream, for contexts that depend on the symbols before it.
    #[inline(always)]
    pub fn step(&mut self, index: usize, offset: usize) -> Result<u8> {
        let state = &mut self.states[index & (self.lanes - 1) & (LANES - 1)];
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

    fn decode_all(
        tables: &DecoderTables,
        stream: &[u8],
        offsets: &[u16],
        count: usize,
        kernel: Kernel,
    ) -> Result<Vec<u8>> {
        let mut reader = Reader::new(stream, "test");
        let mut decoder = Decoder::open(tables, &mut reader, count, kernel)?;
        let mut decoded = vec![0; count];
        for (start, piece) in decoded.chunks_mut(4096).enumerate() {
            let offsets = if offsets.is_empty() { offsets } else { &offsets[start * 4096..][..piece.len()] };
            decoder.decode(offsets, piece)?;
        }
        decoder.finish()?;
        Ok(decoded)
    }

    fn round_trip(symbols: &[u8], contexts: &[u8], count: usize, precision: u32) {
        let tables = tables(symbols, contexts, count, precision);
        let decoder_tables = DecoderTables::new(&tables).unwrap();
        let offsets: Vec<u16> = contexts.iter().map(|&context| u16::from(context) << precision).collect();
        for kernel in Kernel::available() {
            let mut stream = Vec::new();
            encode(&EncoderTables::new(&tables), symbols, contexts, kernel, &mut stream);
            let decoded = decode_all(&decoder_tables, &stream, &offsets, symbols.len(), kernel).unwrap();
            assert_eq!(decoded, symbols, "{kernel:?}");
            // The same without its last word, or without the last byte of its states.
            let mut length = Reader::new(&stream, "test");
            let body = length.length().unwrap() - 2;
            let mut cut = Vec::new();
            put_length(&mut cut, body);
            cut.extend_from_slice(&length.rest()[..body]);
            assert!(decode_all(&decoder_tables, &cut, &offsets, symbols.len(), kernel).is_err());
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
        round_trip(&[9; 40_000], &[], 1, 12);
    }

    proptest! {
        #[test]
        fn short_streams_survive(symbols in proptest::collection::vec(any::<u8>(), 1..2000), precision in 8u32..=12) {
            round_trip(&symbols, &[], 1, precision);
        }
    }
}
