//! Eight numbers in two registers of NEON.
#![allow(unsafe_code)]

use super::words::{next_words, set_of};
use crate::arch::eight::EightLanes;
use crate::arch::shuffles::BYTES_OF_WORDS;
use std::arch::aarch64::*;

/// Numbers with a sign, four in each register.
#[derive(Debug, Clone, Copy)]
pub(super) struct EightSigned(int32x4_t, int32x4_t);

/// Methods that are one instruction for each register.
macro_rules! instructions {
    ($($name:ident($($other:ident),*) => $instruction:ident;)*) => {
        $(#[inline(always)]
        unsafe fn $name(self, $($other: Self),*) -> Self {
            // SAFETY: the caller vouches for the instructions.
            unsafe { Self($instruction(self.0, $($other.0),*), $instruction(self.1, $($other.1),*)) }
        })*
    };
}

/// The numbers of both registers without a sign.
#[inline(always)]
fn unsigned(EightSigned(low, high): EightSigned) -> [uint32x4_t; 2] {
    // SAFETY: a `Neon` has called this, and the bits stay the same.
    unsafe { [vreinterpretq_u32_s32(low), vreinterpretq_u32_s32(high)] }
}

#[inline(always)]
fn signed([low, high]: [uint32x4_t; 2]) -> EightSigned {
    // SAFETY: a `Neon` has called this, and the bits stay the same.
    unsafe { EightSigned(vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high)) }
}

// SAFETY, here and below: the caller vouches for the instructions and for what it points to.
impl EightLanes for EightSigned {
    instructions! {
        add(other) => vaddq_s32;
        sub(other) => vsubq_s32;
        multiply(other) => vmulq_s32;
        and(other) => vandq_s32;
        or(other) => vorrq_s32;
        least(other) => vminq_s32;
        greatest(other) => vmaxq_s32;
        without(mask) => vbicq_s32;
        shift_left_by(bits) => vshlq_s32;
    }

    #[inline(always)]
    unsafe fn all(number: i32) -> Self {
        // SAFETY: see above.
        unsafe { Self(vdupq_n_s32(number), vdupq_n_s32(number)) }
    }

