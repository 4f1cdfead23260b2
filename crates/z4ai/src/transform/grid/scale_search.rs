//! Finding a group's scale. A guess of which level the largest element stands for gives an interval of
//! scales; each element, small ones first, then either narrows the interval or refutes the guess. Any scale
//! that is left and reproduces every element will do, so the one with the fewest significant bits is kept: it
//! costs least to store.

use super::format::Format;
use super::levels::Levels;
use super::minifloat::Minifloat;
use crate::arch;
use std::marker::PhantomData;

/// Guesses of what the largest element stands for that are looked at together: as many as there are integer
/// levels.
const GUESSES: usize = 256;

/// The elements of a group and what a first look at them tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantisedGroup<'a, F> {
    elements: &'a [u8],
    /// Magnitude bits of the smallest element that is not zero; more than `largest` if there is none.
    smallest: u32,
    largest: u32,
    /// Whether a positive zero occurs.
    pub(crate) zero: bool,
    /// Whether a negative zero occurs.
    pub(crate) minus_zero: bool,
    format: PhantomData<F>,
}

/// A group on the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    /// What the levels are multiplied by.
    pub(crate) scale: f32,
    /// What is added or subtracted, for schemes with an offset.
    pub(crate) offset: f32,
    /// Magnitude of the largest element's level.
    pub(crate) largest: f64,
    /// Smallest and largest level number, that of zero included.
    pub(crate) numbers: (i32, i32),
}

impl<'a, F: Format> QuantisedGroup<'a, F> {
    /// Looks at the elements of a group.
    pub(crate) fn new(elements: &'a [u8]) -> Self {
        let (mut smallest, mut largest, mut zeros, mut minus_zeros) = (u32::MAX, 0, 0_u32, 0_u32);
        for element in elements.chunks_exact(F::WIDTH) {
            let bits = F::read(element);
            let magnitude = bits & !F::SIGN;
            largest = largest.max(magnitude);
            // Zero wraps around to the largest number, so it never is the smallest.
            smallest = smallest.min(magnitude.wrapping_sub(1));
            zeros |= u32::from(bits == 0);
            minus_zeros |= u32::from(bits == F::SIGN);
        }
        let smallest = smallest.wrapping_add(1);
        let smallest = if smallest == 0 { u32::MAX } else { smallest };
        Self {
            elements,
            smallest,
            largest,
            zero: zeros != 0,
            minus_zero: minus_zeros != 0,
            format: PhantomData,
        }
    }

