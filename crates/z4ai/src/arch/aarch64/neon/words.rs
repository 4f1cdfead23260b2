//! Refills and spills of eight lanes: a mask of lanes, a bit for each, indexes a table of shuffles, which
//! move the lanes' 16-bit words between registers and the stream.

use crate::arch::shuffles::{BYTES_OF_WORDS, SPREAD_WORDS, WORDS_TO_END};
use std::arch::aarch64::*;

/// Eight numbers of 32 bits.
pub(super) type Eight = [uint32x4_t; 2];

/// A bit for each lane that is all ones.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn set_of(lanes: Eight) -> usize {
    const LANE_BITS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: there are eight numbers.
    let bits = unsafe { vld1q_u16(LANE_BITS.as_ptr()) };
    usize::from(vaddvq_u16(vandq_u16(low_halves(lanes), bits)))
}

/// The low halves of eight numbers.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn low_halves([low, high]: Eight) -> uint16x8_t {
    vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high))
}

/// Refills the lanes in a set with the next words of a stream; the others get zeros.
///
/// # Safety
///
/// The set must be below 256, and 16 bytes readable at `words + bytes`; `bytes` grows by at most 16.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn next_words(set: usize, words: *const u8, bytes: &mut usize) -> uint16x8_t {
    // SAFETY: the caller vouches for the words and the set, for each of which the tables have an entry.
    unsafe {
        let fresh = vld1q_u8(words.add(*bytes));
        let order = vld1q_u8(SPREAD_WORDS.as_ptr().add(set).cast());
        *bytes += usize::from(*BYTES_OF_WORDS.as_ptr().add(set));
        vreinterpretq_u16_u8(vqtbl1q_u8(fresh, order))
    }
}

/// Spills the words of the lanes in a set in front of `words + start`, and moves `start` to the first of
/// them.
///
/// # Safety
///
/// The set must be below 256, and the 16 bytes before `words + start` writable.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn put_words(set: usize, leaving: uint16x8_t, words: *mut u8, start: &mut usize) {
    // SAFETY: the caller vouches for the place and the set, for each of which the tables have an entry.
    unsafe {
        let order = vld1q_u8(WORDS_TO_END.as_ptr().add(set).cast());
        vst1q_u8(words.add(*start - 16), vqtbl1q_u8(vreinterpretq_u8_u16(leaving), order));
        *start -= usize::from(*BYTES_OF_WORDS.as_ptr().add(set));
    }
}

/// Eight bytes as numbers.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn widened(bytes: uint8x8_t) -> Eight {
    let words = vmovl_u8(bytes);
    [vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)]
}

/// Eight numbers from a place.
///
/// # Safety
///
/// Eight numbers must be readable.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn load(place: *const u32) -> Eight {
    // SAFETY: the caller vouches for eight numbers.
    unsafe { [vld1q_u32(place), vld1q_u32(place.add(4))] }
}

/// Eight numbers to a place.
///
/// # Safety
///
/// Eight numbers must be writable.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn store(place: *mut u32, [low, high]: Eight) {
    // SAFETY: the caller vouches for eight numbers.
    unsafe {
        vst1q_u32(place, low);
        vst1q_u32(place.add(4), high);
    }
}
