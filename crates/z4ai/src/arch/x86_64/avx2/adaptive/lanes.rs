//! What the kernels of the adaptive coder share: its eight lanes in a register each, their tables, and their
//! stream of words.
#![allow(unsafe_code)]

use crate::arch::x86_64::avx2::WORDS_TO_LANES;
use crate::entropy::rans::{MIXED_LANES, MixedDecoder, STATE_MIN};
use crate::transform::adaptive::FilterPlaces;
use std::arch::x86_64::*;

/// A number for each lane.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn load(numbers: &[i32; MIXED_LANES]) -> __m256i {
    // SAFETY: there are eight numbers of 32 bits.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
}

/// The other way round.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn store(numbers: __m256i, target: &mut [i32; MIXED_LANES]) {
    // SAFETY: there are eight numbers of 32 bits.
    unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), numbers) };
}

/// All ones for the lanes whose bit is set.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn lanes_of(bits: u8) -> __m256i {
    let each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(i32::from(bits)), each), each)
}

/// The number at each of eight places, `offset` further on.
///
/// # Safety
///
/// Each of the places must be readable at this offset.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) unsafe fn load_each(places: &[*const i32; MIXED_LANES], offset: usize) -> __m256i {
    // SAFETY: the caller vouches for the places.
    let number = |lane: usize| unsafe { places[lane].add(offset).read() };
    _mm256_setr_epi32(number(0), number(1), number(2), number(3), number(4), number(5), number(6), number(7))
}

/// Where the lanes are in their kernels.
pub(in crate::arch) struct FilterRegisters {
    pub each: __m256i,
    /// The place that all of them have in common, if they have.
    pub common: Option<i32>,
    length: i32,
    step: i32,
}

impl FilterRegisters {
    #[target_feature(enable = "avx2")]
    pub fn new(kernels: FilterPlaces, lanes: u8) -> Self {
        let FilterPlaces { places, length, step } = kernels;
        Self { each: load(&places), common: kernels.common(lanes), length, step }
    }

    /// Goes on by a step; all ones for the lanes that begin a kernel there.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn advance(&mut self) -> __m256i {
        let next = _mm256_add_epi32(self.each, _mm256_set1_epi32(self.step));
        let begins = _mm256_cmpeq_epi32(next, _mm256_set1_epi32(self.length));
        self.each = _mm256_andnot_si256(begins, next);
        if let Some(place) = &mut self.common {
            *place += self.step;
            *place = if *place == self.length { 0 } else { *place };
        }
        begins
    }

    /// Hands over to the run.
    #[target_feature(enable = "avx2")]
    pub fn finish(self, kernels: &mut FilterPlaces) {
        store(self.each, &mut kernels.places);
    }
}

/// The states of the lanes, and where in their window of words they are.
pub(in crate::arch) struct WordRegisters {
    pub states: __m256i,
    active: __m256i,
    words: *const u16,
    used: usize,
}

impl WordRegisters {
    /// Takes over from a decoder, for the lanes of a set, at most so many steps.
    #[target_feature(enable = "avx2")]
    pub fn new(decoder: &MixedDecoder, lanes: u8, steps: usize) -> Self {
        assert!(decoder.used + MIXED_LANES * steps <= decoder.window.len());
        // SAFETY: there are eight states of 32 bits.
        let states = unsafe { _mm256_loadu_si256(decoder.states.as_ptr().cast()) };
        Self { states, active: lanes_of(lanes), words: decoder.window.as_ptr(), used: decoder.used }
    }

    /// The slots of the next symbols or bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn slots(&self) -> __m256i {
        _mm256_and_si256(self.states, _mm256_set1_epi32(4095))
    }

    /// Which of the lanes are in the set, of those in a mask.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn active(&self, lanes: __m256i) -> u8 {
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_and_si256(lanes, self.active))) as u8
    }

    /// Goes on to these states, those that are too small with a word from the window.
    ///
    /// # Safety
    ///
    /// It may be called once for each step that was announced.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub unsafe fn advance(&mut self, states: __m256i) {
        // States are below 2^31, so the signed comparison is right.
        let small = _mm256_cmpgt_epi32(_mm256_set1_epi32(STATE_MIN as i32), states);
        let mask = usize::from(self.active(small));
        // SAFETY: each step takes at most eight words, and for each step there were as many; the table has an
        // entry for each mask.
        let (fresh, order) = unsafe {
            (
                _mm_loadu_si128(self.words.add(self.used).cast()),
                _mm256_loadu_si256(WORDS_TO_LANES.as_ptr().add(mask).cast()),
            )
        };
        let word = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(fresh), order);
        self.used += mask.count_ones() as usize;
        let shift = _mm256_and_si256(small, _mm256_set1_epi32(16));
        let filled = _mm256_or_si256(_mm256_sllv_epi32(states, shift), word);
        self.states = _mm256_blendv_epi8(self.states, filled, self.active);
    }

    /// Hands over to the decoder.
    #[target_feature(enable = "avx2")]
    pub fn finish(self, decoder: &mut MixedDecoder) {
        decoder.used = self.used;
        // SAFETY: there are eight states of 32 bits.
        unsafe { _mm256_storeu_si256(decoder.states.as_mut_ptr().cast(), self.states) };
    }
}
