//! How the adaptive coder of floats cuts a block into *lanes*, which it goes through in step. Rows are dealt
//! to the lanes in turn, and each lane is an eighth of a row behind the one before it: whatever is above an
//! element is then known when its turn comes, as it would be with a single lane.

use super::learner::Learning;
use crate::entropy::rans::{MIXED_LANES, MIXED_WINDOW, Stretch};

/// The fewest elements of a block with lanes: each has a state to store. At maximum effort: half +0.002 %,
/// double -0.002 %.
const FEWEST_LANE_ELEMENTS: usize = 1 << 13;
/// The fewest rows and the shortest rows of a block with lanes, since lanes begin and end one after the
/// other. At maximum effort: half or double changes no size.
const FEWEST_LANE_ROWS: usize = 8;
const SHORTEST_ROW: usize = MIXED_LANES;
/// The most steps of a stretch, whose elements stay in the first-level cache between their symbols and their
/// signs, and the fewest of one that is not cut off by a lane's begin or end. Signs are learnt from when a
/// stretch ends, so the first ones are short. At maximum effort: half and double of the fewest change less
/// than 0.001 %; the most are what the decoder has room for.
pub(super) const MOST_STRETCH_STEPS: usize = MIXED_WINDOW / MIXED_LANES;
const FEWEST_STEPS: usize = 16;

/// One number for each lane in each step of a stretch.
pub(super) type ByLane<T> = [[T; MIXED_LANES]; MOST_STRETCH_STEPS];

/// The lanes of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    row_length: usize,
    filter_length: usize,
    /// How many there are, and how many steps each is behind the one before it.
    count: usize,
    pub lag: usize,
    /// Elements of each.
    lengths: [usize; MIXED_LANES],
}

impl Lanes {
    /// The lanes of a block of `elements` elements, which begins with a row.
    pub fn new(learning: Learning, elements: usize) -> Self {
        let Learning { row_length, filter_length, .. } = learning;
        let rows = elements / row_length;
        let count = if elements < FEWEST_LANE_ELEMENTS || rows < FEWEST_LANE_ROWS || row_length < SHORTEST_ROW
        {
            1
        } else {
            MIXED_LANES
        };
        // In whole filters, so that they end together, unless these are too long for that.
        let part = row_length / MIXED_LANES;
        let lag = if part < filter_length { part } else { part / filter_length * filter_length };
        let length = |lane: usize| {
            let whole = (rows + count).saturating_sub(lane + 1) / count * row_length;
            whole + if rows % count == lane { elements % row_length } else { 0 }
        };
        let lengths = std::array::from_fn(|lane| if lane < count { length(lane) } else { 0 });
        Self { row_length, filter_length, count, lag, lengths }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Columns of the block.
    pub fn columns(&self) -> usize {
        self.row_length.min(self.lengths[0])
    }

    /// Steps until all lanes have ended.
    pub fn steps(&self) -> usize {
        (0..self.count).map(|lane| self.end(lane)).max().unwrap_or(0)
    }

    fn end(&self, lane: usize) -> usize {
        lane * self.lag + self.lengths[lane]
    }

    /// The stretches of the block, in order, each with its first step: these end where a lane begins or ends.
    pub fn stretches(self) -> impl Iterator<Item = (usize, Stretch)> {
        let (mut next, last) = (0, self.steps());
        std::iter::from_fn(move || {
            let first = next;
            let steps = (first / 2).clamp(FEWEST_STEPS, MOST_STRETCH_STEPS);
            let (mut lanes, mut end) = (0, last.min(first + steps));
            for lane in 0..self.count {
                let bounds = [lane * self.lag, self.end(lane)];
                if bounds[0] <= first && first < bounds[1] {
                    lanes |= 1 << lane;
                }
                end = bounds.into_iter().filter(|&bound| bound > first).fold(end, usize::min);
            }
            next = end;
            (first < last).then_some((first, Stretch { steps: end - first, lanes }))
        })
    }

    /// The pieces of a row that a lane goes through in a stretch: the first step of each, from the stretch's
    /// first on, where it begins in the block, and how long it is.
    fn pieces(&self, lane: usize, first: usize, steps: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let (row_length, count) = (self.row_length, self.count);
        let (start, mut step) = (first.saturating_sub(lane * self.lag), 0);
        std::iter::from_fn(move || {
            let (row, column) = ((start + step) / row_length, (start + step) % row_length);
            let length = (row_length - column).min(steps - step);
            let piece = (step, (row * count + lane) * row_length + column, length);
            step += length;
            (length > 0).then_some(piece)
        })
    }

    /// The elements of a block in the order in which they are coded.
    pub fn gather(self, elements: &[u16]) -> Vec<u16> {
        let mut gathered = vec![0; elements.len()];
        let mut rest = &mut gathered[..];
        for (first, stretch) in self.stretches() {
            let (targets, others) = rest.split_at_mut(stretch.elements());
            rest = others;
            for (rank, lane) in stretch.lanes().enumerate() {
                for (step, start, length) in self.pieces(lane, first, stretch.steps) {
                    let targets =
                        targets.iter_mut().skip(step * stretch.width() + rank).step_by(stretch.width());
                    let sources = elements[start..][..length].iter();
                    targets.zip(sources).for_each(|(target, &element)| *target = element);
                }
            }
        }
        gathered
    }

    /// Puts the elements of a stretch, by step and lane, with their signs, a bit per lane, to their places in
    /// the block.
    pub fn scatter(
        &self,
        first: usize,
        stretch: Stretch,
        coded: &ByLane<u16>,
        signs: &[u8],
        elements: &mut [u16],
    ) {
        for lane in stretch.lanes() {
            for (step, start, length) in self.pieces(lane, first, stretch.steps) {
                let targets = elements.get_mut(start..).unwrap_or_default().iter_mut().take(length);
                let sources = coded.get(step..).unwrap_or_default().iter();
                let sources = sources.zip(signs.get(step..).unwrap_or_default());
                for (target, (source, signs)) in targets.zip(sources) {
                    *target = source[lane] | u16::from(signs >> lane) << 15;
                }
            }
        }
    }
}

/// Where a lane stands: the row and the column of the block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub row: usize,
    pub column: usize,
}

