//! rANS with NEON: eight lanes per step, in two registers.

mod encode;

use super::Neon;
use super::words::{Eight, load, low_halves, next_words, set_of, store};
use crate::entropy::rans::{
    self, DecoderTables, EncoderTables, LANES, MOST_LANES, STATE_MIN, Steps, SymbolDecoder,
};
use crate::error::Result;
use std::arch::aarch64::*;

impl Steps for Neon {
    fn decode_symbols(self, stream: &mut SymbolDecoder, offsets: &[u16], out: &mut [u8]) -> Result<()> {
        rans::decode_by_groups(self, stream, offsets, out, |tables, states, words, out| {
            // SAFETY: a `Neon` exists only where the CPU has these instructions.
            unsafe {
                match (states.len() > LANES, offsets.is_empty()) {
                    (false, true) => decode::<1, false>(tables, states, offsets, words, out),
                    (false, false) => decode::<1, true>(tables, states, offsets, words, out),
                    (true, true) => decode::<2, false>(tables, states, offsets, words, out),
                    (true, false) => decode::<2, true>(tables, states, offsets, words, out),
                }
            }
        })
    }

    fn encode_symbols(
        self,
        tables: &EncoderTables,
        lanes: usize,
        states: &mut [u32; MOST_LANES],
        symbols: &[u8],
        contexts: &[u8],
        words: &mut [u8],
    ) -> usize {
        if lanes < LANES {
            return rans::encode_symbols(self, tables, lanes, states, symbols, contexts, words);
        }
        let groups = |states: &mut [u32], symbols: &[u8], contexts: &[u8], words: &mut [u8], end| {
            // SAFETY: a `Neon` exists only where the CPU has these instructions.
            unsafe {
                match lanes > LANES {
                    false => encode::encode::<1>(tables, states, symbols, contexts, words, end),
                    true => encode::encode::<2>(tables, states, symbols, contexts, words, end),
                }
            }
        };
        rans::encode_by_groups(tables, lanes, states, symbols, contexts, words, groups)
    }
}

/// States in registers, by parts of [`LANES`].
pub(super) type States<const PARTS: usize> = [[Eight; LANES / 8]; PARTS];

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_states<const PARTS: usize>(states: &[u32]) -> States<PARTS> {
    let mut registers = [[[vdupq_n_u32(0); 2]; LANES / 8]; PARTS];
    for (register, lanes) in registers.as_flattened_mut().iter_mut().zip(states.chunks_exact(8)) {
        // SAFETY: `lanes` holds eight u32.
        *register = unsafe { load(lanes.as_ptr()) };
    }
    registers
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn store_states<const PARTS: usize>(registers: &States<PARTS>, states: &mut [u32]) {
    for (register, lanes) in registers.as_flattened().iter().zip(states.chunks_exact_mut(8)) {
        // SAFETY: `lanes` holds eight u32.
        unsafe { store(lanes.as_mut_ptr(), *register) };
    }
}

/// Bytes of words that a group of so many symbols may look at: it reads at most one word per lane, and each
/// load reaches 16 bytes.
pub(super) const fn reach(lanes: usize) -> usize {
    2 * lanes + 16
}

/// Decodes whole groups of symbols while the words certainly suffice for the next, and returns how many
/// symbols and bytes of words that were.
#[target_feature(enable = "neon")]
fn decode<const PARTS: usize, const OFFSETS: bool>(
    tables: &DecoderTables,
    states: &mut [u32],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    let lanes = PARTS * LANES;
    let mut groups = out.len() / lanes;
    if OFFSETS {
        groups = groups.min(offsets.len() / lanes);
    }
    let lookup = TableLookup::new(tables);
    let mut registers = load_states::<PARTS>(states);
    let (mut group, mut bytes) = (0, 0usize);
    while group < groups && words.len() - bytes >= reach(lanes) {
        for (part, state) in registers.iter_mut().enumerate() {
            let start = group * lanes + part * LANES;
            // SAFETY: `group` is below the number of whole groups in `offsets` (if it is used) and `out`;
            // each refill takes at most 16 bytes of words, of which there were enough for all parts of the
            // group.
            unsafe {
                let mut entries = [[vdupq_n_u32(0); 2]; LANES / 8];
                for (vector, (state, entry)) in state.iter_mut().zip(&mut entries).enumerate() {
                    let offset = match OFFSETS {
                        true => lookup.masked(vld1q_u16(offsets.as_ptr().add(start + 8 * vector))),
                        false => [vdupq_n_u32(0); 2],
                    };
                    let rest;
                    (*entry, rest) = lookup.entry(*state, offset);
                    *state = refill(rest, words.as_ptr(), &mut bytes);
                }
                let [a, b, c, d] = entries;
                vst1q_u8(out.as_mut_ptr().add(start), pack_symbols(a, b));
                vst1q_u8(out.as_mut_ptr().add(start + 16), pack_symbols(c, d));
            }
        }
        group += 1;
    }
    store_states(&registers, states);
    (group * lanes, bytes)
}

/// The low bytes of sixteen entries.
#[inline]
#[target_feature(enable = "neon")]
fn pack_symbols(low: Eight, high: Eight) -> uint8x16_t {
    vuzp1q_u8(vreinterpretq_u8_u16(low_halves(low)), vreinterpretq_u8_u16(low_halves(high)))
}

/// The decoder's table with the constants of a step.
pub(super) struct TableLookup<'a> {
    slots: &'a [u32],
    index_mask: uint16x8_t,
    slot_mask: uint32x4_t,
    /// A shift to the right, which NEON writes as a negative shift to the left.
    precision: int32x4_t,
}

