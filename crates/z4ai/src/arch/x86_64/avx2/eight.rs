//! Eight numbers in one register of AVX2.
#![allow(unsafe_code)]

use super::rans::{WORDS_TO_LANES, look_up, pairs_of};
use crate::arch::eight::EightLanes;
use std::arch::x86_64::*;

/// Methods that are one instruction.
macro_rules! instructions {
    ($($name:ident($($other:ident),*) => $instruction:ident;)*) => {
        $(#[inline(always)]
        unsafe fn $name(self, $($other: Self),*) -> Self {
            // SAFETY: the caller vouches for the instructions.
            unsafe { $instruction(self, $($other),*) }
        })*
    };
}

// SAFETY, here and below: the caller vouches for the instructions and for what it points to.
impl EightLanes for __m256i {
    instructions! {
        add(other) => _mm256_add_epi32;
        sub(other) => _mm256_sub_epi32;
        multiply(other) => _mm256_mullo_epi32;
        and(other) => _mm256_and_si256;
        or(other) => _mm256_or_si256;
        least(other) => _mm256_min_epi32;
        least_unsigned(other) => _mm256_min_epu32;
        greatest(other) => _mm256_max_epi32;
        shift_left_by(bits) => _mm256_sllv_epi32;
        is_greater(other) => _mm256_cmpgt_epi32;
        is_equal(other) => _mm256_cmpeq_epi32;
    }

    #[inline(always)]
    unsafe fn all(number: i32) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_set1_epi32(number) }
    }

    #[inline(always)]
    unsafe fn of([a, b, c, d, e, f, g, h]: [i32; 8]) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_setr_epi32(a, b, c, d, e, f, g, h) }
    }

    #[inline(always)]
    unsafe fn load(numbers: *const i32) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(numbers.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, numbers: *mut i32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(numbers.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_bytes(bytes: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes.cast())) }
    }

    #[inline(always)]
    unsafe fn store_unsigned_words(self, words: *mut u16) {
        // SAFETY: see above.
        unsafe { store_packed(_mm256_packus_epi32(self, self), words) }
    }

    #[inline(always)]
    unsafe fn store_signed_words(self, words: *mut i16) {
        // SAFETY: see above.
        unsafe { store_packed(_mm256_packs_epi32(self, self), words.cast()) }
    }

    #[inline(always)]
    unsafe fn load_pairs(places: [*const i32; 8]) -> (Self, Self) {
        let [a, b, c, d, e, f, g, h] = places;
        // SAFETY: see above.
        unsafe {
            let pair = |place: *const i32| place.cast::<i64>().read_unaligned();
            let first = _mm256_castsi256_ps(_mm256_setr_epi64x(pair(a), pair(b), pair(e), pair(f)));
            let second = _mm256_castsi256_ps(_mm256_setr_epi64x(pair(c), pair(d), pair(g), pair(h)));
            let firsts = _mm256_shuffle_ps::<0b10_00_10_00>(first, second);
            let seconds = _mm256_shuffle_ps::<0b11_01_11_01>(first, second);
            (_mm256_castps_si256(firsts), _mm256_castps_si256(seconds))
        }
    }

    #[inline(always)]
    unsafe fn store_pairs(first: Self, second: Self, places: [*mut i32; 8]) {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (_mm256_unpacklo_epi32(first, second), _mm256_unpackhi_epi32(first, second));
            let twos = [
                _mm256_castsi256_si128(low),
                _mm256_castsi256_si128(high),
                _mm256_extracti128_si256::<1>(low),
                _mm256_extracti128_si256::<1>(high),
            ];
            for (two, places) in twos.into_iter().zip(places.as_chunks::<2>().0) {
                _mm_storel_epi64(places[0].cast(), two);
                _mm_storeh_pd(places[1].cast(), _mm_castsi128_pd(two));
            }
        }
    }

    #[inline(always)]
    unsafe fn without(self, mask: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_andnot_si256(mask, self) }
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_slli_epi32::<BITS>(self) }
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_srli_epi32::<BITS>(self) }
    }

    #[inline(always)]
    unsafe fn shift_right_signed<const BITS: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_srai_epi32::<BITS>(self) }
    }

    #[inline(always)]
    unsafe fn select(self, other: Self, mask: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_blendv_epi8(other, self, mask) }
    }

    #[inline(always)]
    unsafe fn set_of(self) -> u8 {
        // SAFETY: see above.
        unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(self)) as u8 }
    }

    #[inline(always)]
    unsafe fn pairs(self) -> [u64; 4] {
        // SAFETY: see above.
        unsafe { pairs_of(self) }
    }

    #[inline(always)]
    unsafe fn look_up(table: *const i32, index: Self) -> Self {
        // SAFETY: see above.
        unsafe { look_up(table, index) }
    }

    #[inline(always)]
    unsafe fn look_up_eight(table: *const i32, index: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_permutevar8x32_epi32(Self::load(table), index) }
    }

    #[inline(always)]
    unsafe fn next_words(set: u8, words: *const u16) -> (Self, usize) {
        // SAFETY: see above; the table has an entry for each set.
        unsafe {
            let order = _mm256_loadu_si256(WORDS_TO_LANES.as_ptr().add(usize::from(set)).cast());
            let fresh = _mm256_broadcastsi128_si256(_mm_loadu_si128(words.cast()));
            (_mm256_shuffle_epi8(fresh, order), set.count_ones() as usize)
        }
    }
}

/// Stores eight numbers that were packed to 16 bits, in the low half of each half.
///
/// # Safety
///
/// The CPU must have AVX2, and `words` be writable for eight.
#[inline(always)]
unsafe fn store_packed(packed: __m256i, words: *mut u16) {
    // SAFETY: the caller vouches for both.
    unsafe {
        let packed = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
        _mm_storeu_si128(words.cast(), packed);
    }
}
