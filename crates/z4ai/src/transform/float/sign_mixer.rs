//! Signs at maximum effort. Filters of a convolution repeat their signs from place to place, and the rows and columns of some matrices lean to one side; two
//! counters look at one each, and a mixer learns which of them to believe.

use super::lanes::{Begins, Lanes, MOST, Places};
use super::learner::Learning;
use crate::entropy::mixing::{Counter, INPUTS, PROBABILITY_BITS, Weights};
use crate::entropy::rans::{ALL_LANES, MIXED_LANES, Stretch, each_lane};

/// Places in a kernel that are told apart.
const PLACES: usize = 32;
/// Steps of a row's or column's bias.
const BIASES: usize = 11;
/// Classes of the magnitude, each with weights of its own.
const CLASSES: usize = 8;

/// What is known of the signs of one block.
pub(super) struct SignMixer {
    places: Places,
    above: Above,
    /// The signs of each step so far, a bit per lane.
    signs: Vec<u8>,
    next: usize,
    has_kernels: bool,
    /// How much the signs of a column, and of the rows that the lanes are in, lean to one side: from -2^15 (positive) to 2^15.
    columns: Vec<i32>,
    rows: [i32; MIXED_LANES],
    by_bias: [Counter; 128],
    by_place: [Counter; 4 * PLACES],
    weights: [Weights; CLASSES],
}

/// How many steps ago the sign above came.
#[derive(Debug, Clone, Copy)]
enum Above {
    /// In the same lane.
    Line(usize),
    /// In the lane before, and for the first lane in the last one.
    Row { others: usize, first: usize },
}

impl Above {
    /// The signs above those of a step, a bit per lane.
    #[inline(always)]
    fn of(self, step: usize, signs: &[u8]) -> u8 {
        let ago = |steps| signs.get(step.wrapping_sub(steps)).copied().unwrap_or(0);
        match self {
            Self::Line(steps) => ago(steps),
            Self::Row { others, first } => ago(others) << 1 | ago(first) >> (MIXED_LANES - 1),
        }
    }
}

/// Codes the signs of a walk.
pub(super) trait SignCoder {
    /// Codes the next sign, which is in this lane, and is negative with this probability.
    fn code(&mut self, lane: usize, probability: u32) -> bool;
}

/// Which counters and weights gave a probability.
#[derive(Debug, Clone, Copy, Default)]
struct Lesson {
    by_place: usize,
    by_bias: usize,
    class: usize,
    odds: [i32; INPUTS],
    probability: u32,
}

/// A bias of -1 to 1 in eleven steps.
#[inline(always)]
fn bias_step(bias: i32) -> usize {
    ((bias * 5 + (11 << 14)) >> 15) as usize
}

/// The class of an element that is `distance` sixteenths of an octave above the expected magnitude: octaves, as far as they matter.
#[inline(always)]
pub(super) fn magnitude_class(distance: i16) -> u8 {
    ((distance + 54) >> 4).clamp(0, 5) as u8
}

impl SignMixer {
    /// For a block in these lanes.
    pub fn new(learning: Learning, lanes: Lanes) -> Self {
        let has_kernels = learning.kernel_length > 1;
        let above = if has_kernels || lanes.count() == 1 {
            Above::Line(learning.line_length)
        } else {
            let before = (MIXED_LANES - 1) * lanes.lag;
            Above::Row { others: lanes.lag, first: learning.row_length - before }
        };
        Self {
            above,
            signs: vec![0; lanes.steps()],
            next: 0,
            has_kernels,
            columns: vec![0; lanes.columns()],
            places: Places::new(lanes),
            rows: [0; MIXED_LANES],
            by_bias: [Counter::NEW; 128],
            by_place: [Counter::NEW; 4 * PLACES],
            weights: [Weights::NEW; CLASSES],
        }
    }

    /// Goes through the elements of a stretch, whose magnitudes have these classes.
    #[inline(always)]
    pub fn walk(&mut self, stretch: Stretch, classes: &[u8; MOST], coder: &mut impl SignCoder) {
        if stretch.lanes == ALL_LANES {
            self.walk_lanes(stretch.steps, ALL_LANES, classes, coder);
        } else {
            self.walk_lanes(stretch.steps, stretch.lanes, classes, coder);
        }
    }

    #[inline(always)]
    fn walk_lanes(&mut self, steps: usize, lanes: u8, classes: &[u8; MOST], coder: &mut impl SignCoder) {
        let (mut done, mut next_class) = (0, 0);
        while done < steps {
            let run = self.places.run(lanes, steps - done);
            self.walk_run(run, lanes, classes, &mut next_class, coder);
            each_lane!(lanes, lane => {
                if self.places.advance(lane, run) == Begins::Row {
                    self.rows[lane] = 0;
                }
            });
            done += run;
        }
    }

    /// Goes through steps in which no lane begins a row or kernel.
    #[inline(always)]
    fn walk_run(
        &mut self,
        steps: usize,
        lanes: u8,
        classes: &[u8; MOST],
        next_class: &mut usize,
        coder: &mut impl SignCoder,
    ) {
        let places = self.places.lanes;
        // Copies, which registers can hold.
        let (mut rows, mut class_index, first) = (self.rows, *next_class, self.next);
        let mut left = first.checked_sub(1).and_then(|last| self.signs.get(last)).copied().unwrap_or(0);
        let kernel_step = usize::from(self.has_kernels);
        for step in 0..steps {
            let above = self.above.of(first + step, &self.signs);
            let mut lessons = [Lesson::default(); MIXED_LANES];
            let mut signs = 0;
            // All lanes are coded before anything is learnt, so that none has to wait for another.
            each_lane!(lanes, lane => {
                let column = self.columns.get(places[lane].column + step).copied().unwrap_or(0);
                let position = (places[lane].in_kernel + step * kernel_step).min(PLACES - 1);
                let neighbours = (left >> lane & 1) << 1 | above >> lane & 1;
                let by_place = (position << 2 | usize::from(neighbours)) & 127;
                let by_bias = (bias_step(column) * BIASES + bias_step(rows[lane])) & 127;
                let class = usize::from(classes[class_index & (MOST - 1)]) & (CLASSES - 1);
                class_index += 1;
                let odds = [self.by_bias[by_bias].odds(), self.by_place[by_place].odds()];
                let probability = self.weights[class].mix(odds);
                lessons[lane] = Lesson { by_place, by_bias, class, odds, probability };
                signs |= u8::from(coder.code(lane, probability >> (16 - PROBABILITY_BITS))) << lane;
            });
            each_lane!(lanes, lane => {
                let Lesson { by_place, by_bias, class, odds, probability } = lessons[lane];
                let sign = signs >> lane & 1;
                self.by_bias[by_bias & 127].update(sign == 1);
                self.by_place[by_place & 127].update(sign == 1);
                self.weights[class & (CLASSES - 1)].update(odds, probability, sign == 1);
                rows[lane] += (i32::from(sign) << 12) - (1 << 11) - (rows[lane] >> 4);
                if let Some(column) = self.columns.get_mut(places[lane].column + step) {
                    *column += (((i32::from(sign) << 16) - (1 << 15) - *column) * 5) >> 6;
                }
            });
            if let Some(target) = self.signs.get_mut(first + step) {
                *target = signs;
            }
            left = signs;
        }
        (self.rows, self.next, *next_class) = (rows, first + steps, class_index);
    }

    /// The signs of the last `steps` steps, a bit per lane.
    pub fn last(&self, steps: usize) -> &[u8] {
        self.signs.get(self.next.saturating_sub(steps)..self.next).unwrap_or_default()
    }
}
