//! The reference implementation of the hot loops, without `unsafe` or intrinsics.

use crate::entropy::rans::{DecoderTables, LANES, STATE_MIN};

/// See [`super::Kernel::rans_decode`].
pub(super) fn rans_decode(
    tables: &DecoderTables,
    states: &mut [u32; LANES],
    contexts: &[u8],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    if contexts.is_empty() {
        decode::<false>(tables, states, contexts, words, out)
    } else {
        decode::<true>(tables, states, contexts, words, out)
    }
}

fn decode<const CONTEXTS: bool>(
    tables: &DecoderTables,
    states: &mut [u32; LANES],
    contexts: &[u8],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    let (slots, precision) = (tables.slots(), tables.precision());
    let slot_mask = (1usize << precision) - 1;
    let (mut symbols, mut bytes) = (0, 0);
    for group in out.chunks_exact_mut(LANES) {
        // A group takes at most one word per lane.
        let Some(window) = words.get(bytes..).and_then(<[u8]>::first_chunk::<{ 2 * LANES }>) else { break };
        let group_contexts = if CONTEXTS { contexts.get(symbols..symbols + LANES) } else { None };
        if CONTEXTS && group_contexts.is_none() {
            break;
        }
        let mut used = 0usize;
        for lane in 0..LANES {
            let state = states[lane];
            let mut index = state as usize & slot_mask;
            if let Some(group_contexts) = group_contexts {
                index |= usize::from(group_contexts[lane]) << precision;
            }
            let entry = slots[index & (slots.len() - 1)];
            group[lane] = entry as u8;
            let next = (entry >> 20) * (state >> precision) + (entry >> 8 & 0xfff);
            // The word is read either way; a conditional move keeps it or not, where a branch would be a coin toss.
            let position = 2 * (used & (LANES - 1));
            let word = u32::from(window[position]) | u32::from(window[position + 1]) << 8;
            let small = next < STATE_MIN;
            states[lane] = if small { next << 16 | word } else { next };
            used += usize::from(small);
        }
        symbols += LANES;
        bytes += 2 * used;
    }
    (symbols, bytes)
}
