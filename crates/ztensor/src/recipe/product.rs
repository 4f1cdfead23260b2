//! Products of two thin matrices of integers, exact whatever the order of their sums.

use z4ai::kernels::vectorised;

use super::apply::by_rows;
use super::fetched::Fetched;
use super::node::Node;
use super::number::Number;
use crate::error::Result;

/// Columns whose sums stay in registers while all ranks are added: 16 sums of 32 bits, two registers of AVX2 or four of SSE2.
const COLUMNS: usize = 16;

/// The two matrices, and what their products are multiplied by.
pub(super) struct Product<'a> {
    pub rank: u64,
    pub rows: u64,
    pub row: u64,
    pub scale: f32,
    pub left: &'a Node,
    pub right: &'a Node,
}

impl Product<'_> {
    pub(super) fn values(&self, operands: &Fetched<'_>, first: u64, count: usize) -> Result<Vec<f32>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let (row, rank) = (self.row, self.rank as usize);
        let (top, bottom) = (first / row, (first + count as u64 - 1) / row + 1);
        // What lies in one row needs those columns only: rows may be long.
        let columns = match bottom - top {
            1 => first % row..first % row + count as u64,
            _ => 0..row,
        };
        let (height, width) = ((bottom - top) as usize, (columns.end - columns.start) as usize);
        let left = (0..self.rank).map(|k| integers(self.left, operands, k * self.rows + top, height));
        let left = left.collect::<Result<Vec<_>>>()?;
        let right = (0..self.rank).map(|k| integers(self.right, operands, k * row + columns.start, width));
        let right = right.collect::<Result<Vec<_>>>()?;
        let largest =
            |of: &[Vec<i16>]| of.iter().flatten().map(|value| i64::from(value.unsigned_abs())).max();
        let most = largest(&left).unwrap_or(0) * largest(&right).unwrap_or(0) * rank as i64;
        let is_small = most <= i64::from(i32::MAX);
        let pairs = if is_small { paired(&right, width) } else { Vec::new() };
        let mut factors: Vec<[i16; 2]> = vec![[0; 2]; rank.div_ceil(2)];
        let mut values = Vec::with_capacity(count);
        for part in by_rows(first, count, row) {
            let place = (part.start / row - top) as usize;
            let start = (part.start % row - columns.start) as usize;
            let part = start..start + (part.end - part.start) as usize;
            if is_small {
                for (k, of) in left.iter().enumerate() {
                    factors[k / 2][k % 2] = of[place];
                }
                vectorised(
                    #[inline(always)]
                    || add_pairs(&factors, &pairs, width, part, self.scale, &mut values),
                );
                continue;
            }
            // Sums of products of two integers of 16 bits are exact in f64, in any order.
            let mut sums = vec![0.0f64; part.len()];
            for (factors, row) in left.iter().zip(&right) {
                let factor = f64::from(factors[place]);
                let pairs = sums.iter_mut().zip(&row[part.clone()]);
                pairs.for_each(|(sum, value)| *sum += factor * f64::from(*value));
            }
            values.extend(sums.into_iter().map(|sum| sum as f32 * self.scale));
        }
        Ok(values)
    }
}

fn integers(node: &Node, operands: &Fetched<'_>, first: u64, count: usize) -> Result<Vec<i16>> {
    let mut bytes = vec![0; count * Number::I16.width()];
    node.produce(operands, first, count, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().copied().map(i16::from_le_bytes).collect())
}

/// Two ranks side by side, as the instructions want them that multiply 16-bit integers and add neighbours; by blocks of columns, of each all ranks.
fn paired(right: &[Vec<i16>], width: usize) -> Vec<[[i16; 2]; COLUMNS]> {
    let ranks = right.len().div_ceil(2);
    let mut pairs = vec![[[0; 2]; COLUMNS]; width.div_ceil(COLUMNS) * ranks];
    for (k, row) in right.iter().enumerate() {
        for (block, values) in row.chunks(COLUMNS).enumerate() {
            let into = &mut pairs[block * ranks + k / 2];
            into.iter_mut().zip(values).for_each(|(pair, value)| pair[k % 2] = *value);
        }
    }
    pairs
}

#[inline(always)]
fn add_pairs(
    factors: &[[i16; 2]],
    pairs: &[[[i16; 2]; COLUMNS]],
    width: usize,
    part: std::ops::Range<usize>,
    scale: f32,
    values: &mut Vec<f32>,
) {
    let mut column = part.start / COLUMNS * COLUMNS;
    while column < part.end.min(width) {
        let block = &pairs[column / COLUMNS * factors.len()..][..factors.len()];
        let mut sums = [0i32; COLUMNS];
        for ([one, other], row) in factors.iter().zip(block) {
            for (sum, [a, b]) in sums.iter_mut().zip(row) {
                *sum += i32::from(*one) * i32::from(*a) + i32::from(*other) * i32::from(*b);
            }
        }
        let from = part.start.max(column) - column;
        let to = (part.end - column).min(COLUMNS);
        values.extend(sums[from..to].iter().map(|sum| *sum as f32 * scale));
        column += COLUMNS;
    }
}