    #[inline(always)]
    unsafe fn of(numbers: [i32; 8]) -> Self {
        // SAFETY: see above.
        unsafe { Self::load(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load(numbers: *const i32) -> Self {
        // SAFETY: see above.
        unsafe { Self(vld1q_s32(numbers), vld1q_s32(numbers.add(4))) }
    }

    #[inline(always)]
    unsafe fn store(self, numbers: *mut i32) {
        // SAFETY: see above.
        unsafe {
            vst1q_s32(numbers, self.0);
            vst1q_s32(numbers.add(4), self.1);
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(bytes: *const u8) -> Self {
        // SAFETY: see above.
        unsafe {
            let words = vmovl_u8(vld1_u8(bytes));
            signed([vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)])
        }
    }

    #[inline(always)]
    unsafe fn store_unsigned_words(self, words: *mut u16) {
        // SAFETY: see above; the numbers fit.
        unsafe { self.store_signed_words(words.cast()) }
    }

    #[inline(always)]
    unsafe fn store_signed_words(self, words: *mut i16) {
        // SAFETY: see above.
        unsafe { vst1q_s16(words, vuzp1q_s16(vreinterpretq_s16_s32(self.0), vreinterpretq_s16_s32(self.1))) }
    }

    #[inline(always)]
    unsafe fn load_pairs(places: [*const i32; 8]) -> (Self, Self) {
        let [a, b, c, d, e, f, g, h] = places;
        // SAFETY: see above.
        unsafe {
            let (ab, cd) = (vcombine_s32(vld1_s32(a), vld1_s32(b)), vcombine_s32(vld1_s32(c), vld1_s32(d)));
            let (ef, gh) = (vcombine_s32(vld1_s32(e), vld1_s32(f)), vcombine_s32(vld1_s32(g), vld1_s32(h)));
            (Self(vuzp1q_s32(ab, cd), vuzp1q_s32(ef, gh)), Self(vuzp2q_s32(ab, cd), vuzp2q_s32(ef, gh)))
        }
    }

    #[inline(always)]
    unsafe fn store_pairs(first: Self, second: Self, places: [*mut i32; 8]) {
        // SAFETY: see above.
        unsafe {
            let twos = [
                vzip1q_s32(first.0, second.0),
                vzip2q_s32(first.0, second.0),
                vzip1q_s32(first.1, second.1),
                vzip2q_s32(first.1, second.1),
            ];
            for (two, places) in twos.into_iter().zip(places.as_chunks::<2>().0) {
                vst1_s32(places[0], vget_low_s32(two));
                vst1_s32(places[1], vget_high_s32(two));
            }
        }
    }

    #[inline(always)]
    unsafe fn least_unsigned(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (unsigned(self), unsigned(other));
        // SAFETY: see above.
        unsafe { signed([vminq_u32(a, c), vminq_u32(b, d)]) }
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { Self(vshlq_n_s32::<BITS>(self.0), vshlq_n_s32::<BITS>(self.1)) }
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: i32>(self) -> Self {
        let [low, high] = unsigned(self);
        // SAFETY: see above.
        unsafe { signed([vshrq_n_u32::<BITS>(low), vshrq_n_u32::<BITS>(high)]) }
    }

    #[inline(always)]
    unsafe fn shift_right_signed<const BITS: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { Self(vshrq_n_s32::<BITS>(self.0), vshrq_n_s32::<BITS>(self.1)) }
    }

    #[inline(always)]
    unsafe fn is_greater(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { signed([vcgtq_s32(self.0, other.0), vcgtq_s32(self.1, other.1)]) }
    }

    #[inline(always)]
    unsafe fn is_equal(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { signed([vceqq_s32(self.0, other.0), vceqq_s32(self.1, other.1)]) }
    }

    #[inline(always)]
    unsafe fn select(self, other: Self, mask: Self) -> Self {
        let [low, high] = unsigned(mask);
        // SAFETY: see above.
        unsafe { Self(vbslq_s32(low, self.0, other.0), vbslq_s32(high, self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn set_of(self) -> u8 {
        // SAFETY: see above.
        unsafe { set_of(unsigned(self)) as u8 }
    }

    #[inline(always)]
    unsafe fn pairs(self) -> [u64; 4] {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (vreinterpretq_u64_s32(self.0), vreinterpretq_u64_s32(self.1));
            [
                vgetq_lane_u64::<0>(low),
                vgetq_lane_u64::<1>(low),
                vgetq_lane_u64::<0>(high),
                vgetq_lane_u64::<1>(high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn look_up(table: *const i32, index: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let [a, b, c, d] = index.pairs();
            let low = vld1q_lane_s32::<0>(table.add(a as u32 as usize), vdupq_n_s32(0));
            let low = vld1q_lane_s32::<1>(table.add((a >> 32) as usize), low);
            let low = vld1q_lane_s32::<2>(table.add(b as u32 as usize), low);
            let low = vld1q_lane_s32::<3>(table.add((b >> 32) as usize), low);
            let high = vld1q_lane_s32::<0>(table.add(c as u32 as usize), vdupq_n_s32(0));
            let high = vld1q_lane_s32::<1>(table.add((c >> 32) as usize), high);
            let high = vld1q_lane_s32::<2>(table.add(d as u32 as usize), high);
            Self(low, vld1q_lane_s32::<3>(table.add((d >> 32) as usize), high))
        }
    }

    /// By the bytes of both registers of the table.
    #[inline(always)]
    unsafe fn look_up_eight(table: *const i32, index: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let table = vld1q_u8_x2(table.cast());
            let bytes = |index: int32x4_t| {
                // Four times the index in each byte, and which byte it is.
                let first = vmulq_s32(index, vdupq_n_s32(0x0404_0404));
                vreinterpretq_u8_s32(vaddq_s32(first, vdupq_n_s32(0x0302_0100)))
            };
            let low = vqtbl2q_u8(table, bytes(index.0));
            let high = vqtbl2q_u8(table, bytes(index.1));
            Self(vreinterpretq_s32_u8(low), vreinterpretq_s32_u8(high))
        }
    }

    #[inline(always)]
    unsafe fn next_words(set: u8, words: *const u16) -> (Self, usize) {
        let mut bytes = 0;
        // SAFETY: see above.
        unsafe {
            let words = next_words(usize::from(set), words.cast(), &mut bytes);
            let words = signed([vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)]);
            (words, usize::from(BYTES_OF_WORDS[usize::from(set)]) / 2)
        }
    }
}
