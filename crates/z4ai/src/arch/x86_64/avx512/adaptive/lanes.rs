//! The stream of the adaptive coder's eight lanes with AVX-512: masks in place of comparisons, and words that
//! are spread by them.
#![allow(unsafe_code)]

use crate::entropy::rans::{MIXED_LANES, MixedDecoder, STATE_MIN};
use std::arch::x86_64::*;

/// The states of the lanes, and where in their window of words they are.
pub(in crate::arch) struct MaskedWordRegisters {
    pub states: __m256i,
    pub active: __mmask8,
    words: *const u16,
    used: usize,
}

impl MaskedWordRegisters {
    /// Takes over from a decoder, for the lanes of a set, at most so many steps.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
    pub fn new(decoder: &MixedDecoder, lanes: u8, steps: usize) -> Self {
        assert!(decoder.used + MIXED_LANES * steps <= decoder.window.len());
        // SAFETY: there are eight states of 32 bits.
        let states = unsafe { _mm256_loadu_si256(decoder.states.as_ptr().cast()) };
        Self { states, active: lanes, words: decoder.window.as_ptr(), used: decoder.used }
    }

    /// The slots of the next symbols or bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn slots(&self) -> __m256i {
        _mm256_and_si256(self.states, _mm256_set1_epi32(4095))
    }

    /// Goes on to these states, those that are too small with a word from the window.
    ///
    /// # Safety
    ///
    /// It may be called once for each step that was announced.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,popcnt")]
    pub unsafe fn advance(&mut self, states: __m256i) {
        // States are below 2^31, so the signed comparison is right.
        let minimum = _mm256_set1_epi32(STATE_MIN as i32);
        let small = _mm256_mask_cmplt_epi32_mask(self.active, states, minimum);
        // SAFETY: each step takes at most eight words, and for each step there were as many.
        let fresh = unsafe { _mm_loadu_si128(self.words.add(self.used).cast()) };
        let word = _mm256_maskz_expand_epi32(small, _mm256_cvtepu16_epi32(fresh));
        self.used += small.count_ones() as usize;
        let states = _mm256_mask_slli_epi32::<16>(states, small, states);
        self.states = _mm256_mask_or_epi32(self.states, self.active, states, word);
    }

    /// Hands over to the decoder.
    #[target_feature(enable = "avx2")]
    pub fn finish(self, decoder: &mut MixedDecoder) {
        decoder.used = self.used;
        // SAFETY: there are eight states of 32 bits.
        unsafe { _mm256_storeu_si256(decoder.states.as_mut_ptr().cast(), self.states) };
    }
}
