//! Eight numbers in one register of AVX2.
#![allow(unsafe_code)]

use super::Avx2;
use super::rans::{WORDS_TO_LANES, look_up, pairs_of};
use crate::arch::eight::EightLanes;
use std::arch::x86_64::*;

/// Eight numbers of 32 bits. A value comes from an [`Avx2`] or from another value, so it exists only where
/// the CPU has AVX2.
#[derive(Debug, Clone, Copy)]
pub(in crate::arch) struct EightInts(__m256i);

impl EightInts {
    /// The numbers in a register.
    #[inline(always)]
    pub fn new(_kernel: Avx2, register: __m256i) -> Self {
        Self(register)
    }

    /// The register with the numbers.
    #[inline(always)]
    pub fn register(self) -> __m256i {
        self.0
    }
}

/// Methods made of intrinsics that work on registers, or load and store what references point to.
macro_rules! methods {
    ($(fn $name:ident $(<const $bits:ident: i32>)? ($($argument:tt: $type:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(#[inline(always)]
        fn $name $(<const $bits: i32>)? ($($argument: $type),*) $(-> $result)? {
            // SAFETY: a kernel or numbers are among the arguments, so the CPU has AVX2; references are
            // readable or writable for what they point to, which is all that is loaded or stored.
            unsafe { $body }
        })*
    };
}

#[allow(clippy::needless_arbitrary_self_type, reason = "a macro takes `self` as any other argument")]
impl EightLanes for EightInts {
    type Kernel = Avx2;

    methods! {
        fn all(_kernel: Avx2, number: i32) -> Self { Self(_mm256_set1_epi32(number)) }
        fn of(_kernel: Avx2, numbers: [i32; 8]) -> Self {
            let [a, b, c, d, e, f, g, h] = numbers;
            Self(_mm256_setr_epi32(a, b, c, d, e, f, g, h))
        }
        fn load(_kernel: Avx2, numbers: &[i32; 8]) -> Self {
            Self(_mm256_loadu_si256(numbers.as_ptr().cast()))
        }
        fn store(self: Self, numbers: &mut [i32; 8]) {
            _mm256_storeu_si256(numbers.as_mut_ptr().cast(), self.0);
        }
        fn load_bytes(_kernel: Avx2, bytes: &[u8; 8]) -> Self {
            Self(_mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes.as_ptr().cast())))
        }
        fn store_unsigned_words(self: Self, words: &mut [u16; 8]) {
            _mm_storeu_si128(words.as_mut_ptr().cast(), low_quarters(_mm256_packus_epi32(self.0, self.0)));
        }
        fn store_signed_words(self: Self, words: &mut [i16; 8]) {
            _mm_storeu_si128(words.as_mut_ptr().cast(), low_quarters(_mm256_packs_epi32(self.0, self.0)));
        }
        fn add(self: Self, other: Self) -> Self { Self(_mm256_add_epi32(self.0, other.0)) }
        fn sub(self: Self, other: Self) -> Self { Self(_mm256_sub_epi32(self.0, other.0)) }
        fn multiply(self: Self, other: Self) -> Self { Self(_mm256_mullo_epi32(self.0, other.0)) }
        fn and(self: Self, other: Self) -> Self { Self(_mm256_and_si256(self.0, other.0)) }
        fn or(self: Self, other: Self) -> Self { Self(_mm256_or_si256(self.0, other.0)) }
        fn without(self: Self, mask: Self) -> Self { Self(_mm256_andnot_si256(mask.0, self.0)) }
        fn least(self: Self, other: Self) -> Self { Self(_mm256_min_epi32(self.0, other.0)) }
        fn least_unsigned(self: Self, other: Self) -> Self { Self(_mm256_min_epu32(self.0, other.0)) }
        fn greatest(self: Self, other: Self) -> Self { Self(_mm256_max_epi32(self.0, other.0)) }
        fn shift_left<const BITS: i32>(self: Self) -> Self { Self(_mm256_slli_epi32::<BITS>(self.0)) }
        fn shift_left_by(self: Self, bits: Self) -> Self { Self(_mm256_sllv_epi32(self.0, bits.0)) }
        fn shift_right<const BITS: i32>(self: Self) -> Self { Self(_mm256_srli_epi32::<BITS>(self.0)) }
        fn shift_right_signed<const BITS: i32>(self: Self) -> Self { Self(_mm256_srai_epi32::<BITS>(self.0)) }
        fn is_greater(self: Self, other: Self) -> Self { Self(_mm256_cmpgt_epi32(self.0, other.0)) }
        fn is_equal(self: Self, other: Self) -> Self { Self(_mm256_cmpeq_epi32(self.0, other.0)) }
        fn select(self: Self, other: Self, mask: Self) -> Self {
            Self(_mm256_blendv_epi8(other.0, self.0, mask.0))
        }
        fn set_of(self: Self) -> u8 { _mm256_movemask_ps(_mm256_castsi256_ps(self.0)) as u8 }
        fn pairs(self: Self) -> [u64; 4] { pairs_of(self.0) }
        fn look_up_eight(table: &[i32; 8], index: Self) -> Self {
            Self(_mm256_permutevar8x32_epi32(_mm256_loadu_si256(table.as_ptr().cast()), index.0))
        }
        fn next_words(_kernel: Avx2, set: u8, words: &[u16; 8]) -> (Self, usize) {
            let order = _mm256_load_si256(std::ptr::from_ref(&WORDS_TO_LANES[usize::from(set)]).cast());
            let fresh = _mm256_broadcastsi128_si256(_mm_loadu_si128(words.as_ptr().cast()));
            (Self(_mm256_shuffle_epi8(fresh, order)), set.count_ones() as usize)
        }
    }

    #[inline(always)]
    unsafe fn load_pairs(_kernel: Avx2, places: [*const i32; 8]) -> (Self, Self) {
        let [a, b, c, d, e, f, g, h] = places;
        // SAFETY: the caller vouches for the places, and the CPU has AVX2 since there is a kernel.
        unsafe {
            let pair = |place: *const i32| place.cast::<i64>().read_unaligned();
            let first = _mm256_castsi256_ps(_mm256_setr_epi64x(pair(a), pair(b), pair(e), pair(f)));
            let second = _mm256_castsi256_ps(_mm256_setr_epi64x(pair(c), pair(d), pair(g), pair(h)));
            let firsts = _mm256_shuffle_ps::<0b10_00_10_00>(first, second);
            let seconds = _mm256_shuffle_ps::<0b11_01_11_01>(first, second);
            (Self(_mm256_castps_si256(firsts)), Self(_mm256_castps_si256(seconds)))
        }
    }

    #[inline(always)]
    unsafe fn store_pairs(first: Self, second: Self, places: [*mut i32; 8]) {
        // SAFETY: the caller vouches for the places, and the CPU has AVX2 since there are numbers.
        unsafe {
            let (low, high) =
                (_mm256_unpacklo_epi32(first.0, second.0), _mm256_unpackhi_epi32(first.0, second.0));
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
    unsafe fn look_up(table: *const i32, index: Self) -> Self {
        // SAFETY: the caller vouches for the indices, and the CPU has AVX2 since there are numbers.
        Self(unsafe { look_up(table, index.0) })
    }
}

/// The first quarter of a register and the third: eight numbers that were packed to 16 bits, in the low half
/// of each half.
#[inline]
#[target_feature(enable = "avx2")]
fn low_quarters(packed: __m256i) -> __m128i {
    _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed))
}