/// Where all lanes of a block stand.
#[derive(Debug, Clone)]
pub(super) struct LanePlaces {
    pub lanes: [Place; MIXED_LANES],
    row_length: usize,
    filter_length: usize,
    count: usize,
    columns: usize,
}

impl LanePlaces {
    /// At the start of a block.
    pub fn new(lanes: Lanes) -> Self {
        Self {
            lanes: std::array::from_fn(|row| Place { row, column: 0 }),
            row_length: lanes.row_length,
            filter_length: lanes.filter_length,
            count: lanes.count,
            columns: lanes.columns(),
        }
    }

    /// The columns that these lanes are in; for others the first beyond the last.
    pub fn columns(&self, lanes: u8) -> [usize; MIXED_LANES] {
        std::array::from_fn(
            |lane| if lanes >> lane & 1 == 1 { self.lanes[lane].column } else { self.columns },
        )
    }

    /// The places of the lanes in their filters.
    pub fn filters(&self) -> FilterPlaces {
        let length = self.filter_length;
        // There is no need to divide where there are no filters.
        let place = |place: Place| if length == 1 { 0 } else { (place.column % length) as i32 };
        FilterPlaces { places: self.lanes.map(place), length: length as i32, step: i32::from(length > 1) }
    }

    /// How many of `steps` steps all of these lanes can take inside their rows.
    pub fn run(&self, lanes: u8, steps: usize) -> usize {
        let places = self.lanes.iter().enumerate().filter(|(lane, _)| lanes >> lane & 1 == 1);
        places.map(|(_, place)| self.row_length - place.column).fold(steps, usize::min)
    }

    /// Moves a lane by a run, and tells whether it begins a row there.
    pub fn advance(&mut self, lane: usize, run: usize) -> bool {
        let place = &mut self.lanes[lane & (MIXED_LANES - 1)];
        place.column += run;
        let begins = place.column == self.row_length;
        if begins {
            *place = Place { row: place.row + self.count, column: 0 };
        }
        begins
    }
}

/// The places of the lanes in their filters: 0 where there are none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterPlaces {
    pub places: [i32; MIXED_LANES],
    pub length: i32,
    /// How much further the places are with each step.
    pub step: i32,
}

impl FilterPlaces {
    /// Moves a lane by a step, and tells whether it begins a filter there.
    #[inline(always)]
    pub fn advance(&mut self, lane: usize) -> bool {
        let place = &mut self.places[lane & (MIXED_LANES - 1)];
        *place += self.step;
        let begins = *place == self.length;
        if begins {
            *place = 0;
        }
        begins
    }

    /// The place that all lanes of a set have in common, if they have.
    pub fn common(&self, lanes: u8) -> Option<i32> {
        let first = self.places.get(lanes.trailing_zeros() as usize).copied()?;
        let mut places = self.places.iter().enumerate().filter(|(lane, _)| lanes >> lane & 1 == 1);
        places.all(|(_, &place)| place == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn learning(row_length: usize, filter_length: usize) -> Learning {
        Learning {
            row_length,
            filter_length,
            line_length: 1,
            base: 0,
            row_inertia: 0,
            column_inertia: 0,
            filter_inertia: 0,
            style: 0,
        }
    }

    #[test]
    fn what_is_above_has_been_coded() {
        let (row_length, count) = (100, 10_050);
        let lanes = Lanes::new(learning(row_length, 1), count);
        assert_eq!((lanes.count(), lanes.lag), (MIXED_LANES, 12));
        let elements: Vec<u16> = (0..count as u16).collect();
        let mut coded = vec![false; count];
        for element in lanes.gather(&elements).into_iter().map(usize::from) {
            assert!(element < row_length || coded[element - row_length], "{element}");
            assert!(element % row_length == 0 || coded[element - 1], "{element}");
            coded[element] = true;
        }
        assert!(coded.into_iter().all(|coded| coded));
    }

    proptest! {
        #[test]
        fn every_element_is_in_one_lane(row in 1usize..3000, filter in 1usize..40, count in 1usize..40_000) {
            let lanes = Lanes::new(learning(row, filter.min(row)), count);
            let elements: Vec<u16> = (0..count as u16).collect();
            let gathered = lanes.gather(&elements);
            let (mut back, mut rest) = (vec![0; count], &gathered[..]);
            for (first, stretch) in lanes.stretches() {
                prop_assert!(stretch.steps > 0 && stretch.steps <= MOST_STRETCH_STEPS);
                let (coded, others) = rest.split_at(stretch.elements());
                let mut by_lane = [[0; MIXED_LANES]; MOST_STRETCH_STEPS];
                for (step, coded) in by_lane.iter_mut().zip(coded.chunks(stretch.width())) {
                    stretch.lanes().zip(coded).for_each(|(lane, &element)| step[lane] = element);
                }
                lanes.scatter(first, stretch, &by_lane, &[0; MOST_STRETCH_STEPS], &mut back);
                rest = others;
            }
            prop_assert!(rest.is_empty() && back == elements);
        }
    }
}
