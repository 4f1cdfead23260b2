//! Eight numbers in two registers of NEON.
#![allow(unsafe_code)]

use super::Neon;
use super::words::{next_words, set_of, widened};
use crate::arch::eight::EightLanes;
use std::arch::aarch64::*;

/// Numbers with a sign, four in each register. A value comes from a [`Neon`] or from another value, so it
/// exists only where the CPU has NEON.
#[derive(Debug, Clone, Copy)]
pub(super) struct EightInts(int32x4_t, int32x4_t);

/// The numbers of both registers without a sign.
#[inline]
#[target_feature(enable = "neon")]
fn unsigned(EightInts(low, high): EightInts) -> [uint32x4_t; 2] {
    [vreinterpretq_u32_s32(low), vreinterpretq_u32_s32(high)]
}

#[inline]
#[target_feature(enable = "neon")]
fn signed([low, high]: [uint32x4_t; 2]) -> EightInts {
    EightInts(vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high))
}

/// Methods made of intrinsics that work on registers, or load and store what references point to.
macro_rules! methods {
    ($(fn $name:ident $(<const $bits:ident: i32>)? ($($argument:tt: $type:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(#[inline(always)]
        fn $name $(<const $bits: i32>)? ($($argument: $type),*) $(-> $result)? {
            // SAFETY: a kernel or numbers are among the arguments, so the CPU has NEON; references are
            // readable or writable for what they point to, which is all that is loaded or stored.
            unsafe { $body }
        })*
    };
}

#[allow(clippy::needless_arbitrary_self_type, reason = "a macro takes `self` as any other argument")]
impl EightLanes for EightInts {
    type Kernel = Neon;

    methods! {
        fn all(_kernel: Neon, number: i32) -> Self { Self(vdupq_n_s32(number), vdupq_n_s32(number)) }
        fn load(_kernel: Neon, numbers: &[i32; 8]) -> Self {
            Self(vld1q_s32(numbers.as_ptr()), vld1q_s32(numbers.as_ptr().add(4)))
        }
        fn store(self: Self, numbers: &mut [i32; 8]) {
            vst1q_s32(numbers.as_mut_ptr(), self.0);
            vst1q_s32(numbers.as_mut_ptr().add(4), self.1);
        }
        fn load_bytes(_kernel: Neon, bytes: &[u8; 8]) -> Self { signed(widened(vld1_u8(bytes.as_ptr()))) }
        fn store_signed_words(self: Self, words: &mut [i16; 8]) {
            let (low, high) = (vreinterpretq_s16_s32(self.0), vreinterpretq_s16_s32(self.1));
            vst1q_s16(words.as_mut_ptr(), vuzp1q_s16(low, high));
        }
        fn add(self: Self, other: Self) -> Self { Self(vaddq_s32(self.0, other.0), vaddq_s32(self.1, other.1)) }
        fn sub(self: Self, other: Self) -> Self { Self(vsubq_s32(self.0, other.0), vsubq_s32(self.1, other.1)) }
        fn multiply(self: Self, other: Self) -> Self {
            Self(vmulq_s32(self.0, other.0), vmulq_s32(self.1, other.1))
        }
        fn and(self: Self, other: Self) -> Self { Self(vandq_s32(self.0, other.0), vandq_s32(self.1, other.1)) }
        fn or(self: Self, other: Self) -> Self { Self(vorrq_s32(self.0, other.0), vorrq_s32(self.1, other.1)) }
        fn without(self: Self, mask: Self) -> Self {
            Self(vbicq_s32(self.0, mask.0), vbicq_s32(self.1, mask.1))
        }
        fn least(self: Self, other: Self) -> Self {
            Self(vminq_s32(self.0, other.0), vminq_s32(self.1, other.1))
        }
        fn least_unsigned(self: Self, other: Self) -> Self {
            let ([a, b], [c, d]) = (unsigned(self), unsigned(other));
            signed([vminq_u32(a, c), vminq_u32(b, d)])
        }
        fn greatest(self: Self, other: Self) -> Self {
            Self(vmaxq_s32(self.0, other.0), vmaxq_s32(self.1, other.1))
        }
        fn shift_left<const BITS: i32>(self: Self) -> Self {
            Self(vshlq_n_s32::<BITS>(self.0), vshlq_n_s32::<BITS>(self.1))
        }
        fn shift_left_by(self: Self, bits: Self) -> Self {
            Self(vshlq_s32(self.0, bits.0), vshlq_s32(self.1, bits.1))
        }
        fn shift_right<const BITS: i32>(self: Self) -> Self {
            let [low, high] = unsigned(self);
            signed([vshrq_n_u32::<BITS>(low), vshrq_n_u32::<BITS>(high)])
        }
        fn shift_right_signed<const BITS: i32>(self: Self) -> Self {
            Self(vshrq_n_s32::<BITS>(self.0), vshrq_n_s32::<BITS>(self.1))
        }
        fn is_greater(self: Self, other: Self) -> Self {
            signed([vcgtq_s32(self.0, other.0), vcgtq_s32(self.1, other.1)])
        }
        fn is_equal(self: Self, other: Self) -> Self {
            signed([vceqq_s32(self.0, other.0), vceqq_s32(self.1, other.1)])
        }
        fn select(self: Self, other: Self, mask: Self) -> Self {
            let [low, high] = unsigned(mask);
            Self(vbslq_s32(low, self.0, other.0), vbslq_s32(high, self.1, other.1))
        }
        fn set_of(self: Self) -> u8 { set_of(unsigned(self)) as u8 }
        fn pairs(self: Self) -> [u64; 4] {
            let (low, high) = (vreinterpretq_u64_s32(self.0), vreinterpretq_u64_s32(self.1));
            [
                vgetq_lane_u64::<0>(low),
                vgetq_lane_u64::<1>(low),
                vgetq_lane_u64::<0>(high),
                vgetq_lane_u64::<1>(high),
            ]
        }
        // By the bytes of both registers of the table.
        fn look_up_eight(table: &[i32; 8], index: Self) -> Self {
            let table = vld1q_u8_x2(table.as_ptr().cast());
            let bytes = |index: int32x4_t| {
                // Four times the index in each byte, and which byte it is.
                let first = vmulq_s32(index, vdupq_n_s32(0x0404_0404));
                vreinterpretq_u8_s32(vaddq_s32(first, vdupq_n_s32(0x0302_0100)))
            };
            let (low, high) = (vqtbl2q_u8(table, bytes(index.0)), vqtbl2q_u8(table, bytes(index.1)));
            Self(vreinterpretq_s32_u8(low), vreinterpretq_s32_u8(high))
        }
        fn next_words(_kernel: Neon, set: u8, words: &[u16; 8]) -> (Self, usize) {
            let mut bytes = 0;
            let words = next_words(usize::from(set), words.as_ptr().cast(), &mut bytes);
            (signed([vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)]), bytes / 2)
        }
    }

    #[inline(always)]
    fn of(kernel: Neon, numbers: [i32; 8]) -> Self {
        Self::load(kernel, &numbers)
    }

    #[inline(always)]
    fn store_unsigned_words(self, words: &mut [u16; 8]) {
        // The numbers fit 16 bits, so their low halves are right with a sign and without one.
        self.store_signed_words(bytemuck::cast_mut(words));
    }

    #[inline(always)]
    unsafe fn load_pairs(_kernel: Neon, places: [*const i32; 8]) -> (Self, Self) {
        let [a, b, c, d, e, f, g, h] = places;
        // SAFETY: the caller vouches for the places, and the CPU has NEON since there is a kernel.
        unsafe {
            let (ab, cd) = (vcombine_s32(vld1_s32(a), vld1_s32(b)), vcombine_s32(vld1_s32(c), vld1_s32(d)));
            let (ef, gh) = (vcombine_s32(vld1_s32(e), vld1_s32(f)), vcombine_s32(vld1_s32(g), vld1_s32(h)));
            (Self(vuzp1q_s32(ab, cd), vuzp1q_s32(ef, gh)), Self(vuzp2q_s32(ab, cd), vuzp2q_s32(ef, gh)))
        }
    }

    #[inline(always)]
    unsafe fn store_pairs(first: Self, second: Self, places: [*mut i32; 8]) {
        // SAFETY: the caller vouches for the places, and the CPU has NEON since there are numbers.
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
    unsafe fn look_up(table: *const i32, index: Self) -> Self {
        let [a, b, c, d] = index.pairs();
        // SAFETY: the caller vouches for the indices, and the CPU has NEON since there are numbers.
        unsafe {
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
}
