//! How the adaptive coder of floats cuts a block into *lanes*: stretches of whole rows, where there are enough of them, through which it goes in step. Every lane
//! is at the same column of its row, so what is learnt about columns is shared, and where an element stands is worked out once for all lanes.

use super::learner::Learning;
use crate::entropy::rans::{MIXED_LANES, Stretch};

/// The fewest elements of a block with lanes: each has a state to store, and learns less.
const FEWEST: usize = 1 << 13;
/// The most steps between symbols and signs of the same elements, which stay in the first-level cache meanwhile.
const STEPS: usize = 1024;
/// The most elements of a stretch.
pub(super) const MOST: usize = STEPS * MIXED_LANES;

/// The lanes of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    /// Where each begins, and where the last one ends.
    bounds: [usize; MIXED_LANES + 1],
}

impl Lanes {
    /// The lanes of a block of `count` elements. None is longer than the one before it.
    pub fn new(learning: Learning, count: usize) -> Self {
        if count < FEWEST {
            let mut bounds = [count; MIXED_LANES + 1];
            bounds[0] = 0;
            return Self { bounds };
        }
        let units = [learning.row_length, learning.kernel_length];
        let unit = units.into_iter().find(|&unit| unit <= count / MIXED_LANES).unwrap_or(1).max(1);
        let units = count.div_ceil(unit);
        let (each, more) = (units / MIXED_LANES, units % MIXED_LANES);
        Self { bounds: std::array::from_fn(|lane| count.min(unit * (lane * each + lane.min(more)))) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.active(0).max(1)
    }

    /// Elements of the longest.
    pub fn longest(&self) -> usize {
        self.length(0)
    }

    fn length(&self, lane: usize) -> usize {
        self.bounds[lane + 1] - self.bounds[lane]
    }

    /// Lanes that have an element at a step.
    fn active(&self, step: usize) -> usize {
        (0..MIXED_LANES).take_while(|&lane| self.length(lane) > step).count()
    }

    /// The stretches of the block, in order, each with its first step.
    pub fn stretches(self) -> impl Iterator<Item = (usize, Stretch)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let lanes = self.active(next);
            let end = self.length(lanes.checked_sub(1)?).min(next + STEPS);
            let stretch = (next, Stretch { steps: end - next, lanes });
            next = end;
            Some(stretch)
        })
    }

    /// The elements of a block in the order in which they are coded.
    pub fn gather(self, elements: &[u16]) -> Vec<u16> {
        let mut gathered = vec![0; elements.len()];
        let mut rest = &mut gathered[..];
        for (first, stretch) in self.stretches() {
            let (targets, others) = rest.split_at_mut(stretch.steps * stretch.lanes);
            rest = others;
            for (lane, start) in self.bounds.iter().enumerate().take(stretch.lanes) {
                let lane = targets.iter_mut().skip(lane).step_by(stretch.lanes);
                lane.zip(&elements[start + first..]).for_each(|(target, &element)| *target = element);
            }
        }
        gathered
    }

    /// Puts the elements of a stretch, in the order in which they are coded, to their places in the block.
    pub fn scatter(&self, first: usize, stretch: Stretch, coded: &[u16], elements: &mut [u16]) {
        for (lane, start) in self.bounds.iter().enumerate().take(stretch.lanes) {
            let lane = coded.iter().skip(lane).step_by(stretch.lanes);
            let targets = elements.get_mut(start + first..).unwrap_or_default();
            targets.iter_mut().zip(lane).take(stretch.steps).for_each(|(target, &element)| *target = element);
        }
    }
}
