//! The raw low bits of large differences. They are dealt out to lanes, element *i* to lane *i* mod 8, each of
//! which holds between 16 and 31 bits and takes the next word of a stream that all share when it has fewer;
//! so vector registers take them eight at a time. Short blocks have one lane, because a lane costs some
//! bytes.

use super::element::Word;
use super::steps::Steps;
use super::symbols::Alphabet;
use crate::arch::{self, dispatch};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// Lanes of a stream that is not short.
pub(crate) const RAW_LANES: usize = 8;
/// Bits of a word, the most that are taken at once.
pub(crate) const WORD_BITS: u32 = 16;
/// Blocks of fewer bytes have one lane if no more than [`FEW_RAW_BYTES`] of these are raw. Deltas: half and
/// double of either change less than 0.001 %.
const SHORT_BLOCK: usize = 1 << 15;
const FEW_RAW_BYTES: usize = 1 << 10;

/// The lanes: their bits, the next one lowest, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawLanes {
    pub bits: [u32; RAW_LANES],
    pub counts: [u32; RAW_LANES],
}

impl RawLanes {
    /// What the last element leaves in them.
    const END: Self = Self { bits: [0; RAW_LANES], counts: [WORD_BITS; RAW_LANES] };
}

/// Appends the raw bits of differences with these symbols to their block: nothing if there are none; else the
/// number of lanes, each lane (a set bit above its bits tells how many there are) and the words. `memory` is
/// scratch for the words, kept from block to block.
pub(super) fn write<W: Word>(symbols: &[u8], differences: &[W], memory: &mut Vec<u8>, out: &mut Vec<u8>) {
    let alphabet = Alphabet::of_width(W::BYTES);
    let total = arch::vectorised(
        #[inline(always)]
        || alphabet.all_raw_bits(symbols),
    );
    if total == 0 {
        return;
    }
    let raw = (total / 8) as usize;
    let lanes = if raw <= FEW_RAW_BYTES && out.len() + raw <= SHORT_BLOCK { 1 } else { RAW_LANES };
    let (mut state, mut words) = (RawLanes::END, RawWords::with_room_for(total, std::mem::take(memory)));
    // The decoder runs forwards, so the encoder runs backwards: it ends with what the decoder begins with.
    let raw = RawDifferences { alphabet, lanes, symbols, differences };
    dispatch!(kernel => kernel.write_raw_bits(raw, &mut state, &mut words));
    out.push(lanes as u8);
    for (bits, count) in state.bits.iter().zip(state.counts).take(lanes) {
        out.extend_from_slice(&(bits | 1 << count).to_le_bytes());
    }
    out.extend_from_slice(words.written());
    *memory = words.bytes;
}

/// Words that fill their memory from its end.
#[derive(Debug)]
pub(crate) struct RawWords {
    pub bytes: Vec<u8>,
    /// Where the words begin.
    pub start: usize,
}

impl RawWords {
    /// Bytes that a kernel may touch before the words.
    pub const MARGIN: usize = 16;

    /// Room for so many bits and what the lanes hold at the end, in this memory if that suffices.
    fn with_room_for(bits: u64, mut bytes: Vec<u8>) -> Self {
        let words = bits.div_ceil(WORD_BITS.into()) as usize + RAW_LANES;
        let needed = 2 * words + Self::MARGIN;
        if bytes.len() < needed {
            bytes.resize(needed, 0);
        }
        Self { start: bytes.len(), bytes }
    }

    fn push(&mut self, word: u16) {
        if let Some(place) = self.bytes.get_mut(..self.start).and_then(<[u8]>::last_chunk_mut::<2>) {
            *place = word.to_le_bytes();
            self.start -= 2;
        }
    }

    fn written(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// Differences whose raw bits are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawDifferences<'a, W> {
    pub alphabet: Alphabet,
    /// 1 or [`RAW_LANES`].
    pub lanes: usize,
    pub symbols: &'a [u8],
    pub differences: &'a [W],
}

impl<W: Word> RawDifferences<'_, W> {
    /// Puts their raw bits before those that the lanes hold, the last ones first.
    pub fn write(self, state: &mut RawLanes, words: &mut RawWords) {
        let Self { alphabet, lanes, symbols, differences } = self;
        for (symbols, differences) in symbols.chunks(RAW_PIECE).zip(differences.chunks(RAW_PIECE)).rev() {
            if alphabet.all_raw_bits(symbols) > 0 {
                put_piece(alphabet, lanes, symbols, differences, state, words);
            }
        }
    }

