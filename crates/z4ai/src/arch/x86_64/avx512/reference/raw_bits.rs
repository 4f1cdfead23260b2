//! The raw bits of differences with AVX-512: what symbols say of them sixteen at a time, the bits themselves
//! in their eight lanes.
//!
//! A lane holds between 16 and 31 bits whenever a step begins, so its count is kept modulo 16: a refill of 16
//! bits leaves that as it is.
#![allow(unsafe_code)]

use crate::arch::shuffles::WORDS_TO_END;
use crate::arch::x86_64::avx2::WORDS_TO_LANES;
use crate::transform::reference::{Alphabet, RAW_LANES, RawLanes, RawWords, WORD_BITS, Word};
use std::arch::asm;
use std::arch::x86_64::*;

/// Puts the raw bits of whole pairs of groups of differences before those that the eight lanes hold.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2,popcnt")]
pub(in crate::arch) fn write<W: Word>(
    alphabet: Alphabet,
    symbols: &[u8],
    differences: &[W],
    state: &mut RawLanes,
    words: &mut RawWords,
) {
    let count = symbols.len().min(differences.len()) / (2 * RAW_LANES) * (2 * RAW_LANES);
    let split = RawSplit::new(alphabet);
    let mut lanes = RawRegisters::load(state);
    for place in (0..count).step_by(2 * RAW_LANES).rev() {
        // SAFETY: there are sixteen symbols and differences from `place` on.
        let (symbols, differences) = unsafe {
            let differences = differences.as_ptr().add(place);
            let differences = if W::BYTES == 2 {
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(differences.cast()))
            } else {
                _mm512_loadu_si512(differences.cast())
            };
            let symbols = _mm_loadu_si128(symbols.as_ptr().add(place).cast());
            (_mm512_cvtepu8_epi32(symbols), differences)
        };
        let (widths, large) = split.widths(symbols);
        if large == 0 {
            continue;
        }
        let values = _mm512_andnot_si512(ones_above(widths), differences);
        let low = word_at_most(widths);
        let low_values = _mm512_and_si512(values, _mm512_set1_epi32(0xffff));
        let more = _mm512_sub_epi32(widths, low);
        let any_more = W::BYTES == 4 && _mm512_test_epi32_mask(more, more) != 0;
        let more_values = _mm512_srli_epi32::<16>(values);
        if any_more {
            lanes.put(second_half(more), second_half(more_values), words);
        }
        lanes.put(second_half(low), second_half(low_values), words);
        if any_more {
            lanes.put(first_half(more), first_half(more_values), words);
        }
        lanes.put(first_half(low), first_half(low_values), words);
    }
    lanes.store(state);
}

/// Splits symbols into the leading bits of a difference and the number of raw bits below these.
pub(in crate::arch) struct RawSplit {
    /// The largest symbol without raw bits.
    last_direct: __m512i,
    /// A symbol without its low bits, minus this, is the number of raw bits.
    bias: __m512i,
}

/// Bits below the highest that symbols of large differences have, in the alphabets of two and of four bytes.
pub(super) const TOP_BITS: u32 = 3;

impl RawSplit {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn new(alphabet: Alphabet) -> Self {
        debug_assert_eq!(alphabet.top_bits, TOP_BITS);
        let direct = alphabet.direct() as i32;
        Self {
            last_direct: _mm512_set1_epi32(direct - 1),
            bias: _mm512_set1_epi32((direct >> TOP_BITS) - (alphabet.direct_bits - TOP_BITS) as i32),
        }
    }

    /// Whether no symbol has raw bits; `symbols` is the bitwise *or* of registers of sixteen.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn are_direct(&self, symbols: __m512i) -> bool {
        // The bits that only symbols with raw bits have.
        let large_bits = _mm512_andnot_si512(self.last_direct, _mm512_set1_epi32(0xff));
        _mm512_test_epi32_mask(symbols, large_bits) == 0
    }

    /// How many raw bits sixteen symbols have, and which have any.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn widths(&self, symbols: __m512i) -> (__m512i, __mmask16) {
        let large = _mm512_cmpgt_epi32_mask(symbols, self.last_direct);
        (_mm512_maskz_sub_epi32(large, _mm512_srli_epi32::<TOP_BITS>(symbols), self.bias), large)
    }
}

/// The lanes in registers.
#[derive(Clone, Copy)]
pub(in crate::arch) struct RawRegisters {
    bits: __m256i,
    /// How many bits each has beyond 16.
    beyond: __m256i,
}

