//! The reference implementation of the hot loops, without `unsafe` or intrinsics.

use crate::entropy::rans::{DecoderTables, LANES, STATE_MIN};

/// See [`super::Kernel::rans_decode`].
pub(super) fn rans_decode(
    tables: &DecoderTables,
    states: &mut [u32; LANES],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    if offsets.is_empty() {
        decode::<false>(tables, states, offsets, words, out)
    } else {
        decode::<true>(tables, states, offsets, words, out)
    }
}

fn decode<const OFFSETS: bool>(
    tables: &DecoderTables,
    states: &mut [u32; LANES],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    let (slots, precision) = (tables.slots(), tables.precision());
    let slot_mask = (1usize << precision) - 1;
    let (mut symbols, mut bytes) = (0, 0);
    for group in out.chunks_exact_mut(LANES) {
        // A group takes at most one word per lane.
        let Some(window) = words.get(bytes..).and_then(<[u8]>::first_chunk::<{ 2 * LANES }>) else { break };
        let group_offsets = offsets.get(symbols..).and_then(<[u16]>::first_chunk::<LANES>);
        if OFFSETS && group_offsets.is_none() {
            break;
        }
        let mut used = 0usize;
        for lane in 0..LANES {
            let state = states[lane];
            let mut index = state as usize & slot_mask;
            if OFFSETS && let Some(group_offsets) = group_offsets {
                index |= usize::from(group_offsets[lane]);
            }
            let entry = slots[index & (slots.len() - 1)];
            group[lane] = entry as u8;
            let next = (entry >> 20) * (state >> precision) + (entry >> 8 & 0xfff);
            // Whether a word is wanted is a coin toss to a branch predictor, so the word is read either way and masked out.
            let position = 2 * (used & (LANES - 1));
            let word = u32::from(window[position]) | u32::from(window[position + 1]) << 8;
            let small = u32::from(next < STATE_MIN);
            states[lane] = next << (16 * small) | word & small.wrapping_neg();
            used += small as usize;
        }
        symbols += LANES;
        bytes += 2 * used;
    }
    (symbols, bytes)
}
