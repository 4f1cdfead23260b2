//! What a recipe yields of operands of some lengths. Every count that the interpreter relies on is checked here, before anything is computed.

use super::levels::Groups;
use super::malformed;
use super::node::{Node, SHORTEST_ROW};
use super::number::Number;
use crate::error::Result;

/// Numbers in one group of which the largest magnitude is taken.
const MOST_IN_GROUP: u64 = 1 << 20;

/// What a node yields: units of so many bytes, which are numbers or blocks, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Yield {
    pub width: usize,
    /// `None` for blocks.
    pub number: Option<Number>,
    pub count: u64,
}

impl Yield {
    pub(super) fn of(number: Number, count: u64) -> Yield {
        Yield { width: number.width(), number: Some(number), count }
    }

    pub(super) fn bytes(&self) -> Result<u64> {
        let bytes = self.count.checked_mul(self.width as u64).filter(|bytes| *bytes <= i64::MAX as u64);
        bytes.ok_or_else(|| malformed("its result is too long"))
    }

    pub(super) fn numbers(self) -> Result<(Number, u64)> {
        self.number
            .map(|number| (number, self.count))
            .ok_or_else(|| malformed("blocks are taken for numbers"))
    }
}

impl Node {
    /// What it yields of operands with these lengths. All counts that [`Node::produce`] relies on are checked here.
    pub(super) fn check(&self, lengths: &[u64]) -> Result<Yield> {
        let found = self.check_one(lengths)?;
        found.bytes()?;
        Ok(found)
    }

