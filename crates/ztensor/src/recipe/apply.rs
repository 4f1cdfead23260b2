//! The interpreter: any range of what a recipe yields, from ranges of its operands.

use std::ops::Range;

use rayon::prelude::*;

use super::check::Grid;
use super::fetched::Fetched;
use super::levels::{Groups, Levels};
use super::node::{Node, Order};
use super::number::{Number, Rounding, clamp};
use super::packing::Packing;
use super::product::Product;
use super::sums::{Total, consensus};
use super::transpose::transposed;
use crate::error::Result;

/// Numbers that are computed at once: as floats they stay in a core's second cache, and are no longer than what an allocator gives without asking
/// the kernel for fresh pages each time.
const NUMBERS: u64 = 16 << 10;
/// The same where all of a matrix is read for a chunk: a product of rank 64 takes 1.3 times as long with a fourth of it.
const MANY_NUMBERS: u64 = 128 << 10;
/// Words that lie side by side are computed together where they have no more numbers than this.
const TOGETHER: u64 = 1 << 20;

impl Node {
    /// Computes bytes of the result, from `start` on, as many as the buffer takes.
    pub(super) fn apply(&self, operands: &Fetched<'_>, start: u64, out: &mut [u8]) -> Result<()> {
        let width = self.check(operands.lengths)?.width as u64;
        let whole = self.units(self.numbers()).max(1) * width;
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

    /// Numbers that are computed at once.
    fn numbers(&self) -> u64 {
        let of = |nodes: &[Node]| nodes.iter().map(Node::numbers).max();
        match self {
            Node::Operand { .. } => NUMBERS,
            Node::Product { .. } | Node::Transposed { .. } => MANY_NUMBERS,
            Node::Join { nodes } | Node::Sum { nodes, .. } | Node::Consensus { nodes, .. } => {
                of(nodes).unwrap_or(NUMBERS)
            }
            Node::Cast { node, .. }
            | Node::Blocks { node, .. }
            | Node::Rows { node, .. }
            | Node::Slice { node, .. }
            | Node::Scaled { node, .. }
            | Node::Levels { node, .. }
            | Node::Largest { node, .. }
            | Node::Packed { node, .. } => node.numbers(),
        }
    }

    /// Units of the result that so many numbers make.
    fn units(&self, numbers: u64) -> u64 {
        match self {
            Node::Blocks { quantiser, .. } => numbers / quantiser.elements as u64,
            Node::Packed { packing, .. } => {
                // Whole rows of words, so that none is computed twice.
                let units = numbers / packing.numbers() * packing.width() as u64;
                let row = packing.columns.saturating_mul(packing.width() as u64);
                if row <= 4 * MANY_NUMBERS { units.next_multiple_of(row) } else { units }
            }
            Node::Slice { node, .. } => node.units(numbers),
            _ => numbers,
        }
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
    pub(super) fn produce(
        &self,
        operands: &Fetched<'_>,
        first: u64,
        count: usize,
        out: &mut [u8],
    ) -> Result<()> {
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
                        let group = &mut values[(from + start) as usize..(from + end) as usize];
                        divide(group, scale, (low, high));
                    }
                }
                to.narrow(&values, Rounding::Nearest, out);
            }
            Node::Levels { levels, scales, zeros, node } => {
                let numbers = (&**scales, zeros.as_deref(), &**node);
                levels_of(levels, numbers, operands, (first, count), out)?;
            }
            Node::Largest { groups, node } => {
                let values = largest(*groups, node, operands, first, count)?;
                Number::F32.narrow(&values, Rounding::Nearest, out);
            }
            Node::Transposed { rows, columns, node } => {
                transposed((*rows, *columns), node, operands, (first, count), out)?;
            }
            Node::Packed { packing, node } => packed(packing, node, operands, first, out)?,
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
            Node::Product { rank, rows, row, scale, left, right } => {
                let (rank, rows, row, scale) = (*rank, *rows, *row, *scale);
                Product { rank, rows, row, scale, left, right }.values(operands, first, count)
            }
            Node::Largest { groups, node } => largest(*groups, node, operands, first, count),
            node => {
                let found = node.check(operands.lengths)?;
                let (number, _) = found.numbers()?;
                let mut bytes = vec![0; count * found.width];
                node.produce(operands, first, count, &mut bytes)?;
                number.values(&bytes)
            }
        }
    }
}

