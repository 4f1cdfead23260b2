//! Recipes: bytes computed from other bytes, such as a bf16 tensor from its fp32 original or the blocks of a Q4_K tensor from floats and scales. What
//! a recipe yields is the reference that a delta is coded against, so it saves space where it is right and never costs a bit where it is not.
//! Any range of the result is computed from ranges of the operands. `spec/recipes.md` has the bytes and the arithmetic.

mod apply;
mod blocks;
mod check;
mod fetched;
mod levels;
mod node;
mod number;
mod packing;
mod product;
mod sums;
mod transpose;

pub use blocks::{Field, Quantiser};
pub use levels::{Book, Groups, Levels};
pub use node::{Order, Precision, Voice};
pub use number::{Number, Rounding};
pub use packing::Packing;

use fetched::Fetched;
use node::Node;

use crate::error::{Error, Result};

/// What recipes are applied to: byte strings by their numbers.
pub trait Operands: Sync {
    /// Reads bytes of an operand, from `start` on, as many as the buffer takes.
    fn read(&self, number: usize, start: u64, out: &mut [u8]) -> Result<()>;

    /// All of an operand, if it lies in memory.
    fn lent(&self, number: usize) -> Option<&[u8]> {
        let _ = number;
        None
    }
}

impl Operands for &[&[u8]] {
    fn read(&self, number: usize, start: u64, out: &mut [u8]) -> Result<()> {
        let operand = self.get(number).and_then(|operand| operand.get(usize::try_from(start).ok()?..));
        let part = operand.and_then(|operand| operand.get(..out.len()));
        out.copy_from_slice(part.ok_or_else(|| malformed("an operand is too short"))?);
        Ok(())
    }

    fn lent(&self, number: usize) -> Option<&[u8]> {
        self.get(number).copied()
    }
}

/// How bytes are computed from operands.
///
/// ```
/// use ztensor::recipe::{Number, Recipe, Rounding};
///
/// let recipe = Recipe::operand(0, Number::F32).cast(Number::Bf16, Rounding::Nearest);
/// let operands = [&1.5f32.to_le_bytes()[..]];
/// let mut out = [0; 2];
/// recipe.apply(&&operands[..], &[4], 0, &mut out)?;
/// assert_eq!(out, [0xc0, 0x3f]);
/// assert_eq!(Recipe::decode(&recipe.encode())?, recipe);
/// # Ok::<(), ztensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe(Node);

impl Recipe {
    /// The most bytes that an encoded recipe has.
    pub const MOST_BYTES: usize = node::MOST_BYTES;
    /// The most operands that one has.
    pub const MOST_OPERANDS: usize = node::MOST_OPERANDS;

    /// An operand as it is.
    pub fn operand(number: usize, of: Number) -> Recipe {
        Recipe(Node::Operand { number, of })
    }

    /// The numbers of another recipe as those of another type.
    pub fn cast(self, to: Number, rounding: Rounding) -> Recipe {
        Recipe(Node::Cast { to, rounding, node: Box::new(self.0) })
    }

    /// Blocks of numbers, with the fields that other recipes yield, or without any with those that follow.
    pub fn blocks(self, quantiser: &'static Quantiser, fields: Vec<Recipe>) -> Recipe {
        let fields = fields.into_iter().map(|field| field.0).collect();
        Recipe(Node::Blocks { quantiser, node: Box::new(self.0), fields })
    }

    /// The rows of each of so many heads in another order.
    pub fn rows(self, order: Order, heads: u64, row: u64) -> Recipe {
        Recipe(Node::Rows { order, heads, row, node: Box::new(self.0) })
    }

    /// Some numbers of it.
    pub fn slice(self, first: u64, count: u64) -> Recipe {
        Recipe(Node::Slice { first, count, node: Box::new(self.0) })
    }

    /// The numbers of several recipes, one after the other.
    pub fn join(parts: Vec<Recipe>) -> Recipe {
        Recipe(Node::Join { nodes: parts.into_iter().map(|part| part.0).collect() })
    }

    /// Numbers divided by the scales that another recipe yields, one for each `down` rows by `across` numbers of rows of `row`.
    pub fn scaled(self, to: Number, row: u64, (down, across): (u64, u64), scales: Recipe) -> Recipe {
        let (scales, node) = (Box::new(scales.0), Box::new(self.0));
        Recipe(Node::Scaled { to, row, down, across, scales, node })
    }

