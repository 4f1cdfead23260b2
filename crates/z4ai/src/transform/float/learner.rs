//! What the adaptive coder of floats learns while it goes through a block: how large the elements of this row, this column and this kernel are. Encoder
//! and decoder run the same code, in step, so nothing of it is stored.
//!
//! The expected magnitude is a sum of a base, a row's, a column's and a kernel's part. Each element moves these by how much larger or smaller than expected it
//! was (as the likelihood of a scale asks for: one large element says more than one small one), and each part less the more it has seen.

use super::{CENTRE, JOINT_BITS};
use crate::entropy::rans::{MIXED_LANES, Stretch, each_lane};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};

/// Fixed-point steps of an octave.
const OCTAVE: i32 = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 13;
/// Elements further below their expectation, in sixteenths of an octave, are *dust*, as training leaves it in dead rows and columns: nothing is learnt from them.
const DUST: i32 = -17 * 16;
/// Contexts of a symbol: eight phases of the expectation, and whether the elements to the left and above are dust.
pub(super) const PHASES: usize = 8;
pub(super) const SYMBOL_CONTEXTS: usize = 4 * PHASES;
const LEFT: u32 = PHASES as u32;
const ABOVE: u32 = 2 * LEFT;

/// How the elements lie and how quickly is learnt from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Learning {
    /// Elements per row, and per kernel inside a row.
    pub row_length: usize,
    pub kernel_length: usize,
    /// Elements from one line to the next, across which signs are compared: of a kernel, or else rows.
    pub line_length: usize,
    /// The magnitude that is expected of the first element, in eighths of an octave.
    pub base: u16,
    /// How many elements the first value of a row, of a column and of a kernel counts for: powers of two, the last being for ever.
    pub row_inertia: u8,
    pub column_inertia: u8,
    pub kernel_inertia: u8,
    /// Which of the [`STYLES`].
    pub style: u8,
}

/// The inertia that never moves.
pub(super) const FIXED: u8 = 7;

impl Learning {
    /// Appends the parameters, with `flags` (below 32) in their last byte.
    pub fn write(&self, flags: u8, out: &mut Vec<u8>) {
        put_length(out, self.row_length);
        put_length(out, if self.kernel_length == 1 { 0 } else { self.kernel_length });
        if self.kernel_length > 1 {
            put_length(out, self.line_length);
        }
        put_length(out, usize::from(self.base));
        out.push(self.row_inertia | self.column_inertia << 3 | self.style << 6);
        out.push(self.kernel_inertia | flags << 3);
    }

    /// Reads the parameters of a section of `elements` elements with `exponent_bits` bits of exponent, and the flags.
    pub fn read(reader: &mut Reader, elements: usize, exponent_bits: u32) -> Result<(Self, u8)> {
        let row_length = reader.length()?;
        let (kernel_length, line_length) = match reader.length()? {
            0 => (1, row_length),
            several => (several, reader.length()?),
        };
        let inside = 1..=row_length;
        if row_length > elements || !inside.contains(&kernel_length) || !inside.contains(&line_length) {
            return Err(Error::corrupt("a row or a kernel is longer than its section"));
        }
        let base = u16::try_from(reader.length()?).ok().filter(|&base| base < 8 << exponent_bits);
        let base = base.ok_or_else(|| Error::corrupt("a section's base scale is out of range"))?;
        let [rates, kernel_inertia] = reader.array()?;
        let learning = Self {
            row_length,
            kernel_length,
            line_length,
            base,
            row_inertia: rates & 7,
            column_inertia: rates >> 3 & 7,
            kernel_inertia: kernel_inertia & 7,
            style: rates >> 6,
        };
        Ok((learning, kernel_inertia >> 3))
    }
}

/// How far an element moves what is expected, by its own distance from that, in sixteenths of an octave from [`FURTHEST`] on.
type Moves = [i32; 1024];
const FURTHEST: i32 = -768;

/// Ways to learn: in proportion to the magnitude, to its power of 3/4, and the latter and the square root with more weight on tiny elements, for rows and columns far below
/// the others.
static STYLES: [Moves; 4] = [moves(4, 0), moves(3, 0), moves(3, 512), moves(2, 512)];