    /// The elements' bit patterns.
    pub(crate) fn bits(&self) -> impl Iterator<Item = u32> + use<'a, F> {
        self.elements.chunks_exact(F::WIDTH).map(F::read)
    }

    /// Whether the group has zeros only.
    pub(crate) fn is_zero(&self) -> bool {
        self.largest == 0
    }

    /// Whether it has an element that is no finite number.
    pub(crate) fn is_infinite(&self) -> bool {
        self.largest >= F::INFINITY
    }

    /// The scales for which the largest element stands for the level `largest`.
    pub(crate) fn scales_of_largest(&self, largest: f64) -> (f64, f64) {
        scales_for::<F>(self.largest, 1.0 / largest)
    }

    /// Whether the group has two elements of different magnitude, neither of them zero.
    pub(crate) fn has_two_magnitudes(&self) -> bool {
        !self.is_zero() && self.smallest < self.largest
    }

    /// A scale that reproduces every element, for the first of `largest` that has one. `numbers` receives the
    /// level number of each element.
    pub(crate) fn fit(&self, levels: Levels, largest: &[f64], numbers: &mut Vec<i16>) -> Option<Fit> {
        if self.is_zero() || self.is_infinite() {
            return None;
        }
        if let Levels::Minifloat(float) = levels
            && !self.has_few_mantissas(float.mantissas())
        {
            return None;
        }
        let refuted = if levels == Levels::Integers { self.refuted(largest) } else { [false; GUESSES] };
        largest.iter().enumerate().find_map(|(place, &largest)| {
            if refuted.get(place) == Some(&true) {
                return None;
            }
            let interval = self.narrow(levels, largest)?;
            candidates(interval).find_map(|scale| {
                let range = self.number(levels, scale, numbers)?;
                Some(Fit { scale, offset: 0.0, largest, numbers: range })
            })
        })
    }

    /// Whether elements have at most so many mantissas, as products of one scale with numbers that have no
    /// more do; not looking at subnormal ones, which are rounded otherwise. It refuses ordinary weights after
    /// about as many elements.
    fn has_few_mantissas(&self, most: usize) -> bool {
        let least_normal = F::INFINITY & F::INFINITY.wrapping_neg();
        let mut found = [0; Minifloat::MOST_MANTISSAS];
        let mut count = 0;
        for bits in self.bits().filter(|bits| bits & !F::SIGN >= least_normal) {
            let mantissa = bits & (least_normal - 1);
            if !found[..count].contains(&mantissa) {
                if count == most.min(found.len()) {
                    return false;
                }
                found[count] = mantissa;
                count += 1;
            }
        }
        true
    }

    /// Which of these integers the largest element cannot stand for, because the smallest would be too far
    /// from an integer then. It refutes nearly all guesses in ordinary weights, in one pass that vectorises,
    /// and none that [`QuantisedGroup::narrow`] would not.
    fn refuted(&self, largest: &[f64]) -> [bool; GUESSES] {
        /// By how much more than the rounding of the arithmetic numbers must be apart.
        const MARGIN: f64 = 1e-6;
        /// Adding and subtracting this leaves the nearest integer.
        const ROUNDING: f64 = (3u64 << 51) as f64;
        let mut refuted = [false; GUESSES];
        let (low, high) = scales_for::<F>(self.largest, 1.0);
        let (least, most) = scales_for::<F>(self.smallest, 1.0);
        let value = f64::from(F::value(self.smallest));
        let ratio = 2.0 * value / (low + high);
        let (least, most) = (least * (1.0 - MARGIN), most * (1.0 + MARGIN));
        arch::vectorised(
            #[inline(always)]
            || {
                for (refuted, &guess) in refuted.iter_mut().zip(largest) {
                    let level = ratio * guess;
                    let nearest = (level + ROUNDING) - ROUNDING;
                    // Halfway between two integers rounding decides, so such an element refutes nothing.
                    let is_sure = (level - nearest).abs() < 0.5 - MARGIN * (1.0 + level);
                    let is_apart = (least * guess > high * nearest) | (most * guess < low * nearest);
                    *refuted = is_sure & is_apart;
                }
            },
        );
        refuted
    }

    /// The scales that are left when the largest element stands for `largest`.
    pub(crate) fn narrow(&self, levels: Levels, largest: f64) -> Option<(f64, f64)> {
        if self.is_infinite() {
            return None;
        }
        self.narrow_from(levels, self.scales_of_largest(largest))
    }

    /// The scales that are left of an interval of them.
    pub(crate) fn narrow_from(&self, levels: Levels, scales: (f64, f64)) -> Option<(f64, f64)> {
        let mut interval = Interval::new(levels, scales);
        if levels == Levels::Integers {
            // The smallest element refutes most guesses at once. In a table its sign, not known here, would
            // matter.
            interval.narrow::<F>(self.smallest)?;
        }
        // Small elements have levels that are beyond doubt, and narrow the interval until large ones have
        // them too.
        let small = self.largest & F::INFINITY;
        let small = small.saturating_sub(3 * (F::INFINITY & F::INFINITY.wrapping_neg())).max(self.smallest);
        for pass in [0..small, small..F::INFINITY] {
            for element in self.elements.chunks_exact(F::WIDTH) {
                let bits = F::read(element);
                let magnitude = bits & !F::SIGN;
                if magnitude != 0 && pass.contains(&magnitude) {
                    interval.narrow::<F>(bits)?;
                }
            }
        }
        Some((interval.low, interval.high))
    }

    /// The level number of every element, if the scale reproduces all of them with at most 256 levels.
    pub(crate) fn number(&self, levels: Levels, scale: f32, numbers: &mut Vec<i16>) -> Option<(i32, i32)> {
        let inverse = 1.0 / f64::from(scale);
        let zero = i32::from(levels.zero());
        let (mut low, mut high) = (zero, zero);
        numbers.clear();
        numbers.resize(self.elements.len() / F::WIDTH, 0);
        for (element, place) in self.elements.chunks_exact(F::WIDTH).zip(numbers.iter_mut()) {
            let bits = F::read(element);
            let value = F::value(bits);
            let (number, _) = levels.nearest(f64::from(value.abs()) * inverse, bits & F::SIGN != 0);
            let product = F::round(levels.level(number) * scale);
            // Levels that have signs have minus zero, too.
            let is_kept = product == bits || !levels.has_signs() && (product | bits) & !F::SIGN == 0;
            if !is_kept {
                return None;
            }
            (low, high) = (low.min(number), high.max(number));
            *place = number as i16;
        }
        (high - low < 256).then_some((low, high))
    }
}