/// The parts of a range that lie in one row each.
pub(super) fn by_rows(first: u64, count: usize, row: u64) -> impl Iterator<Item = Range<u64>> {
    let end = first + count as u64;
    let mut start = first;
    std::iter::from_fn(move || {
        let next = (start / row + 1) * row;
        let part = start..next.min(end);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// The scale of each number of a part of a row, one for each.
fn spread(values: &[f32], part: &Range<u64>, grid: &Grid, row: u64, out: &mut Vec<f32>) {
    out.clear();
    let (column, length) = (part.start % row, part.end - part.start);
    let first = column / grid.across;
    for (value, at) in values.iter().zip(first..) {
        let start = (at * grid.across).max(column);
        let end = ((at + 1) * grid.across).min(column + length);
        out.resize(out.len() + (end - start) as usize, *value);
    }
}

fn levels_of(
    levels: &Levels,
    (scales, zeros, node): (&Node, Option<&Node>, &Node),
    operands: &Fetched<'_>,
    (first, count): (u64, usize),
    out: &mut [u8],
) -> Result<()> {
    let Groups { row, down, across } = levels.groups;
    let grid = Grid::new(row, down, across, node.check(operands.lengths)?.count)?;
    let mut values = node.values(operands, first, count)?;
    let (mut each, mut each_zero, mut last) = (Vec::new(), Vec::new(), None);
    for part in by_rows(first, count, row) {
        let (place, column) = (part.start / row, part.start % row);
        let columns = column / grid.across..(column + part.end - part.start).div_ceil(grid.across);
        let group = place / grid.down * grid.columns + columns.start;
        // Rows of one group have the same scales.
        let these = Some((group, column, part.end - part.start));
        if these != std::mem::replace(&mut last, these) {
            let wanted = (columns.end - columns.start) as usize;
            spread(&scales.values(operands, group, wanted)?, &part, &grid, row, &mut each);
            if let Some(zeros) = zeros {
                spread(&zeros.values(operands, group, wanted)?, &part, &grid, row, &mut each_zero);
            }
        }
        let range = (part.start - first) as usize..(part.end - first) as usize;
        let zeros = zeros.map(|_| &each_zero[..]);
        levels.count(&mut values[range.clone()], &each, zeros, &mut out[range]);
    }
    Ok(())
}

/// The largest magnitudes of groups, from the one with number `first` on.
fn largest(
    groups: Groups,
    node: &Node,
    operands: &Fetched<'_>,
    first: u64,
    count: usize,
) -> Result<Vec<f32>> {
    let all = node.check(operands.lengths)?.count;
    let grid = Grid::new(groups.row, groups.down, groups.across, all)?;
    let rows = all / groups.row;
    let mut values = Vec::with_capacity(count);
    for part in by_rows(first, count, grid.columns) {
        let (place, column) = (part.start / grid.columns, part.start % grid.columns);
        let start = column * grid.across;
        let end = ((column + part.end - part.start) * grid.across).min(groups.row);
        let mut most = vec![0i32; (part.end - part.start) as usize];
        for line in place * grid.down..((place + 1) * grid.down).min(rows) {
            let found = node.values(operands, line * groups.row + start, (end - start) as usize)?;
            for (most, group) in most.iter_mut().zip(found.chunks(grid.across as usize)) {
                *most = largest_of(group).max(*most);
            }
        }
        values.extend(most.into_iter().map(|bits| f32::from_bits(bits.cast_unsigned())));
    }
    Ok(values)
}

/// The bits of the largest magnitude, which are in the order of magnitudes; NaNs are left out.
fn largest_of(values: &[f32]) -> i32 {
    let mut most = 0;
    for value in values {
        let bits = (value.to_bits() & 0x7fff_ffff).cast_signed();
        let bits = if bits > 0x7f80_0000 { 0 } else { bits };
        most = if bits > most { bits } else { most };
    }
    most
}

/// Divides by a scale, within bounds; a NaN stays one.
fn divide(values: &mut [f32], scale: f32, (low, high): (f32, f32)) {
    for value in values {
        let scaled = *value / scale;
        *value = if scaled.is_nan() { scaled } else { clamp(scaled, low, high) };
    }
}

/// Words of numbers, from the byte with number `first` on.
fn packed(packing: &Packing, node: &Node, operands: &Fetched<'_>, first: u64, out: &mut [u8]) -> Result<()> {
    let (width, numbers, columns) = (packing.width() as u64, packing.numbers(), packing.columns);
    let (start, end) = (first / width, (first + out.len() as u64).div_ceil(width));
    let whole = start * width == first && (end - start) * width == out.len() as u64;
    let mut words = if whole { Vec::new() } else { vec![0; ((end - start) * width) as usize] };
    let mut rest = if whole { &mut *out } else { &mut words };
    if columns == 1 {
        let mut values = vec![0; ((end - start) * numbers) as usize];
        node.produce(operands, start * numbers, values.len(), &mut values)?;
        packing.pack(&values, 1, rest);
    } else {
        for part in by_rows(start, (end - start) as usize, columns) {
            let (group, column) = (part.start / columns, part.start % columns);
            let length = part.end - part.start;
            let (words, later) = std::mem::take(&mut rest).split_at_mut((length * width) as usize);
            rest = later;
            let begin = group * numbers * columns;
            let mut values = vec![0; (numbers * length) as usize];
            if length == columns {
                node.produce(operands, begin, values.len(), &mut values)?;
            } else if numbers * columns <= TOGETHER {
                let mut all = vec![0; (numbers * columns) as usize];
                node.produce(operands, begin, all.len(), &mut all)?;
                let rows = all.chunks_exact(columns as usize).zip(values.chunks_exact_mut(length as usize));
                rows.for_each(|(all, part)| part.copy_from_slice(&all[column as usize..][..length as usize]));
            } else {
                for (number, row) in values.chunks_exact_mut(length as usize).enumerate() {
                    node.produce(operands, begin + number as u64 * columns + column, length as usize, row)?;
                }
            }
            packing.pack(&values, length as usize, words);
        }
    }
    if !whole {
        out.copy_from_slice(&words[(first - start * width) as usize..][..out.len()]);
    }
    Ok(())
}