/// `16384 * 2^(i / 64)`, rounded.
const POWERS: [i64; 64] = [
    16384, 16562, 16743, 16925, 17109, 17296, 17484, 17674, 17867, 18061, 18258, 18457, 18658, 18861, 19066,
    19274, 19484, 19696, 19911, 20127, 20347, 20568, 20792, 21019, 21247, 21479, 21713, 21949, 22188, 22430,
    22674, 22921, 23170, 23423, 23678, 23936, 24196, 24460, 24726, 24995, 25268, 25543, 25821, 26102, 26386,
    26674, 26964, 27258, 27554, 27855, 28158, 28464, 28774, 29088, 29405, 29725, 30048, 30376, 30706, 31041,
    31379, 31720, 32066, 32415,
];

/// For the magnitude to the power of `quarters` / 4, and `tail` more for each sixteenth of an octave below five octaves.
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

/// The part of a move that is taken over after n elements: `2^RATE_BITS / (n + inertia + 1)`.
type Rates = [i32; 256];
const RATE_BITS: u32 = 14;

fn rates(inertia: u8) -> Rates {
    let first = if inertia == FIXED { return [0; 256] } else { 1i32 << inertia };
    std::array::from_fn(|seen| (1 << RATE_BITS) / (seen as i32 + first + 1))
}

/// The rate of the drift along a row, which stands in for kernels where there are none.
const DRIFT: i32 = (1 << RATE_BITS) / 100;

/// Where an element stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    row_length: usize,
    kernel_length: usize,
    /// Columns of the block, which begin with its first element, and which of them this one is in.
    slots: usize,
    pub slot: usize,
    /// Elements up to the end of the row and of the kernel, this one included.
    left_in_row: usize,
    left_in_kernel: usize,
}

impl Place {
    /// The first of `count` elements of a block, which is element `start` of the section.
    pub fn new(learning: Learning, start: usize, count: usize) -> Self {
        let Learning { row_length, kernel_length, .. } = learning;
        let column = start % row_length;
        Self {
            row_length,
            kernel_length,
            slots: row_length.min(count).max(1),
            slot: 0,
            left_in_row: row_length - column,
            left_in_kernel: kernel_length - column % kernel_length,
        }
    }

    /// How many columns the block has.
    pub fn slots(self) -> usize {
        self.slots
    }

    /// The place in the kernel.
    #[inline(always)]
    pub fn position(self) -> usize {
        self.kernel_length - self.left_in_kernel
    }

    /// Goes on to the next element; says whether that begins a row, and whether it begins a kernel.
    #[inline(always)]
    pub fn advance(&mut self) -> (bool, bool) {
        self.slot += 1;
        if self.slot == self.slots {
            self.slot = 0;
        }
        self.left_in_kernel -= 1;
        let begins_kernel = self.left_in_kernel == 0;
        if begins_kernel {
            self.left_in_kernel = self.kernel_length;
        }
        self.left_in_row -= 1;
        let begins_row = self.left_in_row == 0;
        if begins_row {
            (self.left_in_row, self.left_in_kernel) = (self.row_length, self.kernel_length);
        }
        (begins_row, begins_kernel)
    }
}

/// What is known of a column.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    value: i32,
    /// [`ABOVE`] in the byte of each lane in which its last element was dust.
    dusty: u32,
}

/// What changes with every element, apart from the columns.
#[derive(Debug, Clone, Copy)]
struct State {
    place: Place,
    /// The parts of the rows and kernels that the lanes are in. Values stay small by themselves: what is too high gets lowered by each element, and the other way
    /// round.
    rows: [i32; MIXED_LANES],
    kernels: [i32; MIXED_LANES],
    /// Elements that the row, the kernel and the column of a lane have seen.
    in_row: usize,
    in_kernel: usize,
    in_column: usize,
    /// [`LEFT`] in the byte of each lane in which the element before, in this row, was dust.
    dusty: u32,
}

/// What was learnt in one block.
pub(super) struct Learner {
    base: i32,
    last: i32,
    has_kernels: bool,
    moves: &'static Moves,
    row_rates: Rates,
    column_rates: Rates,
    kernel_rates: Rates,
    columns: Vec<Column>,
    state: State,
}

/// What is expected of an element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expectation {
    /// Of its magnitude, in fixed point.
    magnitude: i32,
    /// The context of its symbol.
    pub context: usize,
}

/// Codes the elements of a walk.
pub(super) trait MagnitudeCoder {
    /// Codes the next element, which is in this lane, and tells its distance from what is expected of it.
    fn code(&mut self, lane: usize, expected: Expectation) -> i32;
}

impl Expectation {
    /// The exponent expected.
    #[inline(always)]
    pub fn exponent(self) -> i32 {
        self.magnitude >> OCTAVE_BITS
    }

