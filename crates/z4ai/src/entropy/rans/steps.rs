//! The hot loops of rANS streams.

use super::{DecoderTables, EncoderTables, LANES, MOST_LANES, STATE_MIN, SymbolDecoder};
use crate::arch::Instructions;
use crate::error::Result;

/// Steps that kernels override.
pub(crate) trait Steps: Instructions {
    /// Decodes the next `out.len()` symbols of a stream. `offsets` has where in the slots each symbol's
    /// context begins, or is empty for context 0.
    fn decode_symbols(self, stream: &mut SymbolDecoder, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        decode_symbols(self, stream, offsets, out)
    }

    /// Encodes a stream of 1, 4, [`LANES`] or [`MOST_LANES`] lanes from its last symbol to its first, and
    /// returns where its words begin; they fill `words` to the end. There is room for two bytes per symbol
    /// and two per lane more. `contexts` is as long as `symbols`, or empty.
    fn encode_symbols(
        self,
        tables: &EncoderTables,
        lanes: usize,
        states: &mut [u32; MOST_LANES],
        symbols: &[u8],
        contexts: &[u8],
        words: &mut [u8],
    ) -> usize {
        encode_symbols(self, tables, lanes, states, symbols, contexts, words)
    }
}

/// The portable form of [`Steps::decode_symbols`].
pub(crate) fn decode_symbols<K: Steps>(
    kernel: K,
    stream: &mut SymbolDecoder,
    offsets: &[u16],
    out: &mut [u8],
) -> Result<()> {
    let SymbolDecoder { tables, states, lanes, words } = stream;
    let (done, bytes) = match *lanes {
        1 => decode_groups::<1>(tables, states, offsets, words, out),
        4 => kernel.vectorised(
            #[inline(always)]
            || decode_groups::<4>(tables, states, offsets, words, out),
        ),
        LANES => decode_groups::<LANES>(tables, states, offsets, words, out),
        _ => decode_groups::<MOST_LANES>(tables, states, offsets, words, out),
    };
    stream.skip_words(bytes);
    stream.decode_from(done, offsets, out)
}

/// The portable form of [`Steps::encode_symbols`].
pub(crate) fn encode_symbols<K: Steps>(
    kernel: K,
    tables: &EncoderTables,
    lanes: usize,
    states: &mut [u32; MOST_LANES],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
) -> usize {
    let end = words.len();
    match lanes {
        1 => kernel.vectorised(
            #[inline(always)]
            || encode_groups::<1>(tables, states, symbols, contexts, words, end),
        ),
        4 => kernel.vectorised(
            #[inline(always)]
            || encode_groups::<4>(tables, states, symbols, contexts, words, end),
        ),
        LANES => encode_groups::<LANES>(tables, states, symbols, contexts, words, end),
        _ => encode_groups::<MOST_LANES>(tables, states, symbols, contexts, words, end),
    }
}

/// Decodes a stream of [`LANES`] lanes or more with the loop of a kernel, which `groups` is: given the
/// tables, the states, the words and where the symbols go, it decodes whole groups while the words certainly
/// suffice for the next, and returns how many symbols and bytes of words those were. The rest goes one by
/// one. Shorter streams are for the portable code.
pub(crate) fn decode_by_groups<K: Steps>(
    kernel: K,
    stream: &mut SymbolDecoder,
    offsets: &[u16],
    out: &mut [u8],
    groups: impl FnOnce(&DecoderTables, &mut [u32], &[u8], &mut [u8]) -> (usize, usize),
) -> Result<()> {
    let SymbolDecoder { tables, states, lanes, words } = stream;
    if *lanes < LANES {
        return decode_symbols(kernel, stream, offsets, out);
    }
    let (done, bytes) = groups(tables, &mut states[..*lanes], words, out);
    stream.skip_words(bytes);
    stream.decode_from(done, offsets, out)
}

/// Encodes a stream of [`LANES`] lanes or more with the loop of a kernel, which `groups` is: given the
/// states, whole groups of symbols with their contexts, the words and where those so far begin, it returns
/// where they begin then. What is left at the end of the symbols is encoded before, by the portable code.
pub(crate) fn encode_by_groups(
    tables: &EncoderTables,
    lanes: usize,
    states: &mut [u32; MOST_LANES],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    groups: impl FnOnce(&mut [u32], &[u8], &[u8], &mut [u8], usize) -> usize,
) -> usize {
    let whole = symbols.len() / lanes * lanes;
    let (symbols, last) = symbols.split_at(whole);
    let (contexts, last_contexts) = contexts.split_at(whole.min(contexts.len()));
    let end = words.len();
    // The last group is one group for any number of lanes that it may have.
    let end = encode_groups::<MOST_LANES>(tables, states, last, last_contexts, words, end);
    groups(&mut states[..lanes], symbols, contexts, words, end)
}

