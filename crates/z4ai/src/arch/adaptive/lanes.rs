//! What the loops of the adaptive coder share: where its lanes are in their kernels, and their stream of
//! words.

use crate::arch::eight::EightLanes;
use crate::entropy::rans::{MIXED_LANES, MixedDecoder, STATE_MIN};
use crate::transform::adaptive::FilterPlaces;

/// Where the lanes are in their kernels.
pub(in crate::arch) struct FilterRegisters<V> {
    pub each: V,
    /// The place that all of them have in common, if they have.
    pub common: Option<i32>,
    length: i32,
    step: i32,
}

impl<V: EightLanes> FilterRegisters<V> {
    /// # Safety
    ///
    /// The CPU must have the instructions of `V`, here and below.
    #[inline(always)]
    pub unsafe fn new(kernels: FilterPlaces, lanes: u8) -> Self {
        let FilterPlaces { places, length, step } = kernels;
        // SAFETY: there are eight places.
        let each = unsafe { V::load(places.as_ptr()) };
        Self { each, common: kernels.common(lanes), length, step }
    }

    /// Goes on by a step; all ones for the lanes that begin a kernel there.
    ///
    /// # Safety
    ///
    /// See [`FilterRegisters::new`].
    #[inline(always)]
    pub unsafe fn advance(&mut self) -> V {
        if let Some(place) = &mut self.common {
            *place += self.step;
            *place = if *place == self.length { 0 } else { *place };
        }
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let next = self.each.add(V::all(self.step));
            let begins = next.is_equal(V::all(self.length));
            self.each = next.without(begins);
            begins
        }
    }

    /// Hands over to the run.
    ///
    /// # Safety
    ///
    /// See [`FilterRegisters::new`].
    #[inline(always)]
    pub unsafe fn finish(self, kernels: &mut FilterPlaces) {
        // SAFETY: there are eight places.
        unsafe { self.each.store(kernels.places.as_mut_ptr()) };
    }
}

/// The states of the lanes, and where in their window of words they are.
pub(super) struct WordRegisters<V> {
    pub states: V,
    active: V,
    words: *const u16,
    used: usize,
}

impl<V: EightLanes> WordRegisters<V> {
    /// Takes over from a decoder, for the lanes of a set, at most so many steps.
    ///
    /// # Safety
    ///
    /// The CPU must have the instructions of `V`, here and below.
    #[inline(always)]
    pub unsafe fn new(decoder: &MixedDecoder, lanes: u8, steps: usize) -> Self {
        assert!(decoder.used + MIXED_LANES * steps <= decoder.window.len());
        // SAFETY: there are eight states of 32 bits.
        let (states, active) = unsafe { (V::load(decoder.states.as_ptr().cast()), V::lanes_of(lanes)) };
        Self { states, active, words: decoder.window.as_ptr(), used: decoder.used }
    }

    /// The slots of the next symbols or bits.
    ///
    /// # Safety
    ///
    /// See [`WordRegisters::new`].
    #[inline(always)]
    pub unsafe fn slots(&self) -> V {
        // SAFETY: the caller vouches for the instructions.
        unsafe { self.states.and(V::all(4095)) }
    }

    /// Which of the lanes are in the set, of those in a mask.
    ///
    /// # Safety
    ///
    /// See [`WordRegisters::new`].
    #[inline(always)]
    pub unsafe fn active(&self, lanes: V) -> u8 {
        // SAFETY: the caller vouches for the instructions.
        unsafe { lanes.and(self.active).set_of() }
    }

    /// Goes on to these states, those that are too small with a word from the window.
    ///
    /// # Safety
    ///
    /// See [`WordRegisters::new`]; it may be called once for each step that was announced.
    #[inline(always)]
    pub unsafe fn advance(&mut self, states: V) {
        // SAFETY: each step takes at most eight words, and for each step there were as many.
        unsafe {
            // States are below 2^31, so the signed comparison is right.
            let small = V::all(STATE_MIN as i32).is_greater(states);
            let (words, count) = V::next_words(self.active(small), self.words.add(self.used));
            self.used += count;
            let shifted = states.shift_left_by(small.and(V::all(16)));
            self.states = shifted.or(words).select(self.states, self.active);
        }
    }

    /// Hands over to the decoder.
    ///
    /// # Safety
    ///
    /// See [`WordRegisters::new`].
    #[inline(always)]
    pub unsafe fn finish(self, decoder: &mut MixedDecoder) {
        decoder.used = self.used;
        // SAFETY: there are eight states of 32 bits.
        unsafe { self.states.store(decoder.states.as_mut_ptr().cast()) };
    }
}