    fn check_one(&self, lengths: &[u64]) -> Result<Yield> {
        match self {
            Node::Operand { number, of } => {
                let length = lengths.get(*number).ok_or_else(|| malformed("an operand is missing"))?;
                match length.is_multiple_of(of.width() as u64) {
                    true => Ok(Yield::of(*of, length / of.width() as u64)),
                    false => Err(malformed("an operand ends within a number")),
                }
            }
            Node::Cast { to, node, .. } => Ok(Yield::of(*to, node.check(lengths)?.numbers()?.1)),
            Node::Blocks { quantiser, node, fields } => {
                let (_, elements) = node.check(lengths)?.numbers()?;
                let blocks = elements / quantiser.elements as u64;
                if !elements.is_multiple_of(quantiser.elements as u64) {
                    return Err(malformed("its numbers make no whole blocks"));
                }
                for (node, field) in fields.iter().zip(quantiser.fields) {
                    let (number, count) = node.check(lengths)?.numbers()?;
                    if number != field.number || blocks.checked_mul(field.count as u64) != Some(count) {
                        return Err(malformed("its fields are not those of its blocks"));
                    }
                }
                Ok(Yield { width: quantiser.bytes, number: None, count: blocks })
            }
            Node::Rows { heads, row, node, .. } => {
                let (number, count) = node.check(lengths)?.numbers()?;
                let group = heads.checked_mul(2).and_then(|halves| halves.checked_mul(*row));
                match group {
                    Some(group) if count.is_multiple_of(group) => Ok(Yield::of(number, count)),
                    _ => Err(malformed("its rows make no whole heads")),
                }
            }
            Node::Slice { first, count, node } => {
                let (number, all) = node.check(lengths)?.numbers()?;
                match first.checked_add(*count) {
                    Some(end) if end <= all => Ok(Yield::of(number, *count)),
                    _ => Err(malformed("a slice ends behind its numbers")),
                }
            }
            Node::Join { nodes } => {
                let mut joined: Option<(Number, u64)> = None;
                for node in nodes {
                    let (number, count) = node.check(lengths)?.numbers()?;
                    let (first, before) = *joined.get_or_insert((number, 0));
                    let sum = before.checked_add(count).filter(|_| first == number);
                    joined = Some((first, sum.ok_or_else(|| malformed("joined numbers differ in type"))?));
                }
                joined
                    .map(|(number, count)| Yield::of(number, count))
                    .ok_or_else(|| malformed("nothing is joined"))
            }
            Node::Scaled { to, row, down, across, scales, node } => {
                let (_, count) = node.check(lengths)?.numbers()?;
                let (_, found) = scales.check(lengths)?.numbers()?;
                let grid = Grid::new(*row, *down, *across, count)?;
                if *across != 0 && *across < 8 {
                    return Err(malformed("its groups are too small"));
                }
                match grid.rows.checked_mul(grid.columns) {
                    Some(wanted) if wanted == found && !matches!(to, Number::F64) => {
                        Ok(Yield::of(*to, count))
                    }
                    _ => Err(malformed("its scales are not as many as its groups")),
                }
            }
            Node::Levels { levels, scales, zeros, node } => {
                let (_, count) = node.check(lengths)?.numbers()?;
                let Groups { row, down, across } = levels.groups;
                let grid = Grid::new(row, down, across, count)?;
                for node in [Some(scales), zeros.as_ref()].into_iter().flatten() {
                    let (_, found) = node.check(lengths)?.numbers()?;
                    if grid.rows.checked_mul(grid.columns) != Some(found) {
                        return Err(malformed("its scales are not as many as its groups"));
                    }
                }
                Ok(Yield::of(levels.to, count))
            }
            Node::Largest { groups: Groups { row, down, across }, node } => {
                let (_, count) = node.check(lengths)?.numbers()?;
                let grid = Grid::new(*row, *down, *across, count)?;
                if grid.down.checked_mul(grid.across).is_none_or(|of| of > MOST_IN_GROUP) {
                    return Err(malformed("its groups are too large"));
                }
                let groups = grid.rows.checked_mul(grid.columns);
                Ok(Yield::of(Number::F32, groups.ok_or_else(|| malformed("it has too many groups"))?))
            }
            Node::Transposed { rows, columns, node } => {
                let (number, count) = node.check(lengths)?.numbers()?;
                match rows.checked_mul(*columns) {
                    Some(matrix) if count.is_multiple_of(matrix) => Ok(Yield::of(number, count)),
                    _ => Err(malformed("its numbers make no whole matrices")),
                }
            }
            Node::Packed { packing, node } => {
                let (number, count) = node.check(lengths)?.numbers()?;
                match packing.numbers().checked_mul(packing.columns) {
                    Some(group) if count.is_multiple_of(group) && number == Number::U8 => {
                        let bytes = (count / packing.numbers()).checked_mul(packing.width() as u64);
                        Ok(Yield::of(Number::U8, bytes.ok_or_else(|| malformed("its result is too long"))?))
                    }
                    _ => Err(malformed("its numbers make no whole words")),
                }
            }
            Node::Sum { precision, nodes, .. } | Node::Consensus { precision, nodes, .. } => {
                Ok(Yield::of(precision.number(), same_count(nodes, lengths)?))
            }
            Node::Product { rank, rows, row, left, right, .. } => {
                let counts = [(left, rows), (right, row)].map(|(node, length)| {
                    let (number, count) = node.check(lengths)?.numbers()?;
                    match rank.checked_mul(*length) {
                        Some(wanted) if wanted == count && number == Number::I16 => Ok(()),
                        _ => Err(malformed("its matrices have other sizes")),
                    }
                });
                counts.into_iter().collect::<Result<()>>()?;
                let count = rows.checked_mul(*row).ok_or_else(|| malformed("its result is too long"))?;
                Ok(Yield::of(Number::F32, count))
            }
        }
    }
}

/// How many numbers each of some nodes yields.
fn same_count(nodes: &[Node], lengths: &[u64]) -> Result<u64> {
    let mut counts = nodes.iter().map(|node| Ok(node.check(lengths)?.numbers()?.1));
    let first = counts.next().unwrap_or_else(|| Err(malformed("nothing is added up")))?;
    for count in counts {
        if count? != first {
            return Err(malformed("what is added up differs in length"));
        }
    }
    Ok(first)
}

/// Which scale belongs to which number.
pub(super) struct Grid {
    pub down: u64,
    pub across: u64,
    pub rows: u64,
    pub columns: u64,
}

impl Grid {
    pub(super) fn new(row: u64, down: u64, across: u64, count: u64) -> Result<Grid> {
        if row < SHORTEST_ROW || !count.is_multiple_of(row) {
            return Err(malformed("its numbers make no whole rows"));
        }
        let all = (count / row).max(1);
        let down = if down == 0 { all } else { down.min(all) };
        let across = if across == 0 { row } else { across.min(row) };
        Ok(Grid { down, across, rows: (count / row).div_ceil(down), columns: row.div_ceil(across) })
    }
}