/// Decodes whole groups of one symbol for each of N lanes while the words certainly suffice for the next
/// group, and returns how many symbols and bytes of words that were.
#[inline(always)]
fn decode_groups<const N: usize>(
    tables: &DecoderTables,
    states: &mut [u32; MOST_LANES],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    if offsets.is_empty() {
        decode::<N, false>(tables, states, offsets, words, out)
    } else {
        decode::<N, true>(tables, states, offsets, words, out)
    }
}

#[inline(always)]
fn decode<const N: usize, const OFFSETS: bool>(
    tables: &DecoderTables,
    states: &mut [u32; MOST_LANES],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    let (slots, precision) = (tables.slots(), tables.precision());
    let slot_mask = (1usize << precision) - 1;
    let (mut symbols, mut bytes) = (0, 0);
    let mut lanes: [u32; N] = std::array::from_fn(|lane| states[lane & (MOST_LANES - 1)]);
    for group in out.as_chunks_mut::<N>().0 {
        // A group takes at most one word per lane.
        let Some(window) = WordWindow::<N>::at(words, bytes) else { break };
        let group_offsets = offsets.get(symbols..).and_then(<[u16]>::first_chunk::<N>);
        if OFFSETS && group_offsets.is_none() {
            break;
        }
        let mut used = 0usize;
        for lane in 0..N {
            let state = lanes[lane];
            let mut index = state as usize & slot_mask;
            if OFFSETS && let Some(group_offsets) = group_offsets {
                index |= usize::from(group_offsets[lane]);
            }
            let entry = slots[index & (slots.len() - 1)];
            group[lane] = entry as u8;
            let next = (entry >> 20) * (state >> precision) + (entry >> 8 & 0xfff);
            // Branch-free: whether a lane refills is unpredictable, so the word is always loaded and masked
            // out.
            let small = u32::from(next < STATE_MIN);
            lanes[lane] = next << (16 * small) | window.word(used) & small.wrapping_neg();
            used += small as usize;
        }
        symbols += N;
        bytes += 2 * used;
    }
    states.iter_mut().zip(lanes).for_each(|(state, lane)| *state = lane);
    (symbols, bytes)
}

/// The next words of a stream with N lanes. Those of few lanes fit a register, from where a word comes sooner
/// than from memory.
enum WordWindow<'w, const N: usize> {
    Register(u64),
    Memory(&'w [u8; 2 * MOST_LANES]),
}

impl<'w, const N: usize> WordWindow<'w, N> {
    #[inline(always)]
    fn at(words: &'w [u8], position: usize) -> Option<Self> {
        let words = words.get(position..)?;
        if N <= 4 {
            return words.first_chunk().map(|chunk| Self::Register(u64::from_le_bytes(*chunk)));
        }
        words.first_chunk().map(Self::Memory)
    }

    /// The word after `used` others, fewer than N.
    #[inline(always)]
    fn word(&self, used: usize) -> u32 {
        match self {
            Self::Register(words) => (words >> (16 * (used & 3))) as u32 & 0xffff,
            Self::Memory(words) => {
                let position = 2 * (used & (MOST_LANES - 1));
                u32::from(words[position]) | u32::from(words[position + 1]) << 8
            }
        }
    }
}

/// Encodes a stream of N lanes whose words end at `end`. The first symbol belongs to lane 0.
#[inline(always)]
fn encode_groups<const N: usize>(
    tables: &EncoderTables,
    states: &mut [u32; MOST_LANES],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    end: usize,
) -> usize {
    if contexts.is_empty() {
        encode::<N, false>(tables, states, symbols, contexts, words, end)
    } else {
        encode::<N, true>(tables, states, symbols, contexts, words, end)
    }
}

#[inline(always)]
fn encode<const N: usize, const CONTEXTS: bool>(
    tables: &EncoderTables,
    states: &mut [u32; MOST_LANES],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    end: usize,
) -> usize {
    let (entries, precision) = (tables.entries(), tables.precision());
    let mut start = end;
    for (index, group) in symbols.chunks(N).enumerate().rev() {
        let contexts = if CONTEXTS { contexts.get(index * N..).unwrap_or_default() } else { &[] };
        // A group has at most one word per lane.
        let window = words.get_mut(..start).and_then(<[u8]>::last_chunk_mut::<{ 2 * MOST_LANES }>);
        let Some(window) = window else { break };
        let mut used = 2 * MOST_LANES;
        for (lane, &symbol) in group.iter().enumerate().rev() {
            let context =
                if CONTEXTS { contexts.get(lane).map_or(0, |&context| usize::from(context)) } else { 0 };
            let entry = entries[(context << 8 | usize::from(symbol)) & (entries.len() - 1)];
            let state = states[lane];
            // Branch-free: whether a lane spills is unpredictable, so the word is always stored and kept only
            // if it had to be.
            let spill = u32::from(state >= entry.frequency() << (31 - precision));
            let place = (used - 2) & (2 * MOST_LANES - 2);
            window[place] = state as u8;
            window[place + 1] = (state >> 8) as u8;
            used -= 2 * spill as usize;
            states[lane] = entry.push(state >> (16 * spill), precision);
        }
        start -= 2 * MOST_LANES - used;
    }
    start
}
