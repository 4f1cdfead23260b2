//! Merges: a tensor as a linear combination of tensors of several bases. Coefficients are fitted by least squares; where short decimals, in the
//! precision of a program that merges, give more elements exactly, they are taken instead.

use super::trial::{Parent, Trial, floats};
use crate::error::Result;
use crate::recipe::{Number, Precision, Recipe, Rounding};

/// Elements that coefficients are fitted on, in so many stretches all over the tensor. Rounding errors of bf16 leave an error of about 1e-6 in a
/// coefficient, which changes one element in some thousands; of a quarter as many elements, one in two thousand.
const FITTED: usize = 1 << 20;
const STRETCHES: usize = 16;
/// How often coefficients are fitted again.
const REFINED: usize = 12;
/// Of what was beyond rounding before, less than this share has to be left for another time.
const NEARER: f64 = 0.98;
/// Elements that ways to add up are compared on.
const COMPARED: usize = 8 << 10;
/// The share of elements that a merge has to give exactly: a fine-tuned model has as many of its base by chance.
const EXPLAINED: f64 = 0.2;

/// The merge of the parents that gives the most elements exactly, if it is one, and the share of those.
pub(super) fn find<'a>(parents: &[Parent<'a>], to: Number, bytes: &[u8]) -> Result<Option<(f64, Trial<'a>)>> {
    if parents.len() < 2 {
        return Ok(None);
    }
    let Some(fit) = fit(parents, to, bytes)? else { return Ok(None) };
    let count = bytes.len() / to.width();
    let compared = count.min(COMPARED);
    let first = (count - compared) / 2;
    let wanted = &bytes[first * to.width()..(first + compared) * to.width()];
    let mut best: Option<(usize, Trial<'a>)> = None;
    for way in ways(&fit, to) {
        let trial = way.trial(parents, to);
        let made = trial.reference((first * to.width()) as u64, wanted.len())?;
        let pairs = made.chunks_exact(to.width()).zip(wanted.chunks_exact(to.width()));
        let exact = pairs.filter(|(made, wanted)| made == wanted).count();
        if best.as_ref().is_none_or(|(most, _)| exact > *most) {
            best = Some((exact, trial));
        }
    }
    let best = best.map(|(exact, trial)| (exact as f64 / compared.max(1) as f64, trial));
    Ok(best.filter(|(share, _)| *share >= EXPLAINED))
}

/// A way to add up: nested or not, in which precision, with which weights.
struct Way {
    precision: Precision,
    divisor: f64,
    weights: Vec<f64>,
    /// The parent whose difference to the others is what is added to it.
    onto: Option<usize>,
}

impl Way {
    fn trial<'a>(&self, parents: &[Parent<'a>], to: Number) -> Trial<'a> {
        let mut sources = Vec::new();
        let mut recipes = Vec::new();
        for parent in parents {
            recipes.push(parent.recipe.clone().shifted(sources.len()));
            sources.extend(parent.sources.iter().cloned());
        }
        let sum = |weights: Vec<f64>, parts| Recipe::sum(self.precision, self.divisor, weights, parts);
        let used: Vec<usize> = (0..parents.len()).filter(|place| self.weights[*place] != 0.0).collect();
        let merged = match self.onto {
            None => {
                let weights = used.iter().map(|place| self.weights[*place]).collect();
                sum(weights, used.iter().map(|place| recipes[*place].clone()).collect())
            }
            Some(base) => {
                let others: Vec<usize> = used.into_iter().filter(|place| *place != base).collect();
                let one = |weights: Vec<f64>, parts| Recipe::sum(self.precision, 1.0, weights, parts);
                let difference = |place: &usize| {
                    one(vec![1.0, -1.0], vec![recipes[*place].clone(), recipes[base].clone()])
                };
                let weights = others.iter().map(|place| self.weights[*place]).collect();
                let change = one(weights, others.iter().map(difference).collect());
                one(vec![1.0, 1.0], vec![recipes[base].clone(), change])
            }
        };
        let merged = match (self.precision, to) {
            (Precision::F32 | Precision::F64, Number::F32) => merged,
            (Precision::F16, Number::F16) | (Precision::Bf16, Number::Bf16) => merged,
            _ => merged.cast(to, Rounding::Nearest),
        };
        Trial::new(merged, sources)
    }
}

/// The ways that programs may have added up with about these coefficients.
fn ways(fit: &[f64], to: Number) -> Vec<Way> {
    let plain = |precision, divisor, weights: &[f64]| Way {
        precision,
        divisor,
        weights: weights.to_vec(),
        onto: None,
    };
    let mut ways = vec![plain(Precision::F32, 1.0, fit)];
    let mut weights: Vec<(f64, Vec<f64>)> = Vec::new();
    let mut note = |divisor: f64, found: Vec<f64>| {
        let is_new = !weights.iter().any(|(_, known)| *known == found);
        if is_new && found.iter().any(|of| *of != 0.0) && divisor.abs() > 1e-3 {
            weights.push((divisor, found));
        }
    };
    for decimals in [10.0, 100.0, 1000.0] {
        note(1.0, fit.iter().map(|of| (of * decimals).round() / decimals).collect());
    }
    // Weights that do not add up to 1 are divided by what they do.
    let largest = fit.iter().fold(0.0f64, |most, of| most.max(of.abs()));
    let shares: Vec<f64> = fit.iter().map(|of| (of / largest * 100.0).round() / 100.0).collect();
    note(shares.iter().sum(), shares);
    let narrow = match to {
        Number::F16 => Some(Precision::F16),
        Number::Bf16 => Some(Precision::Bf16),
        _ => None,
    };
    for (divisor, weights) in &weights {
        for precision in [Some(Precision::F32), narrow, Some(Precision::F64)].into_iter().flatten() {
            ways.push(plain(precision, *divisor, weights));
        }
        // Onto a parent that has what the others leave.
        let sum: f64 = weights.iter().sum();
        if (sum - 1.0).abs() < 0.01 && *divisor == 1.0 {
            for onto in 0..weights.len() {
                for precision in [Some(Precision::F32), narrow].into_iter().flatten() {
                    ways.push(Way { onto: Some(onto), ..plain(precision, 1.0, weights) });
                }
            }
        }
    }
    ways
}

