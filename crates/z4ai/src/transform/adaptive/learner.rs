//! What the adaptive coder of floats learns while it goes through a block: how large the elements of this
//! row, this column and this filter are. Encoder and decoder run the same code, in step, so nothing of it is
//! stored.
//!
//! The expected magnitude is a sum of a base, a row's, a column's and a filter's part. Each element moves
//! these along the gradient of the likelihood of its scale (one large element says more than one small one),
//! at a rate that falls with the elements that the part has seen.

use super::lanes::{FilterPlaces, LanePlaces, Lanes, MOST_STRETCH_STEPS};
use crate::entropy::rans::{ALL_LANES, MIXED_LANES, Stretch, each_lane};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::transform::float::{CENTRE, JOINT_BITS};

/// Fixed-point steps of an octave.
const OCTAVE: i32 = 1 << OCTAVE_BITS;
pub(crate) const OCTAVE_BITS: u32 = 13;
/// Elements further below their expectation, in sixteenths of an octave, are *dust*, as training leaves it in
/// dead rows and columns: nothing is learnt from them.
pub(crate) const DUST: i32 = -17 * 16;
/// Contexts of a symbol: eight phases of the expectation, and whether the elements to the left and above are
/// dust.
pub(crate) const PHASES: usize = 8;
pub(super) const SYMBOL_CONTEXTS: usize = 4 * PHASES;
pub(crate) const LEFT: u32 = PHASES as u32;
pub(crate) const ABOVE: u32 = 2 * LEFT;

/// How the elements lie and how quickly is learnt from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Learning {
    /// Elements per row, and per filter inside a row.
    pub row_length: usize,
    pub filter_length: usize,
    /// Elements from one line to the next, across which signs are compared: of a filter, or else rows.
    pub line_length: usize,
    /// The magnitude that is expected of the first element, in eighths of an octave.
    pub base: u16,
    /// How many elements the first value of a row, of a column and of a filter counts for: powers of two, the
    /// last being for ever.
    pub row_inertia: u8,
    pub column_inertia: u8,
    pub filter_inertia: u8,
    /// Which of the [`STYLE_MOVES`].
    pub style: u8,
}

/// The inertia that never moves.
pub(super) const FIXED: u8 = 7;

impl Learning {
    /// Appends the parameters, with `flags` (below 32) in their last byte.
    pub fn write(&self, flags: u8, out: &mut Vec<u8>) {
        put_length(out, self.row_length);
        put_length(out, if self.filter_length == 1 { 0 } else { self.filter_length });
        if self.filter_length > 1 {
            put_length(out, self.line_length);
        }
        put_length(out, usize::from(self.base));
        out.push(self.row_inertia | self.column_inertia << 3 | self.style << 6);
        out.push(self.filter_inertia | flags << 3);
    }

    /// Reads the parameters of a section of `elements` elements with `exponent_bits` bits of exponent, and
    /// the flags.
    pub fn read(reader: &mut Reader, elements: usize, exponent_bits: u32) -> Result<(Self, u8)> {
        let row_length = reader.length()?;
        let (filter_length, line_length) = match reader.length()? {
            0 => (1, row_length),
            several => (several, reader.length()?),
        };
        let inside = 1..=row_length;
        if row_length > elements || !inside.contains(&filter_length) || !inside.contains(&line_length) {
            return Err(Error::corrupt("a row or a filter is longer than its section"));
        }
        let base = u16::try_from(reader.length()?).ok().filter(|&base| base < 8 << exponent_bits);
        let base = base.ok_or_else(|| Error::corrupt("a section's base scale is out of range"))?;
        let [rates, filter_inertia] = reader.array()?;
        let learning = Self {
            row_length,
            filter_length,
            line_length,
            base,
            row_inertia: rates & 7,
            column_inertia: rates >> 3 & 7,
            filter_inertia: filter_inertia & 7,
            style: rates >> 6,
        };
        Ok((learning, filter_inertia >> 3))
    }
}

/// How far an element moves what is expected, by its own distance from that, in sixteenths of an octave from
/// [`FURTHEST`] on.
pub(crate) type Moves = [i32; 1024];
pub(crate) const FURTHEST: i32 = -768;

/// A distance, limited to the range of [`Moves`].
pub(super) fn bound(distance: i32) -> i32 {
    distance.clamp(FURTHEST, FURTHEST + 1023)
}

/// Ways to learn: in proportion to the magnitude, to its power of 3/4, and the latter and the square root
/// with more weight on tiny elements, for rows and columns far below the others.
pub(super) static STYLE_MOVES: [Moves; 4] = [moves(4, 0), moves(3, 0), moves(3, 512), moves(2, 512)];

/// `16384 * 2^(i / 64)`, rounded.
const POWERS: [i64; 64] = [
    16384, 16562, 16743, 16925, 17109, 17296, 17484, 17674, 17867, 18061, 18258, 18457, 18658, 18861, 19066,
    19274, 19484, 19696, 19911, 20127, 20347, 20568, 20792, 21019, 21247, 21479, 21713, 21949, 22188, 22430,
    22674, 22921, 23170, 23423, 23678, 23936, 24196, 24460, 24726, 24995, 25268, 25543, 25821, 26102, 26386,
    26674, 26964, 27258, 27554, 27855, 28158, 28464, 28774, 29088, 29405, 29725, 30048, 30376, 30706, 31041,
    31379, 31720, 32066, 32415,
];

