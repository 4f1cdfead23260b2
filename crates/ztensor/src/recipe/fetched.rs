//! The ranges of the operands that a range of a result needs, and their bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::Operands;
use super::check::Grid;
use super::levels::Groups;
use super::node::Node;
use crate::error::{Error, Kind, Result};

impl Node {
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
            Node::Levels { levels, scales, zeros, node } => {
                let Groups { row, down, across } = levels.groups;
                let grid = Grid::new(row, down, across, node.check(lengths)?.count)?;
                let (top, bottom) = (range.start / row / grid.down, (range.end - 1) / row / grid.down + 1);
                for node in [Some(scales), zeros.as_ref()].into_iter().flatten() {
                    node.needed(lengths, top * grid.columns..bottom * grid.columns, out)?;
                }
                node.needed(lengths, range, out)
            }
            Node::Largest { groups: Groups { row, down, across }, node } => {
                let count = node.check(lengths)?.count;
                let grid = Grid::new(*row, *down, *across, count)?;
                let (top, bottom) = (range.start / grid.columns, (range.end - 1) / grid.columns + 1);
                node.needed(lengths, top * grid.down * row..(bottom * grid.down * row).min(count), out)
            }
            Node::Transposed { rows, columns, node } => {
                let matrix = rows * columns;
                node.needed(lengths, range.start / matrix * matrix..range.end.div_ceil(matrix) * matrix, out)
            }
            Node::Packed { packing, node } => {
                let (width, numbers) = (packing.width() as u64, packing.numbers());
                let rows = |words: u64| words / packing.columns;
                let (start, end) = (rows(range.start / width), rows((range.end - 1) / width) + 1);
                let group = numbers * packing.columns;
                match packing.columns {
                    1 => node.needed(
                        lengths,
                        range.start / width * numbers..range.end.div_ceil(width) * numbers,
                        out,
                    ),
                    _ => node.needed(lengths, start * group..end * group, out),
                }
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

/// The ranges of the operands that a range of the result needs, where they do not lie in memory anyway.
pub(super) struct Fetched<'a> {
    operands: &'a dyn Operands,
    pub(super) lengths: &'a [u64],
    /// Bytes of each operand and where they begin.
    ahead: Vec<Option<(u64, Cow<'a, [u8]>)>>,
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
            if range.is_empty() {
                return Ok(None);
            }
            if let Some(lent) = operands.lent(number) {
                return Ok(Some((0, Cow::Borrowed(lent))));
            }
            let mut bytes = allocate(range.end - range.start)?;
            operands.read(number, range.start, &mut bytes)?;
            Ok(Some((range.start, Cow::Owned(bytes))))
        });
        Ok(Fetched { operands, lengths, ahead: ahead.collect::<Result<_>>()? })
    }

    pub(super) fn bytes(&self, number: usize, start: u64, length: u64) -> Result<Cow<'_, [u8]>> {
        let part = |bytes: &'_ [u8], from: u64| -> Option<Range<usize>> {
            let from = usize::try_from(start.checked_sub(from)?).ok()?;
            let end = from.checked_add(usize::try_from(length).ok()?)?;
            (end <= bytes.len()).then_some(from..end)
        };
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