impl<'a> TableLookup<'a> {
    #[target_feature(enable = "neon")]
    pub fn new(tables: &'a DecoderTables) -> Self {
        let slots = tables.slots();
        assert!(slots.len().is_power_of_two() && slots.len() >= 1 << tables.precision());
        Self {
            slots,
            index_mask: vdupq_n_u16((slots.len() - 1).min(0xffff) as u16),
            slot_mask: vdupq_n_u32((1 << tables.precision()) - 1),
            precision: vdupq_n_s32(-(tables.precision() as i32)),
        }
    }

    /// Any offsets, masked so that they lie inside the table.
    #[inline]
    #[target_feature(enable = "neon")]
    fn masked(&self, offsets: uint16x8_t) -> Eight {
        let offsets = vandq_u16(offsets, self.index_mask);
        [vmovl_u16(vget_low_u16(offsets)), vmovl_high_u16(offsets)]
    }

    /// The table's entries for eight states whose contexts begin at these offsets, and the states without the
    /// symbol.
    ///
    /// # Safety
    ///
    /// The offsets must come from [`TableLookup::masked`], or be zero.
    #[inline]
    #[target_feature(enable = "neon")]
    pub unsafe fn entry(&self, state: Eight, offset: Eight) -> (Eight, Eight) {
        let index = [
            vorrq_u32(vandq_u32(state[0], self.slot_mask), offset[0]),
            vorrq_u32(vandq_u32(state[1], self.slot_mask), offset[1]),
        ];
        // SAFETY: slot and offset have no bits beyond those of an index.
        let entry = unsafe { [self.look_up(index[0]), self.look_up(index[1])] };
        (entry, [self.without(state[0], entry[0]), self.without(state[1], entry[1])])
    }

    /// The entries at four indices.
    ///
    /// # Safety
    ///
    /// The indices must be inside the table.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn look_up(&self, index: uint32x4_t) -> uint32x4_t {
        let pairs = vreinterpretq_u64_u32(index);
        let (few, more) = (vgetq_lane_u64::<0>(pairs), vgetq_lane_u64::<1>(pairs));
        let slots = self.slots.as_ptr();
        // SAFETY: the caller vouches for the indices.
        unsafe {
            let entry = vld1q_lane_u32::<0>(slots.add(few as u32 as usize), vdupq_n_u32(0));
            let entry = vld1q_lane_u32::<1>(slots.add((few >> 32) as usize), entry);
            let entry = vld1q_lane_u32::<2>(slots.add(more as u32 as usize), entry);
            vld1q_lane_u32::<3>(slots.add((more >> 32) as usize), entry)
        }
    }

    /// The states after their symbols, which have these entries, have been decoded.
    #[inline]
    #[target_feature(enable = "neon")]
    fn without(&self, state: uint32x4_t, entry: uint32x4_t) -> uint32x4_t {
        // An entry without its symbol is `frequency << 12 | offset`. Rather than masking the frequency out,
        // 2^12 is taken off its factor, the quotient, which is ready before the entry is.
        let quotient = vsubq_u32(vshlq_u32(state, self.precision), vdupq_n_u32(1 << 12));
        vmlaq_u32(vshrq_n_u32::<8>(entry), vshrq_n_u32::<20>(entry), quotient)
    }
}

/// Refills the states that are too small with a word from the stream.
///
/// # Safety
///
/// 16 bytes must be readable at `words + bytes`; `bytes` grows by at most 16.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn refill(state: Eight, words: *const u8, bytes: &mut usize) -> Eight {
    let least = vdupq_n_u32(STATE_MIN);
    let small = [vcltq_u32(state[0], least), vcltq_u32(state[1], least)];
    // SAFETY: the caller vouches for the words.
    let fresh = unsafe { next_words(set_of(small), words, bytes) };
    let shift = vdupq_n_u32(16);
    let low = vshlq_u32(state[0], vreinterpretq_s32_u32(vandq_u32(small[0], shift)));
    let high = vshlq_u32(state[1], vreinterpretq_s32_u32(vandq_u32(small[1], shift)));
    [vaddw_u16(low, vget_low_u16(fresh)), vaddw_high_u16(high, fresh)]
}
