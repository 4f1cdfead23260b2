//! What the adaptive coder of floats learns while it goes through a block: how large the elements of this row, this column and this kernel are. Encoder
//! and decoder run the same code, in step, so nothing of it is stored.
//!
//! The expected magnitude is a sum of a base, a row's, a column's and a kernel's part. Each element moves these by how much larger or smaller than expected it
//! was (as the likelihood of a scale asks for: one large element says more than one small one), and each part less the more it has seen.

use super::JOINT_BITS;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};

/// Fixed-point steps of an octave.
const OCTAVE: i32 = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 13;
/// Elements further below their expectation are *dust*, as training leaves it in dead rows and columns: nothing is learnt from them.
const DUST_OCTAVES: i32 = 17;
/// Contexts of a symbol: eight phases of the expectation, and whether the elements to the left and above are dust.
pub(super) const PHASES: usize = 8;
pub(super) const SYMBOL_CONTEXTS: usize = 4 * PHASES;

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

/// How far an element moves what is expected, by its own distance from that, in sixteenths of an octave from [`NEAREST`] on.
type Moves = [i32; 320];
const NEAREST: i32 = -256;

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
    let mut moves = [0; 320];
    let mut index = 0;
    while index < moves.len() {
        let distance = index as i32 + NEAREST;
        let above = if distance > 56 { 56 } else { distance };
        let exponent = quarters * (above - 8);
        let power = POWERS[(exponent & 63) as usize];
        let octaves = exponent >> 6;
        let power = if octaves < 0 { power >> -octaves } else { power << octaves };
        // In nats that would be the power minus one; an octave has 1 / ln 2 = 11818 / 8192 times as many.
        let nats = 4 * 11818 / quarters as i64;
        moves[index] = ((nats * (power - 16384)) >> 14) as i32;
        if distance < -80 {
            moves[index] += tail * (distance + 80);
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

/// A part of the expectation, and how many elements it has seen.
#[derive(Debug, Clone, Copy, Default)]
struct Estimate {
    value: i32,
    seen: u8,
}

impl Estimate {
    /// The value stays small by itself: what is too high gets lowered by each element, and the other way round.
    #[inline(always)]
    fn learn(&mut self, step: i32, rates: &Rates) {
        // 18 bits of a step, 13 of a rate.
        self.value = self.value.wrapping_add((step * rates[usize::from(self.seen)]) >> RATE_BITS);
        self.seen = self.seen.saturating_add(1);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    estimate: Estimate,
    /// Whether its last element was dust.
    dusty: bool,
}

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

/// What changes with every element, apart from the columns.
#[derive(Debug, Clone, Copy)]
struct State {
    place: Place,
    row: Estimate,
    kernel: Estimate,
    /// Whether the element before, in this row, was dust.
    dusty: bool,
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

impl Expectation {
    /// The exponent expected.
    #[inline(always)]
    pub fn exponent(self) -> i32 {
        self.magnitude >> OCTAVE_BITS
    }

    /// How far a magnitude, in (begun) quarter octaves, is above it, in sixteenths of an octave.
    #[inline(always)]
    pub fn distance(self, quarters: u16) -> i32 {
        4 * i32::from(quarters) + 2 - (self.magnitude >> (OCTAVE_BITS - 4))
    }
}

impl Learner {
    /// A block of `count` elements that begins with element `start` of the section.
    pub fn new(learning: Learning, exponent_bits: u32, start: usize, count: usize) -> Self {
        let place = Place::new(learning, start, count);
        let has_kernels = learning.kernel_length > 1;
        Self {
            base: i32::from(learning.base) * (OCTAVE / 8),
            last: (1 << (exponent_bits + OCTAVE_BITS)) - 1,
            has_kernels,
            moves: &STYLES[usize::from(learning.style & 3)],
            row_rates: rates(learning.row_inertia),
            column_rates: rates(learning.column_inertia),
            kernel_rates: if has_kernels { rates(learning.kernel_inertia) } else { [DRIFT; 256] },
            columns: vec![Column::default(); place.slots()],
            state: State { place, row: Estimate::default(), kernel: Estimate::default(), dusty: false },
        }
    }

    /// Goes through the next `count` elements: `code` tells the magnitude of each, in (begun) quarter octaves, given what is expected of it.
    #[inline(always)]
    pub fn walk(&mut self, count: usize, mut code: impl FnMut(Expectation) -> Result<u16>) -> Result<()> {
        // A copy, which registers can hold.
        let mut state = self.state;
        for _ in 0..count {
            let Some(column) = self.columns.get_mut(state.place.slot) else { break };
            let magnitude = self.base.wrapping_add(state.row.value).wrapping_add(column.estimate.value);
            let magnitude = magnitude.wrapping_add(state.kernel.value).clamp(0, self.last);
            let phase = (magnitude >> (OCTAVE_BITS - 3)) as usize & (PHASES - 1);
            let neighbours = usize::from(state.dusty) << 3 | usize::from(column.dusty) << 4;
            let expected = Expectation { magnitude, context: phase | neighbours };
            let quarters = code(expected)?;
            let is_dust = i32::from(quarters >> JOINT_BITS) - expected.exponent() < -DUST_OCTAVES;
            if !is_dust {
                let index = (expected.distance(quarters) - NEAREST).clamp(0, 319);
                let step = self.moves[index as usize];
                state.row.learn(step, &self.row_rates);
                column.estimate.learn(step, &self.column_rates);
                state.kernel.learn(step, &self.kernel_rates);
            }
            (column.dusty, state.dusty) = (is_dust, is_dust);
            let (begins_row, begins_kernel) = state.place.advance();
            if !self.has_kernels {
                state.kernel.value -= state.kernel.value >> 8;
            } else if begins_kernel {
                state.kernel = Estimate::default();
            }
            if begins_row {
                state.row = Estimate { value: state.row.value / 4, seen: 0 };
                (state.kernel, state.dusty) = (Estimate::default(), false);
            }
        }
        self.state = state;
        Ok(())
    }
}