impl RawRegisters {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn load(lanes: &RawLanes) -> Self {
        // SAFETY: both arrays hold eight u32.
        unsafe {
            let counts = _mm256_loadu_si256(lanes.counts.as_ptr().cast());
            Self {
                bits: _mm256_loadu_si256(lanes.bits.as_ptr().cast()),
                beyond: _mm256_sub_epi32(counts, _mm256_set1_epi32(WORD_BITS as i32)),
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn store(&self, lanes: &mut RawLanes) {
        let counts = _mm256_add_epi32(self.beyond, _mm256_set1_epi32(WORD_BITS as i32));
        let above = _mm256_sllv_epi32(_mm256_set1_epi32(-1), counts);
        // SAFETY: both arrays hold eight u32.
        unsafe {
            // Bits that have left a lane for the words are cut off here only.
            let bits = _mm256_andnot_si256(above, self.bits);
            _mm256_storeu_si256(lanes.bits.as_mut_ptr().cast(), bits);
            _mm256_storeu_si256(lanes.counts.as_mut_ptr().cast(), counts);
        }
    }

    /// The differences of two bytes with these sixteen symbols; they have fewer raw bits than a word.
    ///
    /// # Safety
    ///
    /// 32 bytes must be readable at `words + bytes`; `bytes` grows by at most as many.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,popcnt")]
    pub unsafe fn read(
        &mut self,
        split: &RawSplit,
        symbols: __m512i,
        words: *const u8,
        bytes: &mut usize,
    ) -> __m512i {
        let (widths, large) = split.widths(symbols);
        // Symbols with raw bits begin at a multiple of `1 << top_bits`, so that their low bits are those
        // below the leading one of the difference.
        let top = _mm512_and_si512(symbols, _mm512_set1_epi32((1 << TOP_BITS) - 1));
        let top = _mm512_or_si512(top, _mm512_set1_epi32(1 << TOP_BITS));
        let first = _mm512_mask_blend_epi32(large, symbols, shifted_left(top, widths));
        // SAFETY: the caller vouches for the words of both steps.
        let bits = unsafe {
            let lower = self.take(first_half(widths), words, bytes);
            both(lower, self.take(second_half(widths), words, bytes))
        };
        _mm512_or_si512(first, _mm512_andnot_si512(ones_above(widths), bits))
    }

    /// Takes so many bits, at most 16, off each lane. Returns the lanes as they were, whose lowest bits are
    /// those that were taken.
    ///
    /// # Safety
    ///
    /// 16 bytes must be readable at `words + bytes`; `bytes` grows by at most as many.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,popcnt")]
    unsafe fn take(&mut self, widths: __m256i, words: *const u8, bytes: &mut usize) -> __m256i {
        let before = self.bits;
        let left = _mm256_sub_epi32(self.beyond, widths);
        let few = _mm256_movepi32_mask(left);
        // SAFETY: the caller vouches for the words; the table has an entry for each mask.
        let (fresh, order) = unsafe {
            (
                _mm_loadu_si128(words.add(*bytes).cast()),
                _mm256_load_si256(WORDS_TO_LANES.as_ptr().add(usize::from(few)).cast()),
            )
        };
        let fresh = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(fresh), order);
        *bytes += 2 * few.count_ones() as usize;
        self.beyond = _mm256_and_si256(left, _mm256_set1_epi32(WORD_BITS as i32 - 1));
        // A lane that takes a word has as many bits below it as it will have beyond 16.
        let fresh = _mm256_sllv_epi32(fresh, self.beyond);
        self.bits = _mm256_or_si256(shifted_right(before, widths), fresh);
        before
    }

    /// Puts values of so many bits, at most 16, before those of each lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2,popcnt")]
    fn put(&mut self, widths: __m256i, values: __m256i, words: &mut RawWords) {
        assert!(words.start <= words.bytes.len() && words.start >= RawWords::MARGIN);
        let sum = _mm256_add_epi32(self.beyond, widths);
        let full = usize::from(_mm256_test_epi32_mask(sum, _mm256_set1_epi32(WORD_BITS as i32)));
        let leaving = _mm256_cvtepi32_epi16(_mm256_srlv_epi32(self.bits, self.beyond));
        // SAFETY: the table has 256 entries of 16 bytes, and there are as many before the words (see above).
        unsafe {
            let order = _mm_loadu_si128(WORDS_TO_END.as_ptr().add(full).cast());
            let place = words.bytes.as_mut_ptr().add(words.start - RawWords::MARGIN);
            _mm_storeu_si128(place.cast(), _mm_shuffle_epi8(leaving, order));
        }
        words.start -= 2 * full.count_ones() as usize;
        self.bits = _mm256_or_si256(_mm256_sllv_epi32(self.bits, widths), values);
        self.beyond = _mm256_and_si256(sum, _mm256_set1_epi32(WORD_BITS as i32 - 1));
    }
}

/// All ones, shifted to the left by these widths.
#[inline]
#[target_feature(enable = "avx512f")]
fn ones_above(widths: __m512i) -> __m512i {
    shifted_left(_mm512_set1_epi32(-1), widths)
}

/// `_mm512_sllv_epi32`, in assembly: compilers lower the intrinsic to a generic shift and a selection of zero
/// for shifts beyond 31 bits, which the instruction gives by itself.
#[inline]
#[target_feature(enable = "avx512f")]
fn shifted_left(numbers: __m512i, widths: __m512i) -> __m512i {
    let shifted: __m512i;
    // SAFETY: this instruction, which AVX-512F has, works on registers.
    unsafe {
        asm!("vpsllvd {}, {}, {}", out(zmm_reg) shifted, in(zmm_reg) numbers, in(zmm_reg) widths, options(pure, nomem, nostack, preserves_flags));
    }
    shifted
}

/// `_mm256_srlv_epi32`, in assembly for the same reason.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn shifted_right(numbers: __m256i, widths: __m256i) -> __m256i {
    let shifted: __m256i;
    // SAFETY: this instruction, which AVX-512VL has, works on registers.
    unsafe {
        asm!("vpsrlvd {}, {}, {}", out(ymm_reg) shifted, in(ymm_reg) numbers, in(ymm_reg) widths, options(pure, nomem, nostack, preserves_flags));
    }
    shifted
}

/// The widths, limited to the 16 bits of a word.
#[inline]
#[target_feature(enable = "avx512f")]
fn word_at_most(widths: __m512i) -> __m512i {
    _mm512_min_epi32(widths, _mm512_set1_epi32(WORD_BITS as i32))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn first_half(numbers: __m512i) -> __m256i {
    _mm512_castsi512_si256(numbers)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn second_half(numbers: __m512i) -> __m256i {
    _mm512_extracti64x4_epi64::<1>(numbers)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn both(first: __m256i, second: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
}
