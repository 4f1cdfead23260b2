//! The rANS encoder with NEON: eight lanes per step, in two registers.

use super::super::words::{Eight, low_halves, put_words, set_of};
use super::{load_states, store_states};
use crate::entropy::rans::{EncoderTables, LANES};
use crate::entropy::table::EncoderSymbol;
use std::arch::aarch64::*;

/// Encodes whole groups, whose words end at `end`, from the last to the first, and returns where the words
/// begin.
#[target_feature(enable = "neon")]
pub(super) fn encode<const PARTS: usize>(
    tables: &EncoderTables,
    states: &mut [u32],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    end: usize,
) -> usize {
    let entries = tables.entries();
    assert!(entries.len().is_power_of_two() && entries.len() <= 1 << 16);
    assert!(contexts.is_empty() || contexts.len() == symbols.len());
    // Each step stores 16 bytes that end where the words so far begin, and moves that place by two bytes per
    // symbol at most.
    assert!(end <= words.len() && end >= 2 * symbols.len() + 16);
    let index_mask = vdupq_n_u16((entries.len() - 1) as u16);
    let constants = EncoderRegisters::new(tables.precision());
    let mut registers = load_states::<PARTS>(states);
    let mut start = end;
    for group in (0..symbols.len() / (PARTS * LANES)).rev() {
        for (part, state) in registers.iter_mut().enumerate().rev() {
            for (vector, state) in state.iter_mut().enumerate().rev() {
                let place = (group * PARTS + part) * LANES + 8 * vector;
                // SAFETY: the eight symbols, and as many contexts if there are any, are inside.
                let (symbols, contexts) = unsafe {
                    let contexts = match contexts {
                        [] => vdup_n_u8(0),
                        _ => vld1_u8(contexts.as_ptr().add(place)),
                    };
                    (vld1_u8(symbols.as_ptr().add(place)), contexts)
                };
                let index = vcombine_u8(vzip1_u8(symbols, contexts), vzip2_u8(symbols, contexts));
                let index = vandq_u16(vreinterpretq_u16_u8(index), index_mask);
                // SAFETY: the indices are masked below the power-of-two number of entries, and `start` is at
                // least 16 before each step (see above).
                *state = unsafe { constants.step(entries, *state, index, words.as_mut_ptr(), &mut start) };
            }
        }
    }
    store_states(&registers, states);
    start
}

/// What the steps of a stream share.
struct EncoderRegisters {
    /// A frequency, shifted left by this, is the least state that spills before its symbol.
    limit_shift: int32x4_t,
    /// `2^precision`.
    size: uint32x4_t,
}

impl EncoderRegisters {
    #[target_feature(enable = "neon")]
    fn new(precision: u32) -> Self {
        Self { limit_shift: vdupq_n_s32(31 - precision as i32), size: vdupq_n_u32(1 << precision) }
    }

    /// Encodes one symbol in each of eight lanes and returns their states.
    ///
    /// # Safety
    ///
    /// The eight indices must be inside `entries`, and the 16 bytes before `words + start` writable.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn step(
        &self,
        entries: &[EncoderSymbol],
        state: Eight,
        index: uint16x8_t,
        words: *mut u8,
        start: &mut usize,
    ) -> Eight {
        let pairs = vreinterpretq_u64_u16(index);
        let (few, more) = (vgetq_lane_u64::<0>(pairs), vgetq_lane_u64::<1>(pairs));
        // SAFETY: the caller vouches for the indices.
        let [low, high] = unsafe { [four(entries, few), four(entries, more)] };
        let [low_keeps, high_keeps] = [self.keeps(state[0], low.1), self.keeps(state[1], high.1)];
        let set = set_of([vmvnq_u32(low_keeps), vmvnq_u32(high_keeps)]);
        // SAFETY: the caller vouches for the place.
        unsafe { put_words(set, low_halves(state), words, start) };
        [self.push(state[0], low_keeps, low), self.push(state[1], high_keeps, high)]
    }

    /// Which lanes keep all of their state.
    #[inline]
    #[target_feature(enable = "neon")]
    fn keeps(&self, state: uint32x4_t, fields: uint32x4_t) -> uint32x4_t {
        let frequency = vandq_u32(fields, vdupq_n_u32(0xfff));
        vcgtq_u32(vshlq_u32(frequency, self.limit_shift), state)
    }

    /// The states after these symbols, as [`EncoderSymbol::push`] makes them.
    #[inline]
    #[target_feature(enable = "neon")]
    fn push(
        &self,
        state: uint32x4_t,
        keeps: uint32x4_t,
        (reciprocal, fields): (uint32x4_t, uint32x4_t),
    ) -> uint32x4_t {
        let state = vbslq_u32(keeps, state, vshrq_n_u32::<16>(state));
        let low = vmull_u32(vget_low_u32(state), vget_low_u32(reciprocal));
        let high = vmull_high_u32(state, reciprocal);
        let product = vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high));
        let shift = vandq_u32(vshrq_n_u32::<12>(fields), vdupq_n_u32(15));
        let quotient = vshlq_u32(product, vnegq_s32(vreinterpretq_s32_u32(shift)));
        let complement = vsubq_u32(self.size, vandq_u32(fields, vdupq_n_u32(0xfff)));
        vmlaq_u32(vsraq_n_u32::<16>(state, fields), quotient, complement)
    }
}

/// The reciprocals and the other fields of four entries, whose indices have 16 bits each.
///
/// # Safety
///
/// The indices must be inside `entries`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn four(entries: &[EncoderSymbol], indices: u64) -> (uint32x4_t, uint32x4_t) {
    let entries = entries.as_ptr().cast::<u64>();
    // SAFETY: the caller vouches for the indices; an entry is eight bytes without padding, and such loads
    // need no alignment.
    unsafe {
        let first = vld1q_lane_u64::<0>(entries.add(indices as u16 as usize), vdupq_n_u64(0));
        let first = vld1q_lane_u64::<1>(entries.add((indices >> 16) as u16 as usize), first);
        let second = vld1q_lane_u64::<0>(entries.add((indices >> 32) as u16 as usize), vdupq_n_u64(0));
        let second = vld1q_lane_u64::<1>(entries.add((indices >> 48) as usize), second);
        let (first, second) = (vreinterpretq_u32_u64(first), vreinterpretq_u32_u64(second));
        (vuzp1q_u32(first, second), vuzp2q_u32(first, second))
    }
}
