//! Signs at maximum effort. Filters of a convolution repeat their signs from place to place, and the rows and
//! columns of some matrices lean to one side; tallies look at one each, and a third kind at what these two
//! say together, by how large the element is. Tallies are constant within a stretch and learn from it when it
//! ends, so that no sign depends on the update of a tally by another one.

use super::lanes::{ByLane, FilterPlaces, LanePlaces, Lanes, MOST_STRETCH_STEPS};
use super::learner::Learning;
use crate::entropy::mixing::{SUMS, Tally, sum_of};
use crate::entropy::rans::{ALL_LANES, MIXED_LANES, Stretch, each_lane};

/// Places in a filter that are told apart.
pub(crate) const FILTER_PLACES: usize = 32;
/// What the signs to the left, above, and above the one to the left can be.
pub(crate) const NEIGHBOURHOODS: usize = 8;
/// Steps of a row's or column's bias.
pub(crate) const BIASES: usize = 11;
/// Classes of the magnitude, each with chances of its own.
const MAGNITUDE_CLASSES: usize = 8;

/// What is known of the signs of one block.
pub(super) struct SignMixer {
    places: LanePlaces,
    above: Above,
    /// The signs of each step so far, a bit per lane.
    signs: Vec<u8>,
    next: usize,
    /// How much the signs of a column, and of the rows that the lanes are in, lean to one side: from -2^15
    /// (positive) to 2^15. Lanes that have not begun or have ended are in columns beyond the last.
    columns: Vec<i32>,
    rows: [i32; MIXED_LANES],
    by_bias: Tallies<128>,
    by_place: Tallies<{ FILTER_PLACES * NEIGHBOURHOODS }>,
    by_sum: [Tally; MAGNITUDE_CLASSES * SUMS],
    /// What the tallies by sum say.
    chances: [u32; MAGNITUDE_CLASSES * SUMS],
    lessons: Box<ByLane<Lesson>>,
}

/// Tallies and the odds that they say.
struct Tallies<const COUNT: usize> {
    tallies: [Tally; COUNT],
    odds: [i32; COUNT],
}

/// How many steps ago the sign above came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Above {
    /// In the same lane.
    Line(usize),
    /// In the lane before, and for the first lane in the last one.
    Row { others: usize, first: usize },
}

impl Above {
    /// The signs above those of a step, a bit per lane.
    #[inline(always)]
    pub fn of(self, step: usize, signs: &[u8]) -> u8 {
        let ago = |steps| signs.get(step.wrapping_sub(steps)).copied().unwrap_or(0);
        match self {
            Self::Line(steps) => ago(steps),
            Self::Row { others, first } => ago(others) << 1 | ago(first) >> (MIXED_LANES - 1),
        }
    }
}

/// The indices of the tallies that gave a probability, to be updated when the sign is known: by bias, by
/// place (from bit 8 on) and by class and sum (from bit 16 on).
pub(crate) type Lesson = u32;

/// Steps in which no lane begins a row, and what is known of them.
pub(crate) struct SignRun<'a> {
    /// How many there are, and which lanes they have.
    pub steps: usize,
    pub lanes: u8,
    /// The first of them, of all steps of the block.
    pub first: usize,
    pub above: Above,
    /// The signs of each step, a bit per lane.
    pub signs: &'a mut [u8],
    /// The biases of columns, and in which of them each lane begins.
    pub columns: &'a mut [i32],
    pub places: [usize; MIXED_LANES],
    pub rows: &'a mut [i32; MIXED_LANES],
    /// Where each lane is in its filter after the steps that have been coded.
    pub filters: FilterPlaces,
    pub bias_odds: &'a [i32; 128],
    pub place_odds: &'a [i32; FILTER_PLACES * NEIGHBOURHOODS],
    pub chances: &'a [u32; MAGNITUDE_CLASSES * SUMS],
    /// For each step: the classes of the magnitudes, and what is to be learnt from.
    pub classes: &'a [[u8; MIXED_LANES]],
    pub lessons: &'a mut [[Lesson; MIXED_LANES]],
}

/// Codes the signs of a walk.
pub(crate) trait SignCoder {
    /// Codes the next sign, which is in this lane, and is negative with this probability.
    fn code(&mut self, lane: usize, probability: u32) -> bool;

    /// Codes the steps of a run.
    #[inline(always)]
    fn code_run(&mut self, run: &mut SignRun)
    where
        Self: Sized,
    {
        run.walk(self);
    }
}

