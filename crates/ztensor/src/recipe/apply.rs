//! The interpreter: any range of what a recipe yields, from ranges of its operands.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::node::{Node, Order};
use super::number::{Number, Rounding, clamp};
use super::sums::{Total, consensus};
use super::{Operands, malformed};
use crate::error::{Error, Kind, Result};

/// Bytes that are computed at once: their floats stay in a core's cache.
const CHUNK: usize = 64 << 10;

/// What a node yields: units of so many bytes, which are numbers or blocks, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Yield {
    pub width: usize,
    /// `None` for blocks.
    pub number: Option<Number>,
    pub count: u64,
}

impl Yield {
    fn of(number: Number, count: u64) -> Yield {
        Yield { width: number.width(), number: Some(number), count }
    }

    pub(super) fn bytes(&self) -> Result<u64> {
        let bytes = self.count.checked_mul(self.width as u64).filter(|bytes| *bytes <= i64::MAX as u64);
        bytes.ok_or_else(|| malformed("its result is too long"))
    }

    fn numbers(self) -> Result<(Number, u64)> {
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
                match grid.rows.checked_mul(grid.columns) {
                    Some(wanted) if wanted == found && !matches!(to, Number::F64) => {
                        Ok(Yield::of(*to, count))
                    }
                    _ => Err(malformed("its scales are not as many as its groups")),
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

    /// Computes bytes of the result, from `start` on, as many as the buffer takes.
    pub(super) fn apply(&self, operands: &Fetched<'_>, start: u64, out: &mut [u8]) -> Result<()> {
        let width = self.check(operands.lengths)?.width as u64;
        let whole = (CHUNK as u64 / width).max(1) * width;
        // Chunks end where units do, the first and the last perhaps within one.
        let head = ((whole - start % whole).min(out.len() as u64)) as usize;
        let (head, rest) = out.split_at_mut(head);
        let after = start + head.len() as u64;
        let chunks = rest.par_chunks_mut(whole as usize).enumerate();
        self.apply_chunk(operands, start, head, width)?;
        chunks
            .map(|(number, chunk)| self.apply_chunk(operands, after + number as u64 * whole, chunk, width))
            .collect::<Result<()>>()
    }

    fn apply_chunk(&self, operands: &Fetched<'_>, start: u64, out: &mut [u8], width: u64) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let (first, skipped) = (start / width, (start % width) as usize);
        let count = (skipped + out.len()).div_ceil(width as usize);
        if skipped == 0 && out.len() == count * width as usize {
            return self.produce(operands, first, count, out);
        }
        let mut whole = vec![0; count * width as usize];
        self.produce(operands, first, count, &mut whole)?;
        out.copy_from_slice(&whole[skipped..][..out.len()]);
        Ok(())
    }

    /// Computes `count` units from `first` on. The recipe has been checked, and the range lies within.
    fn produce(&self, operands: &Fetched<'_>, first: u64, count: usize, out: &mut [u8]) -> Result<()> {
        match self {
            Node::Operand { number, of } => {
                let width = of.width() as u64;
                out.copy_from_slice(&operands.bytes(*number, first * width, count as u64 * width)?);
            }
            Node::Cast { to, rounding, node } => {
                to.narrow(&node.values(operands, first, count)?, *rounding, out);
            }
            Node::Blocks { quantiser, node, fields } => {
                let elements = quantiser.elements;
                let values = node.values(operands, first * elements as u64, count * elements)?;
                let produced = fields.iter().zip(quantiser.fields).map(|(node, field)| {
                    let mut bytes = vec![0; count * field.bytes()];
                    node.produce(operands, first * field.count as u64, count * field.count, &mut bytes)?;
                    Ok(bytes)
                });
                let produced = produced.collect::<Result<Vec<_>>>()?;
                let slices: Vec<&[u8]> = produced.iter().map(Vec::as_slice).collect();
                quantiser.quantise(&values, &slices, out);
            }
            Node::Rows { order, heads, row, node } => {
                let found = node.check(operands.lengths)?;
                let half = found.count / row / heads / 2;
                for part in by_rows(first, count, *row) {
                    let (place, within) = (part.start / row, part.start % row);
                    let (head, at) = (place / (2 * half), place % (2 * half));
                    let from = match order {
                        Order::Interleaved => at % 2 * half + at / 2,
                        Order::Separated => at % half * 2 + at / half,
                    };
                    let from = (head * 2 * half + from) * row + within;
                    let into = (part.start - first) as usize * found.width;
                    let length = (part.end - part.start) as usize;
                    let out = &mut out[into..into + length * found.width];
                    node.produce(operands, from, length, out)?;
                }
            }
            Node::Slice { first: start, node, .. } => node.produce(operands, start + first, count, out)?,
            Node::Join { nodes } => {
                let (mut before, mut rest) = (0, out);
                let (mut first, mut left) = (first, count as u64);
                for node in nodes {
                    let found = node.check(operands.lengths)?;
                    let taken = (before + found.count).saturating_sub(first).min(left);
                    if taken > 0 {
                        let (part, later) =
                            std::mem::take(&mut rest).split_at_mut(taken as usize * found.width);
                        node.produce(operands, first - before, taken as usize, part)?;
                        (rest, first, left) = (later, first + taken, left - taken);
                    }
                    before += found.count;
                }
            }
            Node::Scaled { to, row, down, across, scales, node } => {
                let found = node.check(operands.lengths)?;
                let grid = Grid::new(*row, *down, *across, found.count)?;
                let mut values = node.values(operands, first, count)?;
                let (low, high) = match to {
                    Number::F8E4M3 => (-448.0, 448.0),
                    Number::F8E5M2 => (-57344.0, 57344.0),
                    Number::I8 => (-128.0, 127.0),
                    Number::U8 => (0.0, 255.0),
                    _ => (f32::NEG_INFINITY, f32::INFINITY),
                };
                for part in by_rows(first, count, *row) {
                    let (place, column) = (part.start / row, part.start % row);
                    let columns =
                        column / grid.across..(column + part.end - part.start).div_ceil(grid.across);
                    let group = place / grid.down * grid.columns;
                    let wanted = (columns.end - columns.start) as usize;
                    let scales = scales.values(operands, group + columns.start, wanted)?;
                    for (scale, at) in scales.into_iter().zip(columns) {
                        let start = (at * grid.across).max(column) - column;
                        let end = ((at + 1) * grid.across).min(column + part.end - part.start) - column;
                        let from = part.start - first;
                        for value in &mut values[(from + start) as usize..(from + end) as usize] {
                            let scaled = *value / scale;
                            *value = if scaled.is_nan() { scaled } else { clamp(scaled, low, high) };
                        }
                    }
                }
                to.narrow(&values, Rounding::Nearest, out);
            }
            Node::Sum { precision, .. } | Node::Consensus { precision, .. } => {
                let values = self.values(operands, first, count)?;
                precision.number().narrow(&values, Rounding::Nearest, out);
            }
            Node::Product { .. } => {
                Number::F32.narrow(&self.values(operands, first, count)?, Rounding::Nearest, out);
            }
        }
        Ok(())
    }

    /// Numbers as f32.
    fn values(&self, operands: &Fetched<'_>, first: u64, count: usize) -> Result<Vec<f32>> {
        match self {
            Node::Operand { number, of } => {
                let width = of.width() as u64;
                of.values(&operands.bytes(*number, first * width, count as u64 * width)?)
            }
            Node::Sum { precision, divisor, coefficients, nodes } => {
                let mut sum = Total::new(*precision, count);
                for (coefficient, node) in coefficients.iter().zip(nodes) {
                    sum.add(*coefficient, node.values(operands, first, count)?);
                }
                Ok(sum.divided(*divisor))
            }
            Node::Consensus { precision, normalised, voices, nodes } => {
                let values = nodes.iter().map(|node| node.values(operands, first, count));
                let values = values.collect::<Result<Vec<_>>>()?;
                Ok(consensus(*precision, *normalised, voices, values, count))
            }
            Node::Product { .. } if count == 0 => Ok(Vec::new()),
            Node::Product { rank, rows, row, scale, left, right } => {
                let (top, bottom) = (first / row, (first + count as u64 - 1) / row + 1);
                // What lies in one row needs those columns only: rows may be long.
                let columns = match bottom - top {
                    1 => first % row..first % row + count as u64,
                    _ => 0..*row,
                };
                let width = (columns.end - columns.start) as usize;
                let factors =
                    (0..*rank).map(|k| left.values(operands, k * rows + top, (bottom - top) as usize));
                let factors = factors.collect::<Result<Vec<_>>>()?;
                let matrix = (0..*rank).map(|k| right.values(operands, k * row + columns.start, width));
                let matrix = matrix.collect::<Result<Vec<_>>>()?;
                let mut values = Vec::with_capacity(count);
                for part in by_rows(first, count, *row) {
                    let (place, start) =
                        ((part.start / row - top) as usize, part.start % row - columns.start);
                    let part = start as usize..(start + part.end - part.start) as usize;
                    // Sums of products of two integers of 16 bits are exact in f64, in any order.
                    let mut sums = vec![0.0f64; part.len()];
                    for (factors, row) in factors.iter().zip(&matrix) {
                        let factor = f64::from(factors[place]);
                        let pairs = sums.iter_mut().zip(&row[part.clone()]);
                        pairs.for_each(|(sum, value)| *sum += factor * f64::from(*value));
                    }
                    values.extend(sums.into_iter().map(|sum| sum as f32 * scale));
                }
                Ok(values)
            }
            node => {
                let found = node.check(operands.lengths)?;
                let (number, _) = found.numbers()?;
                let mut bytes = vec![0; count * found.width];
                node.produce(operands, first, count, &mut bytes)?;
                number.values(&bytes)
            }
        }
    }

    /// Notes which bytes of the operands a range of units needs: what [`Node::produce`] will ask for lies within.
    pub(super) fn needed(&self, lengths: &[u64], range: Range<u64>, out: &mut [Range<u64>]) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        match self {
            Node::Operand { number, of } => {
                let width = of.width() as u64;
                if let Some(known) = out.get_mut(*number) {
                    let wanted = range.start * width..range.end * width;
                    *known = match known.is_empty() {
                        true => wanted,
                        false => known.start.min(wanted.start)..known.end.max(wanted.end),
                    };
                }
                Ok(())
            }
            Node::Cast { node, .. } => node.needed(lengths, range, out),
            Node::Blocks { quantiser, node, fields } => {
                let times = |count: usize| range.start * count as u64..range.end * count as u64;
                node.needed(lengths, times(quantiser.elements), out)?;
                let mut fields = fields.iter().zip(quantiser.fields);
                fields.try_for_each(|(node, field)| node.needed(lengths, times(field.count), out))
            }
            Node::Rows { heads, node, .. } => {
                let head = node.check(lengths)?.count / heads;
                node.needed(lengths, range.start / head * head..range.end.div_ceil(head) * head, out)
            }
            Node::Slice { first, node, .. } => {
                node.needed(lengths, first + range.start..first + range.end, out)
            }
            Node::Join { nodes } => {
                let mut before = 0;
                for node in nodes {
                    let count = node.check(lengths)?.count;
                    let inner = range.start.max(before)..range.end.min(before + count);
                    if !inner.is_empty() {
                        node.needed(lengths, inner.start - before..inner.end - before, out)?;
                    }
                    before += count;
                }
                Ok(())
            }
            Node::Sum { nodes, .. } | Node::Consensus { nodes, .. } => {
                nodes.iter().try_for_each(|node| node.needed(lengths, range.clone(), out))
            }
            Node::Product { rank, rows, row, left, right, .. } => {
                let (top, bottom) = (range.start / row, (range.end - 1) / row + 1);
                left.needed(lengths, top..(rank - 1) * rows + bottom, out)?;
                right.needed(lengths, 0..rank * row, out)
            }
            Node::Scaled { row, down, across, scales, node, .. } => {
                let grid = Grid::new(*row, *down, *across, node.check(lengths)?.count)?;
                let (top, bottom) = (range.start / row / grid.down, (range.end - 1) / row / grid.down + 1);
                scales.needed(lengths, top * grid.columns..bottom * grid.columns, out)?;
                node.needed(lengths, range, out)
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

/// The parts of a range that lie in one row each.
fn by_rows(first: u64, count: usize, row: u64) -> impl Iterator<Item = Range<u64>> {
    let end = first + count as u64;
    let mut start = first;
    std::iter::from_fn(move || {
        let next = (start / row + 1) * row;
        let part = start..next.min(end);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// Which scale belongs to which number.
struct Grid {
    down: u64,
    across: u64,
    rows: u64,
    columns: u64,
}

impl Grid {
    fn new(row: u64, down: u64, across: u64, count: u64) -> Result<Grid> {
        if row < super::node::SHORTEST_ROW || !count.is_multiple_of(row) {
            return Err(malformed("its numbers make no whole rows"));
        }
        let all = (count / row).max(1);
        let down = if down == 0 { all } else { down };
        let across = if across == 0 { row } else { across };
        if across < 8.min(row) {
            return Err(malformed("its groups are too small"));
        }
        Ok(Grid { down, across, rows: (count / row).div_ceil(down), columns: row.div_ceil(across) })
    }
}

/// The ranges of the operands that a range of the result needs, where they do not lie in memory anyway.
pub(super) struct Fetched<'a> {
    operands: &'a dyn Operands,
    pub(super) lengths: &'a [u64],
    /// Bytes of each operand and where they begin.
    ahead: Vec<Option<(u64, Vec<u8>)>>,
}

impl<'a> Fetched<'a> {
    pub(super) fn new(
        node: &Node,
        operands: &'a dyn Operands,
        lengths: &'a [u64],
        units: Range<u64>,
    ) -> Result<Fetched<'a>> {
        let mut ranges = vec![0..0; lengths.len()];
        node.needed(lengths, units, &mut ranges)?;
        let ahead = ranges.into_iter().enumerate().map(|(number, range)| {
            if range.is_empty() || operands.lent(number).is_some() {
                return Ok(None);
            }
            let mut bytes = allocate(range.end - range.start)?;
            operands.read(number, range.start, &mut bytes)?;
            Ok(Some((range.start, bytes)))
        });
        Ok(Fetched { operands, lengths, ahead: ahead.collect::<Result<_>>()? })
    }

    fn bytes(&self, number: usize, start: u64, length: u64) -> Result<Cow<'_, [u8]>> {
        let part = |bytes: &'_ [u8], from: u64| -> Option<Range<usize>> {
            let from = usize::try_from(start.checked_sub(from)?).ok()?;
            let end = from.checked_add(usize::try_from(length).ok()?)?;
            (end <= bytes.len()).then_some(from..end)
        };
        if let Some(all) = self.operands.lent(number) {
            let range = part(all, 0).ok_or_else(|| malformed("an operand is too short"))?;
            return Ok(Cow::Borrowed(&all[range]));
        }
        if let Some(Some((from, bytes))) = self.ahead.get(number)
            && let Some(range) = part(bytes, *from)
        {
            return Ok(Cow::Borrowed(&bytes[range]));
        }
        let mut bytes = allocate(length)?;
        self.operands.read(number, start, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }
}

fn allocate(length: u64) -> Result<Vec<u8>> {
    let missing = || Error::new(Kind::Limit, format!("not enough memory for {length} bytes"));
    let length = usize::try_from(length).map_err(|_| missing())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| missing())?;
    bytes.resize(length, 0);
    Ok(bytes)
}