    /// The whole pieces, and what comes after them.
    pub fn split(self) -> (Self, Self) {
        let whole = self.symbols.len() / RAW_PIECE * RAW_PIECE;
        let (symbols, last) = self.symbols.split_at(whole);
        let (differences, last_differences) = self.differences.split_at(whole.min(self.differences.len()));
        (Self { symbols, differences, ..self }, Self { symbols: last, differences: last_differences, ..self })
    }
}

fn put_piece<W: Word>(
    alphabet: Alphabet,
    lanes: usize,
    symbols: &[u8],
    differences: &[W],
    state: &mut RawLanes,
    words: &mut RawWords,
) {
    for (symbols, differences) in symbols.chunks(lanes).zip(differences.chunks(lanes)).rev() {
        for part in (0..W::BYTES as u32 / 2).rev().map(|part| part * WORD_BITS) {
            for (lane, (&symbol, difference)) in symbols.iter().zip(differences).enumerate().rev() {
                let width = alphabet.raw_bits(symbol).saturating_sub(part).min(WORD_BITS);
                if width > 0 {
                    let value = (difference.wide() >> part) as u32 & ((1 << width) - 1);
                    state.put(lane, value, width, words);
                }
            }
        }
    }
}

impl RawLanes {
    /// Puts bits before those of a lane.
    fn put(&mut self, lane: usize, value: u32, width: u32, words: &mut RawWords) {
        let (bits, count) = (&mut self.bits[lane % RAW_LANES], &mut self.counts[lane % RAW_LANES]);
        if *count + width >= 2 * WORD_BITS {
            *count -= WORD_BITS;
            words.push((*bits >> *count) as u16);
            *bits &= (1 << *count) - 1;
        }
        *bits = *bits << width | value;
        *count += width;
    }
}

/// Reads what [`write`] wrote.
#[derive(Debug)]
pub(crate) struct RawReader<'a> {
    pub state: RawLanes,
    pub words: &'a [u8],
    pub lanes: usize,
    /// Whether more was taken than the stream holds.
    overrun: bool,
}

impl<'a> RawReader<'a> {
    /// Opens the raw bits that the rest of a block is.
    pub fn open(reader: &mut Reader<'a>) -> Result<Self> {
        let mut state = RawLanes::END;
        if reader.remaining() == 0 {
            return Ok(Self { state, words: &[], lanes: 1, overrun: false });
        }
        let lanes = usize::from(reader.u8()?);
        if lanes != 1 && lanes != RAW_LANES {
            return Err(Error::corrupt("raw bits of a delta in an unknown number of lanes"));
        }
        for (bits, count) in state.bits.iter_mut().zip(&mut state.counts).take(lanes) {
            let held = u32::from_le_bytes(reader.array()?);
            *count = held.checked_ilog2().filter(|&count| count >= WORD_BITS).ok_or_else(misplaced_end)?;
            *bits = held & ((1 << *count) - 1);
        }
        Ok(Self { state, words: reader.rest(), lanes, overrun: false })
    }

    /// Reads the next piece of differences from `done` on, lane by lane, and says where it ends.
    pub fn read_piece<W: Word>(&mut self, done: usize, symbols: &[u8], differences: &mut [W]) -> usize {
        let end = symbols.len().min(done + RAW_PIECE);
        let alphabet = Alphabet::of_width(W::BYTES);
        self.take_groups(alphabet, &symbols[done..end], &mut differences[done..end]);
        end
    }

    fn take_groups<W: Word>(&mut self, alphabet: Alphabet, symbols: &[u8], differences: &mut [W]) {
        for (symbols, differences) in symbols.chunks(self.lanes).zip(differences.chunks_mut(self.lanes)) {
            for (difference, &symbol) in differences.iter_mut().zip(symbols) {
                *difference = W::from_wide(alphabet.first(symbol));
            }
            for part in (0..W::BYTES as u32 / 2).map(|part| part * WORD_BITS) {
                for (lane, (&symbol, difference)) in symbols.iter().zip(differences.iter_mut()).enumerate() {
                    let width = alphabet.raw_bits(symbol).saturating_sub(part).min(WORD_BITS);
                    if width > 0 {
                        let value = u64::from(self.take(lane, width)) << part;
                        *difference = W::from_wide(difference.wide() | value);
                    }
                }
            }
        }
    }