    /// Numbers times coefficients, added up and divided, each operation in this precision. There are as many coefficients as recipes.
    pub fn sum(precision: Precision, divisor: f64, coefficients: Vec<f64>, parts: Vec<Recipe>) -> Recipe {
        let nodes = parts.into_iter().map(|part| part.0).collect();
        Recipe(Node::Sum { precision, divisor, coefficients, nodes })
    }

    /// Of numbers times weights the sum of those that have the sign of the sum of all; where that is wanted, divided by their weights.
    pub fn consensus(
        precision: Precision,
        normalised: bool,
        voices: Vec<Voice>,
        parts: Vec<Recipe>,
    ) -> Recipe {
        let nodes = parts.into_iter().map(|part| part.0).collect();
        Recipe(Node::Consensus { precision, normalised, voices, nodes })
    }

    /// The product of a matrix of `rows` × `rank` integers, stored by columns, and one of `rank` × `row`, scaled.
    pub fn product(rank: u64, (rows, row): (u64, u64), scale: f32, left: Recipe, right: Recipe) -> Recipe {
        Recipe(Node::Product { rank, rows, row, scale, left: Box::new(left.0), right: Box::new(right.0) })
    }

    /// Where numbers, divided by the scales of their groups, with zero points or without, lie among the levels of a quantiser. Levels that do not fit
    /// their type are refused when the recipe is read.
    pub fn levels(self, levels: Levels, scales: Recipe, zeros: Option<Recipe>) -> Recipe {
        let (scales, zeros) = (Box::new(scales.0), zeros.map(|zeros| Box::new(zeros.0)));
        Recipe(Node::Levels { levels: Box::new(levels), scales, zeros, node: Box::new(self.0) })
    }

    /// The largest magnitude of each group.
    pub fn largest(self, groups: Groups) -> Recipe {
        Recipe(Node::Largest { groups, node: Box::new(self.0) })
    }

    /// An operand that holds matrices, with their columns as rows.
    pub fn transposed(number: usize, of: Number, rows: u64, columns: u64) -> Recipe {
        Recipe(Node::Transposed { rows, columns, node: Box::new(Node::Operand { number, of }) })
    }

    /// Small numbers, several of them in a word.
    pub fn packed(self, packing: Packing) -> Recipe {
        Recipe(Node::Packed { packing, node: Box::new(self.0) })
    }

    /// The type of its numbers, if it is the first operand as it is.
    pub fn plain(&self) -> Option<Number> {
        match self.0 {
            Node::Operand { number: 0, of } => Some(of),
            _ => None,
        }
    }

    /// The same with operands that are numbered from `by` on.
    pub fn shifted(mut self, by: usize) -> Recipe {
        self.0.shift(by);
        self
    }

    /// Reads a recipe. One with an operation that is not known is unsupported, not malformed.
    pub fn decode(bytes: &[u8]) -> Result<Recipe> {
        Node::decode(bytes).map(Recipe)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    /// In a few words, for people.
    pub fn describe(&self) -> String {
        self.0.describe()
    }

    /// The length of its result, from operands with these lengths.
    pub fn length(&self, lengths: &[u64]) -> Result<u64> {
        self.0.check(lengths)?.bytes()
    }

    /// Bytes of the operands that are read for a range of the result.
    pub fn cost(&self, lengths: &[u64], start: u64, length: u64) -> Result<u64> {
        let (units, mut ranges) = (self.units(lengths, start, length)?, vec![0..0; lengths.len()]);
        self.0.needed(lengths, units, &mut ranges)?;
        Ok(ranges.iter().fold(0, |sum, range| sum.saturating_add(range.end - range.start)))
    }

    /// Computes bytes of the result from operands with these lengths, from `start` on, as many as the buffer takes.
    pub fn apply(&self, operands: &dyn Operands, lengths: &[u64], start: u64, out: &mut [u8]) -> Result<()> {
        let units = self.units(lengths, start, out.len() as u64)?;
        self.0.apply(&Fetched::new(&self.0, operands, lengths, units)?, start, out)
    }

    fn units(&self, lengths: &[u64], start: u64, length: u64) -> Result<std::ops::Range<u64>> {
        let found = self.0.check(lengths)?;
        let end = start.checked_add(length).filter(|end| found.bytes().is_ok_and(|all| *end <= all));
        let end = end.ok_or_else(|| malformed("more is asked of it than it yields"))?;
        Ok(start / found.width as u64..end.div_ceil(found.width as u64))
    }
}

fn malformed(what: &str) -> Error {
    Error::malformed(format!("the recipe is damaged: {what}"))
}

fn unknown(what: &str) -> Error {
    Error::unsupported(format!("recipes with {what}")).with_hint("Update ztensor.")
}