/// The scales that explain all elements seen so far.
struct Interval {
    levels: Levels,
    low: f64,
    high: f64,
    /// Reciprocal of the middle.
    inverse: f64,
}

impl Interval {
    fn new(levels: Levels, (low, high): (f64, f64)) -> Self {
        Self { levels, low, high, inverse: 2.0 / (low + high) }
    }

    /// Keeps the scales for which a level rounds to the element with these bits; `None` if there are none.
    #[inline(always)]
    fn narrow<F: Format>(&mut self, bits: u32) -> Option<()> {
        let value = f64::from(F::value(bits & !F::SIGN));
        let (_, reciprocal) = self.levels.nearest(value * self.inverse, bits & F::SIGN != 0);
        if reciprocal == 0.0 {
            return None;
        }
        let (lowest, highest) = scales_for::<F>(bits & !F::SIGN, reciprocal);
        if lowest > self.low || highest < self.high {
            *self = Self::new(self.levels, (self.low.max(lowest), self.high.min(highest)));
        }
        (self.low <= self.high).then_some(())
    }
}

/// The scales for which the level rounds to this magnitude, a little wider than exact because the product is
/// first rounded to single precision.
#[inline(always)]
fn scales_for<F: Format>(magnitude: u32, reciprocal: f64) -> (f64, f64) {
    const SCALE_SLACK: f64 = 1.0 / (1_u64 << 24) as f64;
    let (low, high) = F::rounding_interval(magnitude);
    let slack = if F::WIDTH == 4 { 2.0 * f64::EPSILON } else { SCALE_SLACK };
    (low * reciprocal * (1.0 - slack), high * reciprocal * (1.0 + slack))
}

/// Scales inside the interval, those with the fewest significant bits first.
pub(crate) fn candidates((low, high): (f64, f64)) -> impl Iterator<Item = f32> {
    // Patterns of positive floats are ordered like their values. The conversion rounds, so one step outwards
    // may still be inside.
    let first = (low as f32).to_bits().saturating_sub(1).max(1);
    let last = ((high as f32).to_bits() + 1).min(f32::MAX.to_bits());
    let inside = move |bits: u32| (low..=high).contains(&f64::from(f32::from_bits(bits)));
    let round = (0..24)
        .rev()
        .map(move |zeros| last >> zeros << zeros)
        .filter(move |&bits| bits >= first && inside(bits));
    let middle = [((low + high) / 2.0) as f32, low as f32, high as f32].into_iter().map(f32::to_bits);
    let neighbours = (first..=last).take(if last - first < 8 { 8 } else { 0 });
    round.take(6).chain(neighbours).chain(middle).map(f32::from_bits).filter(|&scale| scale > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::format::Bf16;
    use super::*;

    #[test]
    fn products_of_small_floats_have_few_mantissas_and_other_numbers_have_many() {
        let round = |value: f32| (Bf16::round(value) as u16).to_le_bytes();
        for float in [Minifloat::E4m3, Minifloat::E5m2, Minifloat::E2m1] {
            // Of either sign, from the least subnormal number on.
            let products: Vec<u8> =
                (0..1 << 7).flat_map(|code| round(float.value(code) * 0.001_234)).collect();
            assert!(QuantisedGroup::<Bf16>::new(&products).has_few_mantissas(float.mantissas()));
            let others: Vec<u8> = (1..=32).flat_map(|number| round(number as f32 * 0.037)).collect();
            assert!(!QuantisedGroup::<Bf16>::new(&others).has_few_mantissas(float.mantissas()));
        }
    }
}
