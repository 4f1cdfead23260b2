//! One walk of the adaptive coder through a block, on the encoder's side: the symbols and signs with the contexts and probabilities that a decoder will have.

use super::learner::{Expectation, Learner, Learning, PHASES};
use super::sign_mixer::{SignMixer, magnitude_class};
use super::{CENTRE, EXPONENT_PARTS, JOINT_BITS};
use crate::dtype::FloatLayout;
use crate::entropy::mixing::PROBABILITY_BITS;
use crate::entropy::rans::Bit;
use crate::entropy::table::{Histogram, SYMBOLS, log2_1024};
use crate::error::Result;

/// The symbols and signs of a block.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// An exponent too far from its expectation for a symbol has the symbol of an escape.
    pub symbols: Vec<u8>,
    pub contexts: Vec<u8>,
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

/// Goes through the heads of a block, the first of which is element `start` of the section.
#[inline(always)]
fn walk(
    layout: FloatLayout,
    learning: Learning,
    heads: &[u16],
    start: usize,
    mut visit: impl FnMut(Expectation, u16),
) -> Result<()> {
    let low = layout.head_mantissa_bits() - JOINT_BITS;
    let mut heads_left = heads.iter();
    Learner::new(learning, layout.exponent_bits, start, heads.len()).walk(heads.len(), |expected| {
        let quarters = heads_left.next().map_or(0, |head| (head & 0x7fff) >> low);
        visit(expected, quarters);
        Ok(quarters)
    })
}

/// The counts of the symbols, by the phase of what is expected of them.
pub(super) fn count_by_phase(
    layout: FloatLayout,
    learning: Learning,
    heads: &[u16],
) -> Result<Vec<Histogram>> {
    let mut histograms: Vec<Histogram> = vec![[0; SYMBOLS]; PHASES];
    walk(layout, learning, heads, 0, |expected, quarters| {
        histograms[expected.context & (PHASES - 1)][usize::from(symbol(expected, quarters))] += 1;
    })?;
    Ok(histograms)
}

impl Survey {
    /// Walks through the heads of a block, the first of which is element `start` of the section.
    pub fn new(
        layout: FloatLayout,
        learning: Learning,
        heads: &[u16],
        start: usize,
        with_signs: bool,
    ) -> Result<Self> {
        let count = heads.len();
        let (mut symbols, mut contexts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut classes = Vec::with_capacity(count);
        walk(layout, learning, heads, start, |expected, quarters| {
            symbols.push(symbol(expected, quarters));
            contexts.push(expected.context as u8);
            classes.push(magnitude_class(expected.distance(quarters) as i16));
        })?;
        let mut signs = Vec::new();
        if with_signs {
            let mut values = heads.iter().map(|head| head >> 15 == 1);
            SignMixer::new(learning, start, count).walk(&classes, |probability| {
                let value = values.next().unwrap_or(false);
                signs.push(Bit { value, probability: probability as u16 });
                value
            });
        }
        Ok(Self { symbols, contexts, signs })
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
