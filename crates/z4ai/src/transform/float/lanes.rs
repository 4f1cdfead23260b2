//! How the adaptive coder of floats cuts a block into *lanes*, which it goes through in step, and where each lane stands in its row and kernel. What is learnt about
//! columns is shared by all lanes, so these are about a quarter of a row apart from each other: a lane then finds what the others have learnt about its column.

use super::learner::Learning;
use crate::entropy::rans::{MIXED_LANES, Stretch};

/// The fewest elements of a block with lanes: each has a state to store, and begins in the middle of things.
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
        let Learning { row_length, kernel_length, .. } = learning;
        let quarter = count.div_ceil(MIXED_LANES);
        let length = if count < FEWEST {
            count
        } else if row_length > count / 8 {
            quarter.next_multiple_of(kernel_length)
        } else {
            // A quarter of a row, or three, in whole kernels.
            let part = row_length / MIXED_LANES / kernel_length * kernel_length;
            let rounded = [part, row_length - part]
                .map(|part| quarter.saturating_sub(part).next_multiple_of(row_length) + part);
            rounded[0].min(rounded[1])
        };
        Self { bounds: std::array::from_fn(|lane| count.min(lane * length)) }
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

/// Where a lane stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Which of the block's columns it is in.
    pub slot: usize,
    /// Elements of its row that it has seen, and that are left.
    pub in_row: usize,
    left_in_row: usize,
    /// The place in the kernel; 0 where there are none.
    pub in_kernel: usize,
}

/// What begins where a lane has gone to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    Nothing,
    Kernel,
    Row,
}

/// Where all lanes of a block stand.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub lanes: [Place; MIXED_LANES],
    row_length: usize,
    kernel_length: usize,
    /// Columns of the block. Those of a block of less than a row are all different, wherever they begin.
    slots: usize,
}

impl Places {
    /// The lanes at the start of a block whose first element is element `start` of the section.
    pub fn new(learning: Learning, lanes: Lanes, start: usize) -> Self {
        let Learning { row_length, kernel_length, .. } = learning;
        let count = lanes.bounds[MIXED_LANES];
        let place = |lane: usize| {
            let column = (start + lanes.bounds[lane]) % row_length;
            Place {
                slot: if row_length > count { lanes.bounds[lane] } else { column },
                in_row: 0,
                left_in_row: row_length - column,
                in_kernel: column % kernel_length,
            }
        };
        let slots = row_length.min(count);
        Self { lanes: std::array::from_fn(place), row_length, kernel_length, slots }
    }

    /// How many columns the block has.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// How many of `steps` steps the first `lanes` lanes can take in their rows and kernels.
    #[inline(always)]
    pub fn run(&self, lanes: usize, steps: usize) -> usize {
        self.lanes.iter().take(lanes).fold(steps, |run, place| {
            let in_kernel = if self.kernel_length > 1 { self.kernel_length - place.in_kernel } else { run };
            run.min(place.left_in_row).min(in_kernel)
        })
    }

    /// Moves a lane by a run.
    #[inline(always)]
    pub fn advance(&mut self, lane: usize, run: usize) -> Begins {
        let place = &mut self.lanes[lane & (MIXED_LANES - 1)];
        place.slot += run;
        place.in_row += run;
        place.left_in_row -= run;
        if place.left_in_row == 0 {
            let slot = if self.slots < self.row_length { place.slot } else { 0 };
            *place = Place { slot, in_row: 0, left_in_row: self.row_length, in_kernel: 0 };
            return Begins::Row;
        }
        if self.kernel_length > 1 {
            place.in_kernel += run;
            if place.in_kernel == self.kernel_length {
                place.in_kernel = 0;
                return Begins::Kernel;
            }
        }
        Begins::Nothing
    }
}