/// For the magnitude to the power of `quarters` / 4, and `tail` more for each sixteenth of an octave below
/// five octaves.
const fn moves(quarters: i32, tail: i32) -> Moves {
    let mut moves = [0; 1024];
    // Nothing is learnt from dust.
    let mut index = (DUST - FURTHEST) as usize;
    while index < moves.len() {
        let distance = index as i32 + FURTHEST;
        let below = if distance < -256 { -256 } else { distance };
        let above = if below > 56 { 56 } else { below };
        let exponent = quarters * (above - 8);
        let power = POWERS[(exponent & 63) as usize];
        let octaves = exponent >> 6;
        let power = if octaves < 0 { power >> -octaves } else { power << octaves };
        // In nats that would be the power minus one; an octave has 1 / ln 2 = 11818 / 8192 times as many.
        let nats = 4 * 11818 / quarters as i64;
        moves[index] = ((nats * (power - 16384)) >> 14) as i32;
        if below < -80 {
            moves[index] += tail * (below + 80);
        }
        index += 1;
    }
    moves
}

/// The part of a move that is taken over after n elements: `2^RATE_BITS / (n + inertia + 1)`, which stays the
/// same from the last on. There are as many more entries as a run may have steps.
pub(crate) type Rates = [i32; RATES];
const RATES: usize = LAST_RATE + MOST_STRETCH_STEPS;
pub(crate) const RATE_BITS: u32 = 14;
pub(crate) const LAST_RATE: usize = 255;

fn rates(inertia: u8) -> Rates {
    let first = if inertia == FIXED { return [0; RATES] } else { 1i32 << inertia };
    std::array::from_fn(|seen| (1 << RATE_BITS) / (seen.min(LAST_RATE) as i32 + first + 1))
}

/// The rate of the drift along a row, which stands in for filters where there are none. At maximum effort:
/// half +0.002 %, double +0.005 %.
const DRIFT: i32 = (1 << RATE_BITS) / 100;

/// What is known of a column.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Column {
    pub value: i32,
    /// [`ABOVE`] if its last element was dust.
    pub dusty: u32,
}

/// What the lanes have learnt. Values stay bounded: the gradient pulls those that are too high down, and
/// those that are too low up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneStates {
    pub rows: [i32; MIXED_LANES],
    pub filters: [i32; MIXED_LANES],
    /// [`LEFT`] if the element before, in this row, was dust.
    pub dusty: [u32; MIXED_LANES],
}

/// What was learnt in one block.
pub(super) struct Learner {
    base: i32,
    last: i32,
    has_filters: bool,
    moves: &'static Moves,
    row_rates: Rates,
    column_rates: Rates,
    filter_rates: Rates,
    /// Lanes that have not begun or have ended are in columns beyond the last.
    columns: Vec<Column>,
    places: LanePlaces,
    lanes: LaneStates,
}

/// Steps in which no lane begins a row, and what is known of them.
pub(crate) struct MagnitudeRun<'a> {
    /// How many there are, how many of them have been coded, and which lanes they have.
    pub steps: usize,
    pub done: usize,
    pub lanes: u8,
    pub base: i32,
    /// The highest magnitude.
    pub last: i32,
    /// All ones where the drift along a row fades.
    pub fading: i32,
    pub moves: &'static Moves,
    pub row_rates: &'a Rates,
    pub filter_rates: &'a Rates,
    /// Where each lane is in its filter after the steps that have been coded.
    pub filters: FilterPlaces,
    pub column_rates: [i32; MIXED_LANES],
    pub columns: &'a mut [Column],
    /// The column in which each lane begins.
    pub places: [usize; MIXED_LANES],
    pub states: &'a mut LaneStates,
}

/// What is expected of an element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expectation {
    /// Of its magnitude, in fixed point.
    magnitude: i32,
    /// The context of its symbol.
    pub context: usize,
}

/// Codes the elements of a walk.
pub(crate) trait MagnitudeCoder {
    /// Codes the next element, which is in this step of the stretch and this lane, and tells its distance
    /// from what is expected of it, [`bound`].
    fn code(&mut self, step: usize, lane: usize, expected: Expectation) -> i32;

    /// Codes the steps of a run, which begins at step `first` of the stretch.
    #[inline(always)]
    fn code_run(&mut self, first: usize, run: &mut MagnitudeRun)
    where
        Self: Sized,
    {
        run.walk(first, self);
    }
}

impl Expectation {
    /// The exponent expected.
    #[inline(always)]
    pub fn exponent(self) -> i32 {
        self.magnitude >> OCTAVE_BITS
    }

    /// The magnitude expected, in sixteenths of an octave.
    #[inline(always)]
    pub fn sixteenths(self) -> u16 {
        (self.magnitude >> (OCTAVE_BITS - 4)) as u16
    }

