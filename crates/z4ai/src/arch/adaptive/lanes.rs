//! What the loops of the adaptive coder share: where its lanes are in their filters, and their stream of
//! words.

use crate::arch::eight::EightLanes;
use crate::entropy::rans::{MIXED_LANES, MIXED_WINDOW, MixedDecoder, STATE_MIN};
use crate::transform::adaptive::FilterPlaces;

/// Where the lanes are in their filters.
pub(in crate::arch) struct FilterRegisters<V> {
    pub each: V,
    /// The place that all of them have in common, if they have.
    pub common: Option<i32>,
    length: i32,
    step: i32,
    lengths: V,
    steps: V,
}

impl<V: EightLanes> FilterRegisters<V> {
    #[inline(always)]
    pub fn new(kernel: V::Kernel, filters: FilterPlaces, lanes: u8) -> Self {
        let FilterPlaces { places, length, step } = filters;
        Self {
            each: V::load(kernel, &places),
            common: filters.common(lanes),
            length,
            step,
            lengths: V::all(kernel, length),
            steps: V::all(kernel, step),
        }
    }

    /// Goes on by a step; all ones for the lanes that begin a filter there.
    #[inline(always)]
    pub fn advance(&mut self) -> V {
        if let Some(place) = &mut self.common {
            *place += self.step;
            *place = if *place == self.length { 0 } else { *place };
        }
        let next = self.each.add(self.steps);
        let begins = next.is_equal(self.lengths);
        self.each = next.without(begins);
        begins
    }

    /// Hands over to the run.
    #[inline(always)]
    pub fn finish(self, filters: &mut FilterPlaces) {
        self.each.store(&mut filters.places);
    }
}

/// The states of the lanes, and where in their window of words they are.
pub(super) struct WordRegisters<'w, V: EightLanes> {
    kernel: V::Kernel,
    pub states: V,
    active: V,
    words: &'w [u16; MIXED_WINDOW],
    used: usize,
}

impl<'w, V: EightLanes> WordRegisters<'w, V> {
    /// Takes over from a decoder, for the lanes of a set, at most so many steps.
    #[inline(always)]
    pub fn new(kernel: V::Kernel, decoder: &MixedDecoder<'w>, lanes: u8, steps: usize) -> Self {
        assert!(decoder.used + MIXED_LANES * steps <= decoder.window.len());
        Self {
            kernel,
            states: V::load(kernel, bytemuck::cast_ref(&decoder.states)),
            active: V::lanes_of(kernel, lanes),
            words: decoder.window,
            used: decoder.used,
        }
    }

    /// The slots of the next symbols or bits.
    #[inline(always)]
    pub fn slots(&self) -> V {
        self.states.and(V::all(self.kernel, 4095))
    }

    /// Which of the lanes are in the set, of those in a mask.
    #[inline(always)]
    pub fn active(&self, lanes: V) -> u8 {
        lanes.and(self.active).set_of()
    }

    /// Goes on to these states, those that are too small with a word from the window.
    ///
    /// # Safety
    ///
    /// It may be called once for each step that was announced.
    #[inline(always)]
    pub unsafe fn advance(&mut self, states: V) {
        // SAFETY: each step takes at most eight words, and for each step there were as many.
        let words = unsafe { &*self.words.as_ptr().add(self.used).cast::<[u16; MIXED_LANES]>() };
        // States are below 2^31, so the signed comparison is right.
        let small = V::all(self.kernel, STATE_MIN as i32).is_greater(states);
        let (words, count) = V::next_words(self.kernel, self.active(small), words);
        self.used += count;
        let shifted = states.shift_left_by(small.and(V::all(self.kernel, 16)));
        self.states = shifted.or(words).select(self.states, self.active);
    }

    /// Hands over to the decoder.
    #[inline(always)]
    pub fn finish(self, decoder: &mut MixedDecoder) {
        decoder.used = self.used;
        self.states.store(bytemuck::cast_mut(&mut decoder.states));
    }
}
