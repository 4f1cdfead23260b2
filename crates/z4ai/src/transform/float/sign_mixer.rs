//! Signs at maximum effort. Filters of a convolution repeat their signs from place to place, and the rows and columns of some matrices lean to one side; two
//! counters look at one each, and a mixer learns which of them to believe.

use super::learner::{Learning, Place};
use crate::entropy::mixing::{Counter, INPUTS, PROBABILITY_BITS, Weights};

/// Places in a kernel that are told apart.
const PLACES: usize = 32;
/// Steps of a row's or column's bias.
const BIASES: usize = 11;
/// Classes of the magnitude, each with weights of its own.
const CLASSES: usize = 8;

/// What is known of the signs of one block.
pub(super) struct SignMixer {
    place: Place,
    line_length: usize,
    /// The signs so far, behind as many positive ones as the line above needs.
    signs: Vec<bool>,
    next: usize,
    left: bool,
    /// What is to be learnt from the last sign: only after the next one's probability is known, so that this need not wait for it.
    pending: Option<Lesson>,
    /// How much the signs of a column, and of the row at hand, lean to one side: from -2^15 (positive) to 2^15.
    columns: Vec<i32>,
    row: i32,
    by_bias: [Counter; 128],
    by_place: [Counter; 4 * PLACES],
    weights: [Weights; CLASSES],
}

/// Which counters and weights gave a probability.
#[derive(Debug, Clone, Copy)]
struct Lesson {
    by_place: usize,
    by_bias: usize,
    class: usize,
    odds: [i32; INPUTS],
    probability: u32,
}

/// A bias of -1 to 1 in eleven steps.
#[inline(always)]
fn step(bias: i32) -> usize {
    ((bias * 5 + (11 << 14)) >> 15) as usize
}

/// The class of an element that is `distance` sixteenths of an octave above the expected magnitude: octaves, as far as they matter.
#[inline(always)]
pub(super) fn magnitude_class(distance: i16) -> u8 {
    ((distance + 54) >> 4).clamp(0, 5) as u8
}

impl SignMixer {
    /// For a block of `count` elements that begins with element `start` of the section.
    pub fn new(learning: Learning, start: usize, count: usize) -> Self {
        let place = Place::new(learning, start, count);
        Self {
            place,
            line_length: learning.line_length,
            signs: vec![false; learning.line_length + count],
            next: 0,
            left: false,
            pending: None,
            columns: vec![0; place.slots()],
            row: 0,
            by_bias: [Counter::NEW; 128],
            by_place: [Counter::NEW; 4 * PLACES],
            weights: [Weights::NEW; CLASSES],
        }
    }

    /// Goes through the next elements, whose magnitudes have these classes: `code` codes the sign of each, given the probability that it is negative.
    #[inline(always)]
    pub fn walk(&mut self, classes: &[u8], mut code: impl FnMut(u32) -> bool) {
        // Copies, which registers can hold.
        let (mut place, mut row, mut left, mut next) = (self.place, self.row, self.left, self.next);
        let mut pending = self.pending;
        for &class in classes {
            // As it was before the last sign, for which this need not wait.
            let row_step = step(row);
            row += (i32::from(left) << 12) - (1 << 11) - (row >> 4);
            let Some(column) = self.columns.get_mut(place.slot) else { break };
            let above = self.signs.get(next).copied().unwrap_or(false);
            let neighbours = usize::from(left) << 1 | usize::from(above);
            let by_place = place.position().min(PLACES - 1) << 2 | neighbours;
            let by_bias = (step(*column) * BIASES + row_step) & 127;
            let class = usize::from(class) & (CLASSES - 1);
            let odds = [self.by_bias[by_bias].odds(), self.by_place[by_place].odds()];
            let probability = self.weights[class].mix(odds);
            if let Some(Lesson { by_place, by_bias, class, odds, probability }) = pending {
                self.by_bias[by_bias & 127].update(left);
                self.by_place[by_place & 127].update(left);
                self.weights[class & (CLASSES - 1)].update(odds, probability, left);
            }
            let sign = code(probability >> (16 - PROBABILITY_BITS));
            pending = Some(Lesson { by_place, by_bias, class, odds, probability });
            if let Some(target) = self.signs.get_mut(next + self.line_length) {
                *target = sign;
            }
            (left, next) = (sign, next + 1);
            *column += (((i32::from(sign) << 16) - (1 << 15) - *column) * 5) >> 6;
            if place.advance().0 {
                row = 0;
            }
        }
        (self.place, self.row, self.left, self.next) = (place, row, left, next);
        self.pending = pending;
    }

    /// The signs of the last `count` elements.
    pub fn last(&self, count: usize) -> &[bool] {
        let end = self.line_length + self.next;
        self.signs.get(end - count..end).unwrap_or_default()
    }
}