    /// The next bits of a lane; past the end they are zeros, which [`RawReader::finish`] notices.
    fn take(&mut self, lane: usize, width: u32) -> u32 {
        let bits = &mut self.state.bits[lane % RAW_LANES];
        let count = &mut self.state.counts[lane % RAW_LANES];
        let value = *bits & ((1 << width) - 1);
        *bits >>= width;
        *count -= width;
        if *count < WORD_BITS {
            let word = self.words.split_first_chunk::<2>();
            self.overrun |= word.is_none();
            let (word, rest) = word.unwrap_or((&[0; 2], &[]));
            *bits |= u32::from(u16::from_le_bytes(*word)) << *count;
            *count += WORD_BITS;
            self.words = rest;
        }
        value
    }

    /// Goes on after so many bytes of words. Where fewer are left, a kernel read zeros in their place, and
    /// the stream is overrun.
    pub fn skip_words(&mut self, bytes: usize) {
        self.overrun |= bytes > self.words.len();
        self.words = self.words.get(bytes..).unwrap_or_default();
    }

    /// Fails unless exactly all bits were read.
    pub fn finish(&self) -> Result<()> {
        if self.words.is_empty() && !self.overrun && self.state == RawLanes::END {
            return Ok(());
        }
        Err(misplaced_end())
    }
}

/// Differences that are read together; a kernel's pieces are as long.
pub(crate) const RAW_PIECE: usize = 4 * RAW_LANES;

fn misplaced_end() -> Error {
    Error::corrupt("the raw bits of a delta do not end where they should")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Kernel;
    use proptest::prelude::*;

    fn survives<W: Word + PartialEq + std::fmt::Debug>(values: &[u64]) {
        let alphabet = Alphabet::of_width(W::BYTES);
        let differences: Vec<W> = values.iter().map(|&value| W::from_wide(value)).collect();
        let symbols: Vec<u8> = differences.iter().map(|&value| alphabet.symbol(value)).collect();
        let written: Vec<Vec<u8>> = Kernel::available()
            .into_iter()
            .map(|kernel| {
                kernel.run(|| {
                    let mut bytes = Vec::new();
                    write(&symbols, &differences, &mut Vec::new(), &mut bytes);
                    bytes
                })
            })
            .collect();
        assert!(written.iter().all(|bytes| *bytes == written[0]));
        for kernel in Kernel::available() {
            kernel.run(|| {
                let mut reader = RawReader::open(&mut Reader::new(&written[0], "raw bits")).unwrap();
                let mut read = vec![W::default(); differences.len()];
                for (symbols, read) in symbols.chunks(256).zip(read.chunks_mut(256)) {
                    dispatch!(kernel => kernel.read_differences(&mut reader, symbols, read));
                }
                reader.finish().unwrap();
                assert_eq!(read, differences);
                let shorter = &written[0][..written[0].len().saturating_sub(2)];
                if let Ok(mut reader) = RawReader::open(&mut Reader::new(shorter, "raw bits")) {
                    for (symbols, read) in symbols.chunks(256).zip(read.chunks_mut(256)) {
                        dispatch!(kernel => kernel.read_differences(&mut reader, symbols, read));
                    }
                    assert!(reader.finish().is_err() || written[0].is_empty());
                }
            });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn kernels_agree_on_write_raw_bits_and_read_differences(
            fields in proptest::collection::vec((any::<u64>(), 0u32..64), 0..3000),
            least in 0u32..64,
            repeats in 1usize..5,
        ) {
            let fields = fields.repeat(repeats);
            let values: Vec<u64> = fields.iter().map(|&(value, shift)| value >> shift.max(least)).collect();
            survives::<u8>(&values);
            survives::<u16>(&values);
            survives::<u32>(&values);
            survives::<u64>(&values);
        }
    }
}