/// The class of an element that is `distance` sixteenths of an octave above the expected magnitude: octaves,
/// as far as they matter.
#[inline(always)]
pub(super) fn magnitude_class(distance: i16) -> u8 {
    ((distance + 54) >> 4).clamp(0, 5) as u8
}

/// A bias of -1 to 1 in eleven steps.
#[inline(always)]
fn bias_step(bias: i32) -> usize {
    ((bias * 5 + (11 << 14)) >> 15) as usize
}

impl SignRun<'_> {
    /// Codes the steps one after the other.
    #[inline(always)]
    pub fn walk(&mut self, coder: &mut impl SignCoder) {
        if self.lanes == ALL_LANES {
            self.walk_lanes(ALL_LANES, coder);
        } else {
            self.walk_lanes(self.lanes, coder);
        }
    }

    #[inline(always)]
    fn walk_lanes(&mut self, lanes: u8, coder: &mut impl SignCoder) {
        let last = self.first.checked_sub(1).and_then(|last| self.signs.get(last));
        let mut left = last.copied().unwrap_or(0);
        let mut corner = self.above.of(self.first.wrapping_sub(1), self.signs);
        let inputs = self.classes.iter().zip(self.lessons.iter_mut()).take(self.steps);
        for (step, (classes, lessons)) in inputs.enumerate() {
            let above = self.above.of(self.first + step, self.signs);
            let mut signs = 0;
            each_lane!(lanes, lane => {
                let place = self.places[lane] + step;
                let column = self.columns.get(place).copied().unwrap_or(0);
                let row = &mut self.rows[lane];
                let in_filter = self.filters.places[lane].min(FILTER_PLACES as i32 - 1);
                self.filters.advance(lane);
                let neighbours = (corner >> lane & 1) << 2 | (left >> lane & 1) << 1 | above >> lane & 1;
                let by_place = (in_filter as usize * NEIGHBOURHOODS) + usize::from(neighbours);
                let by_bias = (bias_step(column) * BIASES + bias_step(*row)) & 127;
                let sum = sum_of(self.bias_odds[by_bias], self.place_odds[by_place & (FILTER_PLACES * NEIGHBOURHOODS - 1)]);
                let by_sum = (usize::from(classes[lane]) & (MAGNITUDE_CLASSES - 1)) * SUMS + sum;
                let sign = coder.code(lane, self.chances[by_sum]);
                lessons[lane] = (by_bias | by_place << 8 | by_sum << 16) as Lesson;
                signs |= u8::from(sign) << lane;
                *row += (i32::from(sign) << 12) - (1 << 11) - (*row >> 4);
                if let Some(column) = self.columns.get_mut(place) {
                    *column += (((i32::from(sign) << 16) - (1 << 15) - *column) * 5) >> 6;
                }
            });
            if let Some(target) = self.signs.get_mut(self.first + step) {
                *target = signs;
            }
            (left, corner) = (signs, above);
        }
    }
}

impl<const COUNT: usize> Tallies<COUNT> {
    fn new() -> Self {
        Self { tallies: [Tally::NEW; COUNT], odds: [Tally::NEW.odds(); COUNT] }
    }

    fn learn(&mut self, counts: &[u32; COUNT], others: &[u32; COUNT]) {
        let Self { tallies, odds } = self;
        each_counted(counts, others, |place, count| {
            tallies[place].add(count & 0xffff, count >> 16);
            odds[place] = tallies[place].odds();
        });
    }
}

/// Calls `learn` with the place and the sum of two counts wherever that is not 0. In short stretches most are
/// 0, so eight at a time are skipped by one comparison.
#[inline(always)]
fn each_counted<const COUNT: usize>(
    counts: &[u32; COUNT],
    others: &[u32; COUNT],
    mut learn: impl FnMut(usize, u32),
) {
    const TOGETHER: usize = 8;
    let (counts, others) = (counts.as_chunks::<TOGETHER>().0, others.as_chunks::<TOGETHER>().0);
    for (group, (counts, others)) in counts.iter().zip(others).enumerate() {
        let sums: [u32; TOGETHER] = std::array::from_fn(|place| counts[place] + others[place]);
        if sums.iter().fold(0, |any, sum| any | sum) == 0 {
            continue;
        }
        for (place, &sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0) {
            learn(TOGETHER * group + place, sum);
        }
    }
}

/// How many signs (upper half), and how many negative ones, the tallies of a stretch gave the probabilities
/// of.
struct SignCounts {
    by_bias: [u32; 128],
    by_place: [u32; FILTER_PLACES * NEIGHBOURHOODS],
    by_sum: [u32; MAGNITUDE_CLASSES * SUMS],
}