    /// How far a magnitude, in (begun) quarter octaves, is above it, in sixteenths of an octave.
    #[inline(always)]
    pub fn distance(self, quarters: u16) -> i32 {
        4 * i32::from(quarters) + 2 - i32::from(self.sixteenths())
    }

    /// How far a magnitude with this symbol, which is not an escape, is above it.
    #[inline(always)]
    pub fn distance_of(self, symbol: u8) -> i32 {
        4 * i32::from(symbol) + 2 - ((4 * CENTRE) << JOINT_BITS) - i32::from(self.sixteenths() & 15)
    }
}

impl Learner {
    /// For a block in these lanes.
    pub fn new(learning: Learning, exponent_bits: u32, lanes: Lanes) -> Self {
        let has_filters = learning.filter_length > 1;
        Self {
            base: i32::from(learning.base) * (OCTAVE / 8),
            last: (1 << (exponent_bits + OCTAVE_BITS)) - 1,
            has_filters,
            moves: &STYLE_MOVES[usize::from(learning.style & 3)],
            row_rates: rates(learning.row_inertia),
            column_rates: rates(learning.column_inertia),
            filter_rates: if has_filters { rates(learning.filter_inertia) } else { [DRIFT; RATES] },
            columns: vec![Column::default(); lanes.columns() + MOST_STRETCH_STEPS],
            places: LanePlaces::new(lanes),
            lanes: LaneStates::default(),
        }
    }

    /// Goes through the elements of a stretch.
    #[inline(always)]
    pub fn walk(&mut self, stretch: Stretch, coder: &mut impl MagnitudeCoder) {
        let mut done = 0;
        while done < stretch.steps {
            let steps = self.places.run(stretch.lanes, stretch.steps - done);
            let places = self.places.lanes;
            let mut run = MagnitudeRun {
                steps,
                done: 0,
                lanes: stretch.lanes,
                base: self.base,
                last: self.last,
                fading: if self.has_filters { 0 } else { -1 },
                moves: self.moves,
                row_rates: &self.row_rates,
                filter_rates: &self.filter_rates,
                filters: self.places.filters(),
                column_rates: places.map(|place| self.column_rates[place.row.min(LAST_RATE)]),
                columns: &mut self.columns,
                places: self.places.columns(stretch.lanes),
                states: &mut self.lanes,
            };
            coder.code_run(done, &mut run);
            for lane in stretch.lanes() {
                if self.places.advance(lane, steps) {
                    self.lanes.rows[lane] /= 4;
                    self.lanes.filters[lane] = 0;
                    self.lanes.dusty[lane] = 0;
                }
            }
            done += steps;
        }
    }
}

impl MagnitudeRun<'_> {
    /// Codes the steps that are left, one after the other; the run begins with step `first` of the stretch.
    #[inline(always)]
    pub fn walk(&mut self, first: usize, coder: &mut impl MagnitudeCoder) {
        while self.done < self.steps {
            self.next(first, coder);
        }
    }

    /// Codes the next step.
    #[inline(always)]
    pub fn next(&mut self, first: usize, coder: &mut impl MagnitudeCoder) {
        if self.lanes == ALL_LANES {
            self.step(first, ALL_LANES, coder);
        } else {
            self.step(first, self.lanes, coder);
        }
    }

    /// Codes a step. No two lanes are in the same column.
    #[inline(always)]
    fn step(&mut self, first: usize, lanes: u8, coder: &mut impl MagnitudeCoder) {
        let step = self.done;
        let LaneStates { rows, filters, dusty } = &mut *self.states;
        each_lane!(lanes, lane => {
            let mut unknown = Column::default();
            let column = self.columns.get_mut(self.places[lane] + step).unwrap_or(&mut unknown);
            let magnitude = self.base.wrapping_add(column.value).wrapping_add(rows[lane]);
            let magnitude = magnitude.wrapping_add(filters[lane]).min(self.last).max(0);
            let phase = (magnitude >> (OCTAVE_BITS - 3)) as u32 & (LEFT - 1);
            let context = phase | dusty[lane] | column.dusty;
            let distance = coder.code(first + step, lane, Expectation { magnitude, context: context as usize });
            let moved = self.moves[(distance - FURTHEST) as usize & 1023];
            // 18 bits of a move, 13 of a rate.
            let part = |rate: i32| (moved * rate) >> RATE_BITS;
            let row_rate = self.row_rates[(self.places[lane] + step).min(LAST_RATE)];
            rows[lane] = rows[lane].wrapping_add(part(row_rate));
            let filter_rate = self.filter_rates[(self.filters.places[lane] as usize).min(LAST_RATE)];
            let filter = filters[lane].wrapping_add(part(filter_rate));
            filters[lane] = if self.filters.advance(lane) { 0 } else { filter - (filter >> 8 & self.fading) };
            dusty[lane] = u32::from(distance < DUST) * LEFT;
            column.value = column.value.wrapping_add(part(self.column_rates[lane]));
            column.dusty = dusty[lane] * (ABOVE / LEFT);
        });
        self.done += 1;
    }
}