/// Coefficients by least squares; `None` where there are none, or one parent is all of it.
fn fit(parents: &[Parent<'_>], to: Number, bytes: &[u8]) -> Result<Option<Vec<f64>>> {
    let count = bytes.len() / to.width();
    let stretch = (FITTED / STRETCHES).min(count);
    let stretches = if count <= stretch * STRETCHES { count.div_ceil(stretch.max(1)) } else { STRETCHES };
    let size = parents.len();
    let mut values = vec![Vec::new(); size + 1];
    for number in 0..stretches {
        let first = match stretches {
            1 => 0,
            _ => (count - stretch) * number / (stretches - 1),
        };
        for (values, parent) in values.iter_mut().zip(parents) {
            values.extend(parent.floats(first, stretch)?);
        }
        values[size].extend(floats(to, &bytes[first * to.width()..(first + stretch) * to.width()])?);
    }
    // Products of all pairs of parents, and of each with the target.
    let mut products = vec![vec![0.0f64; size + 1]; size];
    for (place, row) in products.iter_mut().enumerate() {
        for (other, product) in row.iter_mut().enumerate().skip(place) {
            let pairs = values[place].iter().zip(&values[other]);
            *product = pairs.map(|(one, other)| f64::from(*one) * f64::from(*other)).sum();
        }
    }
    for place in 1..size {
        let column: Vec<f64> = products[..place].iter().map(|row| row[place]).collect();
        products[place][..place].copy_from_slice(&column);
    }
    let solved = solve(products).map(|fit| refined(fit, &values, to));
    Ok(solved.filter(|fit| {
        let large = fit.iter().filter(|of| of.abs() > 1e-3).count();
        fit.iter().all(|of| of.is_finite()) && large > 1
    }))
}

/// Coefficients that put fewer elements on the wrong side of where rounding turns: what is beyond is fitted again, a few times. Squares alone know
/// coefficients to 1e-5 from 2^18 elements; that is a merge in 500 elements wrong.
fn refined(mut fit: Vec<f64>, values: &[Vec<f32>], to: Number) -> Vec<f64> {
    let Some((target, parents)) = values.split_last() else { return fit };
    let mantissa = match to {
        Number::F16 => 10,
        Number::Bf16 => 7,
        _ => return fit,
    };
    let size = fit.len();
    let mut best = (usize::MAX, fit.clone());
    for _ in 0..REFINED {
        let mut products = vec![vec![0.0f64; size + 1]; size];
        let mut wrong = 0;
        for (place, target) in target.iter().enumerate() {
            let value = |which: usize| f64::from(parents[which][place]);
            let sum: f64 = (0..size).map(|which| fit[which] * value(which)).sum();
            // Half of the last place of numbers of this size; powers of two are a little nearer to the next smaller one.
            let power = f32::from_bits(target.to_bits() & 0x7f80_0000);
            let half = f64::from(power) / f64::from(2u32 << mantissa);
            let beyond = f64::from(*target) - sum;
            if beyond.abs() <= half || !beyond.is_finite() {
                continue;
            }
            wrong += 1;
            let missing = beyond - half.copysign(beyond);
            for (one, row) in products.iter_mut().enumerate() {
                (0..size).for_each(|other| row[other] += value(one) * value(other));
                row[size] += value(one) * missing;
            }
        }
        // What is no sum of the parents does not come nearer.
        let is_nearer = (wrong as f64) < NEARER * best.0 as f64;
        if wrong < best.0 {
            best = (wrong, fit.clone());
        }
        if !is_nearer {
            break;
        }
        let Some(change) = solve(products).filter(|_| wrong > size) else { break };
        fit.iter_mut().zip(&change).for_each(|(of, change)| *of += change);
    }
    best.1
}

/// Solves equations, the last column of which is the right side, by elimination. A parent that others make up has no part.
pub(super) fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = rows.len();
    let scales: Vec<f64> = (0..size).map(|place| rows[place][place]).collect();
    let mut is_used = vec![true; size];
    for place in 0..size {
        if rows[place][place].is_nan() || rows[place][place] <= 1e-11 * scales[place] {
            is_used[place] = false;
            continue;
        }
        let pivot = rows[place].clone();
        for (other, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != place) {
            if is_used[other] || other > place {
                let factor = row[place] / pivot[place];
                row.iter_mut().zip(&pivot).for_each(|(value, of)| *value -= factor * of);
            }
        }
    }
    let solution = |place: usize| match is_used[place] {
        true => rows[place][size] / rows[place][place],
        false => 0.0,
    };
    let solved: Vec<f64> = (0..size).map(solution).collect();
    solved.iter().all(|of| of.is_finite()).then_some(solved)
}
