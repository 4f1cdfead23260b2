//! Merged adapters: a tensor as one of the base and a product of two thin matrices, which are fitted to their difference.

use std::sync::Arc;

use super::matrix::{Factors, Matrix};
use super::trial::{Parent, Source, Trial, floats};
use crate::error::Result;
use crate::recipe::{Number, Precision, Recipe, Rounding};
use crate::tensor::Shape;

/// Rows and columns of a part that tells whether all is of low rank, and the share of its squares that as many vectors as are ever kept then hold:
/// of numbers without structure they hold 0.62, of the rounding errors of an adapter that changes weights by 0.3 % about a fifth is left.
const PART: usize = 256;
const HELD: f64 = 0.78;
/// Vectors that are looked for: first as many as most adapters have, then as many as they may have.
const WIDTHS: [usize; 2] = [32, 80];
/// Elements of the largest tensor that is looked at: its difference is held in memory.
const LARGEST: u64 = 1 << 28;
const SHORTEST: u64 = 64;
/// The largest integers of the factors that are tried, in terms of how large the change is beside the rounding errors. Steps of the first add a tenth
/// to what rounding leaves, but a fit over many elements knows factors better than that: where these are few, finer ones leave less in all. LoRAs
/// of rank 16 and 64 over 4096 × 4096 take 0.79 and 1.04 bits per element with the first alone.
const STEPS: [f64; 3] = [16.0, 48.0, 128.0];
const FEWEST: f64 = 63.0;
/// How far squares of singular values stand out of what noise has at most. Rounding errors are larger where weights are, so theirs go up to 1.2 times that of noise
/// which is the same everywhere; each vector that is none costs 1/200 bit per element of a 4096 × 4096 tensor. Those of adapters are a thousand times as large.
const ABOVE_NOISE: f64 = 1.3;

/// Recipes with the product of the fitted matrices, if the difference is one.
pub(super) fn find<'a>(
    parent: &Parent<'a>,
    to: Number,
    shape: &Shape,
    bytes: &[u8],
) -> Result<Vec<Trial<'a>>> {
    let [rows, row] = shape[..] else { return Ok(Vec::new()) };
    if rows < SHORTEST || row < SHORTEST || rows.saturating_mul(row) > LARGEST {
        return Ok(Vec::new());
    }
    let Some(difference) = difference(parent, to, (rows as usize, row as usize), bytes)? else {
        return Ok(Vec::new());
    };
    let part = difference.part(PART);
    let (width, energy) = (WIDTHS[1].min(part.rows / 3).min(part.row / 3), part.energy());
    let Some(of_part) = part.factors(width) else { return Ok(Vec::new()) };
    let held = of_part.squares.iter().sum::<f64>() / energy;
    if held.is_nan() || held < HELD {
        return Ok(Vec::new());
    }
    // What stands out of a part stands out of all: few vectors are not tried where they will not do.
    let is_high = rank(&part, &of_part).0 + 4 > WIDTHS[0];
    for width in WIDTHS.into_iter().skip(usize::from(is_high)) {
        let width = width.min(rows as usize / 2).min(row as usize / 2);
        let Some(factors) = difference.factors(width) else { break };
        let (rank, noise) = rank(&difference, &factors);
        if rank > 0 && rank + 4 <= width {
            let changed = difference.energy() / (rows * row) as f64;
            let ratio = (changed / noise.max(f64::MIN_POSITIVE)).sqrt();
            // Sums of products of that many such integers fit into 32 bits.
            let largest = (f64::from(i32::MAX) / rank as f64).sqrt().min(32767.0).floor();
            let mut most: Vec<f64> =
                STEPS.iter().map(|steps| (steps * ratio).clamp(FEWEST, largest).round()).collect();
            most.dedup();
            let trials = most
                .into_iter()
                .flat_map(|most| trials(parent, to, (rows, row), (&factors, rank), most as f32));
            return Ok(trials.collect());
        }
    }
    Ok(Vec::new())
}

