//! What the adaptive coder of floats learns while it goes through a block: how large the elements of this row, this column and this kernel are. Encoder
//! and decoder run the same code, in step, so nothing of it is stored.

use super::adaptive::AdaptiveModel;
use super::signs::Neighbours;
use crate::error::Result;

/// Fixed-point steps of an octave, and their logarithm.
const OCTAVE: i32 = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 13;
/// The furthest that rows and columns may take an expectation from the mean of all elements.
const REACH: i32 = 20 * OCTAVE;
/// Contexts of a symbol: four phases of the expectation, and eight classes of how sure it is.
pub(super) const SYMBOL_CONTEXTS: usize = 32;
/// Contexts of a sign: eight of the neighbours, four of the magnitude.
pub(super) const SIGN_CONTEXTS: usize = 32;

/// A mean that moves less the more it has seen.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    value: i32,
    count: u16,
}

/// 2^16 / (n + 1).
const SHARES: [i64; 264] = {
    let mut shares = [0; 264];
    let mut count = 0;
    while count < shares.len() {
        shares[count] = (1 << 16) / (count as i64 + 1);
        count += 1;
    }
    shares
};

impl Mean {
    /// Adds an observation; `prior` (at most 8) is how many observations the first value counts for.
    #[inline(always)]
    fn add(&mut self, observed: i32, prior: usize) {
        let share = SHARES[(usize::from(self.count) + prior).min(SHARES.len() - 1)];
        self.value += ((i64::from(observed - self.value) * share) >> 16) as i32;
        self.count = (self.count + 1).min(255);
    }
}

/// The state of one block.
pub(super) struct Learner<'a> {
    model: &'a AdaptiveModel,
    base: i32,
    columns: Vec<Mean>,
    row: Mean,
    /// Of what rows and columns leave to be explained: in this kernel, or lately where there are none.
    kernel: Mean,
    /// The same of the element before, if that is in this row.
    left: i32,
    /// The column of the next element in its row, in its kernel, and in `columns`, which begin with the block.
    column: usize,
    position: usize,
    slot: usize,
    neighbours: Neighbours,
}

/// What is expected of an element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expectation {
    /// Of its magnitude, in quarter octaves.
    pub quarters: i32,
    /// The context of its symbol.
    pub context: usize,
}

impl<'a> Learner<'a> {
    /// A block of `count` elements that begins with element `start` of the section.
    pub fn new(model: &'a AdaptiveModel, start: usize, count: usize) -> Self {
        let column = start % model.row_length;
        Self {
            model,
            base: i32::from(model.base) * (OCTAVE / 4),
            columns: vec![Mean::default(); model.row_length.min(count)],
            row: Mean::default(),
            kernel: Mean::default(),
            left: 0,
            column,
            position: column % model.kernel_length,
            slot: 0,
            neighbours: Neighbours::new(model.line_length, count),
        }
    }

    /// What the elements before it say about the next one.
    #[inline(always)]
    pub fn expect(&self) -> Expectation {
        let column = self.columns.get(self.slot).copied().unwrap_or_default();
        let offset = (self.row.value + column.value).clamp(-REACH, REACH) + self.kernel.value * 5 / 8;
        let quarters = (self.base + offset + OCTAVE / 8) >> (OCTAVE_BITS - 2);
        let quarters = quarters.clamp(0, (4 << self.model.layout.exponent_bits) - 1);
        let sure = if self.model.kernel_length > 1 {
            usize::from(self.kernel.count > 0)
                + usize::from(self.kernel.count > 2)
                + usize::from(self.kernel.count > 5)
        } else {
            usize::from(self.row.count > 8) + usize::from(self.row.count > 64) + usize::from(column.count > 8)
        };
        let larger = usize::from(self.left > 0);
        Expectation { quarters, context: (quarters & 3) as usize | larger << 2 | sure << 3 }
    }

    /// Takes the next element into account: its magnitude in (begun) quarter octaves. `code` codes its sign, given the context.
    #[inline(always)]
    pub fn learn(
        &mut self,
        magnitude: u16,
        expected: Expectation,
        code: impl FnOnce(usize) -> Result<u8>,
    ) -> Result<u8> {
        let depth = i32::from(magnitude) - expected.quarters;
        let class = usize::from(depth >= -8) + usize::from(depth >= -4) + usize::from(depth >= 0);
        let sign = self.neighbours.next(self.model.line_length, |signs| code(signs << 2 | class))?;
        // The middle of the quarter.
        let magnitude = i32::from(magnitude) * (OCTAVE / 4) + OCTAVE / 8 - self.base;
        let (row, column) = (self.row.value, self.columns.get(self.slot).map_or(0, |column| column.value));
        let explained = (row + column).clamp(-REACH, REACH);
        let rest = (magnitude - explained).clamp(-4 * OCTAVE, 3 * OCTAVE);
        if let Some(mean) = self.columns.get_mut(self.slot) {
            mean.add(explained + rest - row, 3);
        }
        self.row.add(explained + rest - column, 4);
        self.left = rest;
        self.position += 1;
        if self.model.kernel_length == 1 {
            self.kernel.value += ((rest - self.kernel.value) * 13) >> 7;
            self.position = 0;
        } else if self.position == self.model.kernel_length {
            (self.kernel, self.position) = (Mean::default(), 0);
        } else {
            self.kernel.add(rest, 2);
        }
        self.slot = if self.slot + 1 == self.columns.len() { 0 } else { self.slot + 1 };
        self.column += 1;
        if self.column == self.model.row_length {
            (self.column, self.position, self.left) = (0, 0, 0);
            self.row = Mean { value: self.row.value / 4, count: 0 };
            self.kernel = Mean::default();
        }
        Ok(sign)
    }
}