impl SignCounts {
    const NONE: Self = Self {
        by_bias: [0; 128],
        by_place: [0; FILTER_PLACES * NEIGHBOURHOODS],
        by_sum: [0; MAGNITUDE_CLASSES * SUMS],
    };

    #[inline(always)]
    fn add(&mut self, lesson: Lesson, counted: u32) {
        self.by_bias[lesson as usize & 127] += counted;
        self.by_place[(lesson >> 8) as usize & (FILTER_PLACES * NEIGHBOURHOODS - 1)] += counted;
        self.by_sum[(lesson >> 16) as usize & (MAGNITUDE_CLASSES * SUMS - 1)] += counted;
    }
}

impl SignMixer {
    /// For a block in these lanes.
    pub fn new(learning: Learning, lanes: Lanes) -> Self {
        let has_filters = learning.filter_length > 1;
        let above = if has_filters || lanes.count() == 1 {
            Above::Line(learning.line_length)
        } else {
            let before = (MIXED_LANES - 1) * lanes.lag;
            Above::Row { others: lanes.lag, first: learning.row_length - before }
        };
        Self {
            above,
            signs: vec![0; lanes.steps()],
            next: 0,
            columns: vec![0; lanes.columns() + MOST_STRETCH_STEPS],
            places: LanePlaces::new(lanes),
            rows: [0; MIXED_LANES],
            by_bias: Tallies::new(),
            by_place: Tallies::new(),
            by_sum: [Tally::NEW; MAGNITUDE_CLASSES * SUMS],
            chances: std::array::from_fn(|index| Tally::NEW.chance(index)),
            lessons: Box::new([[0; MIXED_LANES]; MOST_STRETCH_STEPS]),
        }
    }

    /// Goes through the elements of a stretch, whose magnitudes have these classes.
    #[inline(always)]
    pub fn walk(&mut self, stretch: Stretch, classes: &ByLane<u8>, coder: &mut impl SignCoder) {
        let mut done = 0;
        while done < stretch.steps {
            let steps = self.places.run(stretch.lanes, stretch.steps - done);
            let mut run = SignRun {
                steps,
                lanes: stretch.lanes,
                first: self.next,
                above: self.above,
                signs: &mut self.signs,
                places: self.places.columns(stretch.lanes),
                columns: &mut self.columns,
                rows: &mut self.rows,
                filters: self.places.filters(),
                bias_odds: &self.by_bias.odds,
                place_odds: &self.by_place.odds,
                chances: &self.chances,
                classes: classes.get(done..).unwrap_or_default(),
                lessons: self.lessons.get_mut(done..).unwrap_or_default(),
            };
            coder.code_run(&mut run);
            for lane in stretch.lanes() {
                if self.places.advance(lane, steps) {
                    self.rows[lane] = 0;
                }
            }
            self.next += steps;
            done += steps;
        }
        self.learn(stretch);
    }

    /// Learns from the stretch that has been coded.
    fn learn(&mut self, stretch: Stretch) {
        let mut counts = [SignCounts::NONE; 2];
        let signs = self.signs.get(self.next - stretch.steps..self.next).unwrap_or_default();
        for (lessons, &signs) in self.lessons.iter().zip(signs) {
            // Neighbours often have a tally in common; in two sets of counts their increments do not depend
            // on each other.
            for (pair, lessons) in lessons.as_chunks::<2>().0.iter().enumerate() {
                for ((counts, &lesson), lane) in counts.iter_mut().zip(lessons).zip(2 * pair..) {
                    counts.add(
                        lesson,
                        (1 << 16 | u32::from(signs >> lane & 1)) * u32::from(stretch.lanes >> lane & 1),
                    );
                }
            }
        }
        let [counts, others] = counts;
        self.by_bias.learn(&counts.by_bias, &others.by_bias);
        self.by_place.learn(&counts.by_place, &others.by_place);
        let (tallies, chances) = (&mut self.by_sum, &mut self.chances);
        each_counted(&counts.by_sum, &others.by_sum, |sum, count| {
            tallies[sum].add(count & 0xffff, count >> 16);
            chances[sum] = tallies[sum].chance(sum);
        });
    }

    /// The signs of the last `steps` steps, a bit per lane.
    pub fn last(&self, steps: usize) -> &[u8] {
        self.signs.get(self.next.saturating_sub(steps)..self.next).unwrap_or_default()
    }
}