    /// How far a magnitude, in (begun) quarter octaves, is above it, in sixteenths of an octave, as far as that matters.
    #[inline(always)]
    pub fn distance(self, quarters: u16) -> i32 {
        (4 * i32::from(quarters) + 2 - (self.magnitude >> (OCTAVE_BITS - 4))).clamp(FURTHEST, FURTHEST + 1023)
    }

    /// The same for a magnitude that has this symbol, which is not an escape.
    #[inline(always)]
    pub fn distance_of(self, symbol: u8) -> i32 {
        4 * i32::from(symbol) + 2 - (4 * CENTRE << JOINT_BITS) - (self.magnitude >> (OCTAVE_BITS - 4) & 15)
    }
}

impl Learner {
    /// A block that begins with element `start` of the section, in lanes of at most `steps` elements.
    pub fn new(learning: Learning, exponent_bits: u32, start: usize, steps: usize) -> Self {
        let place = Place::new(learning, start, steps);
        let has_kernels = learning.kernel_length > 1;
        let (rows, kernels) = ([0; MIXED_LANES], [0; MIXED_LANES]);
        Self {
            base: i32::from(learning.base) * (OCTAVE / 8),
            last: (1 << (exponent_bits + OCTAVE_BITS)) - 1,
            has_kernels,
            moves: &STYLES[usize::from(learning.style & 3)],
            row_rates: rates(learning.row_inertia),
            column_rates: rates(learning.column_inertia),
            kernel_rates: if has_kernels { rates(learning.kernel_inertia) } else { [DRIFT; 256] },
            columns: vec![Column::default(); place.slots()],
            state: State { place, rows, kernels, in_row: 0, in_kernel: 0, in_column: 0, dusty: 0 },
        }
    }

    /// Goes through the elements of a stretch.
    #[inline(always)]
    pub fn walk(&mut self, stretch: Stretch, coder: &mut impl MagnitudeCoder) {
        if stretch.lanes == MIXED_LANES {
            self.walk_lanes(stretch.steps, MIXED_LANES, coder);
        } else {
            self.walk_lanes(stretch.steps, stretch.lanes, coder);
        }
    }

    #[inline(always)]
    fn walk_lanes(&mut self, steps: usize, lanes: usize, coder: &mut impl MagnitudeCoder) {
        // A copy, which registers can hold.
        let mut state = self.state;
        for _ in 0..steps {
            let Some(column) = self.columns.get_mut(state.place.slot) else { break };
            let common = self.base.wrapping_add(column.value);
            let row_rate = self.row_rates[state.in_row.min(255)];
            let kernel_rate = self.kernel_rates[state.in_kernel.min(255)];
            let column_rate = self.column_rates[(state.in_column + lanes - 1).min(255)];
            let neighbours = state.dusty | column.dusty;
            let (mut sum, mut dusty) = (0, 0);
            each_lane!(lanes, lane => {
                let (row, kernel) = (&mut state.rows[lane], &mut state.kernels[lane]);
                let magnitude = common.wrapping_add(*row).wrapping_add(*kernel).clamp(0, self.last);
                let phase = (magnitude >> (OCTAVE_BITS - 3)) as u32 & (LEFT - 1);
                let context = phase | neighbours >> (8 * lane) & (LEFT | ABOVE);
                let distance = coder.code(lane, Expectation { magnitude, context: context as usize });
                let step = self.moves[(distance - FURTHEST) as usize & 1023];
                // 18 bits of a step, 13 of a rate.
                *row = row.wrapping_add((step * row_rate) >> RATE_BITS);
                *kernel = kernel.wrapping_add((step * kernel_rate) >> RATE_BITS);
                sum += step;
                dusty |= u32::from(distance < DUST) << (8 * lane);
            });
            // The more lanes, the larger the sum, but the smaller the rate.
            column.value = column.value.wrapping_add((sum * column_rate) >> RATE_BITS);
            (column.dusty, state.dusty) = (dusty * ABOVE, dusty * LEFT);
            state.in_row += 1;
            state.in_kernel += 1;
            let (begins_row, begins_kernel) = state.place.advance();
            if !self.has_kernels {
                state.kernels = state.kernels.map(|drift| drift - (drift >> 8));
            } else if begins_kernel {
                (state.kernels, state.in_kernel) = ([0; MIXED_LANES], 0);
            }
            if begins_row {
                state.rows = state.rows.map(|row| row / 4);
                (state.kernels, state.in_row, state.in_kernel, state.dusty) = ([0; MIXED_LANES], 0, 0, 0);
            }
            if state.place.slot == 0 {
                state.in_column += lanes;
            }
        }
        self.state = state;
    }
}
