//! One walk of the adaptive coder through a block, on the encoder's side: the symbols and signs with the
//! contexts and probabilities that a decoder will have.

use super::lanes::{Lanes, MOST_STRETCH_STEPS};
use super::learner::{Expectation, Learner, Learning, MagnitudeCoder, PHASES, bound};
use super::sign_mixer::{SignCoder, SignMixer, magnitude_class};
use crate::dtype::FloatLayout;
use crate::entropy::mixing::PROBABILITY_BITS;
use crate::entropy::rans::{Bit, MIXED_LANES, Stretch};
use crate::entropy::table::{Histogram, SYMBOLS, log2_1024};
use crate::transform::float::{CENTRE, EXPONENT_PARTS, JOINT_BITS};

/// The symbols and signs of a block, in the order in which they are coded.
#[derive(Debug)]
pub(super) struct Survey {
    pub lanes: Lanes,
    pub stretches: Vec<Stretch>,
    /// An exponent too far from its expectation for a symbol has the symbol of an escape.
    pub symbols: Vec<u8>,
    pub contexts: Vec<u8>,
    /// The exponents.
    pub exponents: Vec<u8>,
    /// Signs with their probabilities, if these were asked for.
    pub signs: Vec<Bit>,
}

/// The symbol of a magnitude in quarter octaves.
#[inline(always)]
fn symbol(expected: Expectation, quarters: u16) -> u8 {
    let part = i32::from(quarters >> JOINT_BITS) - expected.exponent() + CENTRE;
    let part = if (1..EXPONENT_PARTS).contains(&part) { part } else { 0 };
    (part << JOINT_BITS) as u8 | quarters as u8 & 3
}

/// The encoder's magnitude coder: it knows the magnitudes, in the order in which they are coded, and notes
/// what the decoder will expect.
struct Known<'a, F> {
    layout: FloatLayout,
    heads: std::slice::Iter<'a, u16>,
    /// Called for each element with its expectation, its magnitude in quarter octaves, and the distance of
    /// the two.
    visit: F,
}

impl<F: FnMut(Expectation, u16, i32)> MagnitudeCoder for Known<'_, F> {
    #[inline(always)]
    fn code(&mut self, _: usize, _: usize, expected: Expectation) -> i32 {
        let low = self.layout.head_mantissa_bits() - JOINT_BITS;
        let quarters = self.heads.next().map_or(0, |head| (head & 0x7fff) >> low);
        let distance = expected.distance(quarters);
        (self.visit)(expected, quarters, distance);
        bound(distance)
    }
}

impl<F: FnMut(Expectation, u16, i32)> Known<'_, F> {
    /// Goes through the block in these lanes.
    fn walk(mut self, learning: Learning, lanes: Lanes) {
        let mut learner = Learner::new(learning, self.layout.exponent_bits, lanes);
        lanes.stretches().for_each(|(_, stretch)| learner.walk(stretch, &mut self));
    }
}

/// The encoder's sign coder: signs that are known, and those that have been coded.
struct KnownSigns<'a> {
    heads: std::slice::Iter<'a, u16>,
    coded: Vec<Bit>,
}

impl SignCoder for KnownSigns<'_> {
    #[inline(always)]
    fn code(&mut self, _: usize, probability: u32) -> bool {
        let value = self.heads.next().is_some_and(|head| head >> 15 == 1);
        self.coded.push(Bit { value, probability: probability as u16 });
        value
    }
}

/// The counts of the symbols of a block, by the phase of what is expected of them. The heads are in the order
/// of the lanes.
pub(super) fn count_by_phase(
    layout: FloatLayout,
    learning: Learning,
    lanes: Lanes,
    heads: &[u16],
) -> Vec<Histogram> {
    let mut histograms: Vec<Histogram> = vec![[0; SYMBOLS]; PHASES];
    let visit = |expected: Expectation, quarters, _| {
        histograms[expected.context & (PHASES - 1)][usize::from(symbol(expected, quarters))] += 1;
    };
    Known { layout, heads: heads.iter(), visit }.walk(learning, lanes);
    histograms
}

impl Survey {
    /// Walks through the heads of a block.
    pub fn new(layout: FloatLayout, learning: Learning, heads: &[u16], with_signs: bool) -> Self {
        let count = heads.len();
        let lanes = Lanes::new(learning, count);
        let heads = lanes.gather(heads);
        let stretches: Vec<Stretch> = lanes.stretches().map(|(_, stretch)| stretch).collect();
        let (mut symbols, mut contexts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut exponents, mut classes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let visit = |expected: Expectation, quarters, distance| {
            symbols.push(symbol(expected, quarters));
            contexts.push(expected.context as u8);
            exponents.push((quarters >> JOINT_BITS) as u8);
            classes.push(magnitude_class(distance as i16));
        };
        Known { layout, heads: heads.iter(), visit }.walk(learning, lanes);
        let mut signs = KnownSigns { heads: heads.iter(), coded: Vec::new() };
        if with_signs {
            signs.coded.reserve(count);
            let mut mixer = SignMixer::new(learning, lanes);
            let (mut classes, mut by_lane) = (&classes[..], [[0; MIXED_LANES]; MOST_STRETCH_STEPS]);
            for &stretch in &stretches {
                let (these, rest) = classes.split_at(stretch.elements());
                classes = rest;
                for (step, these) in by_lane.iter_mut().zip(these.chunks(stretch.width().max(1))) {
                    stretch.lanes().zip(these).for_each(|(lane, &class)| step[lane] = class);
                }
                mixer.walk(stretch, &by_lane, &mut signs);
            }
        }
        let signs = signs.coded;
        Self { lanes, stretches, symbols, contexts, exponents, signs }
    }

    /// Adds the symbols to counts by context.
    pub fn count(&self, histograms: &mut [Histogram]) {
        let mask = histograms.len() - 1;
        for (&symbol, &context) in self.symbols.iter().zip(&self.contexts) {
            histograms[usize::from(context) & mask][usize::from(symbol)] += 1;
        }
    }

    /// Bits that the signs take.
    pub fn sign_bits(&self) -> u64 {
        let bits = |sign: &Bit| PROBABILITY_BITS * 1024 - log2_1024(u64::from(sign.share().1));
        self.signs.iter().map(|sign| u64::from(bits(sign))).sum::<u64>() / 1024
    }
}