/// The target less the parent; `None` where it is nothing or not finite.
fn difference(
    parent: &Parent<'_>,
    to: Number,
    (rows, row): (usize, usize),
    bytes: &[u8],
) -> Result<Option<Matrix>> {
    let mut values = Vec::with_capacity(rows * row);
    let at_once = ((1 << 18) / row).max(1);
    for first in (0..rows).step_by(at_once) {
        let (first, count) = (first * row, at_once.min(rows - first) * row);
        let target = floats(to, &bytes[first * to.width()..(first + count) * to.width()])?;
        let base = parent.floats(first, count)?;
        values.extend(target.iter().zip(&base).map(|(target, base)| target - base));
    }
    let matrix = Matrix { rows, row, values };
    let energy = matrix.energy();
    Ok((energy.is_finite() && energy > 0.0).then_some(matrix))
}

/// How many vectors stand out of what noise of the size of the rest would have, and the mean square of that.
fn rank(difference: &Matrix, factors: &Factors) -> (usize, f64) {
    let held: f64 = factors.squares.iter().sum();
    let (rows, row) = (difference.rows as f64, difference.row as f64);
    let rest = (difference.energy() - held).max(0.0);
    let noise = rest / ((rows - factors.rank as f64) * (row - factors.rank as f64)).max(1.0);
    let limit = noise * (rows.sqrt() + row.sqrt()).powi(2) * ABOVE_NOISE;
    let limit = limit.max(1e-12 * factors.squares.first().copied().unwrap_or_default());
    (factors.squares.iter().take_while(|square| **square > limit).count(), noise)
}

fn trials<'a>(
    parent: &Parent<'a>,
    to: Number,
    (rows, row): (u64, u64),
    (factors, rank): (&Factors, usize),
    most: f32,
) -> Vec<Trial<'a>> {
    let largest = |of: &[f32]| of.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let of = |vectors: &[f32], k: usize, length: u64| -> Vec<f32> {
        vectors[k * length as usize..(k + 1) * length as usize].to_vec()
    };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for k in 0..rank {
        let (mut one, mut other) = (of(&factors.left, k, rows), of(&factors.right, k, row));
        let by = largest(&one).max(f32::MIN_POSITIVE);
        one.iter_mut().for_each(|value| *value *= most / by);
        other.iter_mut().for_each(|value| *value *= by);
        left.extend(one);
        right.extend(other);
    }
    let step = (largest(&right) / most).max(f32::MIN_POSITIVE);
    right.iter_mut().for_each(|value| *value /= step);
    let integers = |values: &[f32]| -> Arc<Vec<u8>> {
        let bytes = values.iter().flat_map(|value| (value.round() as i16).to_le_bytes());
        Arc::new(bytes.collect())
    };
    let (left, right) = (integers(&left), integers(&right));
    let operand = parent.sources.len();
    let product = Recipe::product(
        rank as u64,
        (rows, row),
        step / most,
        Recipe::operand(operand, Number::I16),
        Recipe::operand(operand + 1, Number::I16),
    );
    let mut sources = parent.sources.clone();
    sources.push(Source::Field(Number::I16, 1, left));
    sources.push(Source::Field(Number::I16, 1, right));
    let sum = |precision, product| {
        Recipe::sum(precision, 1.0, vec![1.0, 1.0], vec![parent.recipe.clone(), product])
    };
    let wide = sum(Precision::F32, product.clone());
    let wide = if to == Number::F32 { wide } else { wide.cast(to, Rounding::Nearest) };
    let mut trials = vec![Trial::new(wide, sources.clone())];
    let narrow = match to {
        Number::F16 => Precision::F16,
        Number::Bf16 => Precision::Bf16,
        _ => return trials,
    };
    trials.push(Trial::new(sum(narrow, product.cast(to, Rounding::Nearest)), sources));
    trials
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounding errors are larger where weights are; what stands out of them for that reason alone is no vector of an adapter.
    #[test]
    fn uneven_noise_has_no_rank() {
        let (rows, row, rank_of_change) = (320, 320, 4);
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
        };
        let left: Vec<f32> = (0..rows * rank_of_change).map(|_| next()).collect();
        let right: Vec<f32> = (0..rank_of_change * row).map(|_| next()).collect();
        let values = (0..rows * row).map(|place| {
            let (i, j) = (place / row, place % row);
            let change: f32 = (0..rank_of_change).map(|k| left[k * rows + i] * right[k * row + j]).sum();
            30.0 * change + next() * if i % 2 == 0 { 1.0 } else { 1.75 }
        });
        let difference = Matrix { rows, row, values: values.collect() };
        let factors = difference.factors(24).unwrap();
        assert_eq!(rank(&difference, &factors).0, rank_of_change);
    }
}
