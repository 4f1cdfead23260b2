//! Merges by consensus (TIES): onto one parent the weighted changes of others, without the small ones and without those against the sign that
//! prevails. What is too small for each is seen where the others change nothing, weights where all agree.

use super::trial::{Parent, Trial, floats};
use crate::error::Result;
use crate::recipe::{Number, Precision, Recipe, Rounding, Voice};

/// Elements that are looked at, in so many stretches all over the tensor: thresholds are found to within some elements in a hundred thousand.
const LOOKED_AT: usize = 1 << 18;
const STRETCHES: usize = 16;
/// Elements that ways to add up are compared on.
const COMPARED: usize = 8 << 10;
/// Parents besides the one that they change.
const MOST: usize = 6;
/// The share of elements in which the other parents are taken to change nothing, those with the smallest changes, and the fewest that say something.
const QUIET: f64 = 0.2;
const FEWEST: usize = 200;
/// How near short decimals are to what was fitted, and how many are tried. Fitted weights are off by a twentieth where changes are a few units in the last
/// place of what they are added to.
const NEAR: f64 = 0.08;
const PROPORTIONS: usize = 40;
/// The share of elements that a merge has to give exactly, and how many more than the parent that is changed.
const EXPLAINED: f64 = 0.6;
const MORE: f64 = 0.1;
/// No other parent is taken for the changed one where a way gives more than this share exactly.
const SURE: f64 = 0.95;

/// A tensor, the parent that was changed, and what the others differ from it by.
struct Sample {
    onto: usize,
    others: Vec<usize>,
    changes: Vec<Vec<f32>>,
    change: Vec<f32>,
}

/// The merge of the parents by consensus that gives the most elements exactly, if it is one.
pub(super) fn find<'a>(parents: &[Parent<'a>], to: Number, bytes: &[u8]) -> Result<Option<Trial<'a>>> {
    if !(2..=MOST + 1).contains(&parents.len()) {
        return Ok(None);
    }
    let values = stretches(parents, to, bytes)?;
    let count = bytes.len() / to.width();
    let compared = count.min(COMPARED);
    let first = (count - compared) / 2;
    let wanted = &bytes[first * to.width()..(first + compared) * to.width()];
    let matches = |trial: &Trial<'_>| -> Result<usize> {
        let made = trial.reference((first * to.width()) as u64, wanted.len())?;
        let pairs = made.chunks_exact(to.width()).zip(wanted.chunks_exact(to.width()));
        Ok(pairs.filter(|(made, wanted)| made == wanted).count())
    };
    let mut least = EXPLAINED * compared as f64;
    let mut best: Option<(usize, Trial<'a>)> = None;
    // Where only one parent counts, the tensor may be that one: which of them was changed, the result tells.
    for onto in 0..parents.len() {
        let Some(sample) = Sample::new(&values, onto) else { continue };
        let unchanged = parents[onto].recipe.clone().cast(to, Rounding::Nearest);
        let unchanged = matches(&Trial::new(unchanged, parents[onto].sources.clone()))?;
        least = least.max(unchanged as f64 + MORE * compared as f64);
        let thresholds: Option<Vec<f32>> =
            (0..sample.changes.len()).map(|which| sample.threshold(which)).collect();
        let Some(thresholds) = thresholds else { continue };
        for way in sample.ways(&thresholds, to) {
            let trial = way.trial(parents, &sample, to);
            let exact = matches(&trial)?;
            if best.as_ref().is_none_or(|(most, _)| exact > *most) {
                best = Some((exact, trial));
            }
        }
        if best.as_ref().is_some_and(|(exact, _)| *exact as f64 > SURE * compared as f64) {
            break;
        }
    }
    Ok(best.filter(|(exact, _)| *exact as f64 >= least).map(|(_, trial)| trial))
}

/// A way to add up.
struct Way {
    precision: Precision,
    normalised: bool,
    voices: Vec<Voice>,
    /// What the sum is multiplied by.
    by: f64,
}

impl Way {
    fn trial<'a>(&self, parents: &[Parent<'a>], sample: &Sample, to: Number) -> Trial<'a> {
        let (mut sources, mut recipes) = (Vec::new(), Vec::new());
        for parent in parents {
            recipes.push(parent.recipe.clone().shifted(sources.len()));
            sources.extend(parent.sources.iter().cloned());
        }
        let sum = |weights: Vec<f64>, parts| Recipe::sum(self.precision, 1.0, weights, parts);
        let onto = &recipes[sample.onto];
        let change = |place: &usize| sum(vec![1.0, -1.0], vec![recipes[*place].clone(), onto.clone()]);
        let changes = sample.others.iter().map(change).collect();
        let agreed = Recipe::consensus(self.precision, self.normalised, self.voices.clone(), changes);
        let merged = sum(vec![1.0, self.by], vec![onto.clone(), agreed]);
        let merged = if self.precision.number() == to { merged } else { merged.cast(to, Rounding::Nearest) };
        Trial::new(merged, sources)
    }
}

impl Sample {
    /// `None` where the parent is left as it is hardly anywhere, or where there are no numbers.
    fn new(values: &[Vec<f32>], onto: usize) -> Option<Sample> {
        let (target, parents) = values.split_last()?;
        let base = parents.get(onto)?;
        let same = base.iter().zip(target).filter(|(one, other)| one == other).count();
        if target.len() < FEWEST || same <= target.len() / 100 {
            return None;
        }
        let less = |values: &[f32]| -> Vec<f32> {
            values.iter().zip(base).map(|(value, base)| value - base).collect()
        };
        let others: Vec<usize> = (0..parents.len()).filter(|place| *place != onto).collect();
        let changes: Vec<Vec<f32>> = others.iter().map(|place| less(&parents[*place])).collect();
        let change = less(target);
        let is_finite = changes.iter().flatten().chain(&change).all(|value| value.is_finite());
        is_finite.then_some(Sample { onto, others, changes, change })
    }

    /// The least magnitude of a parent's changes that counts: below it the tensor is unchanged where the other parents change nothing.
    fn threshold(&self, which: usize) -> Option<f32> {
        let limits: Vec<f32> = self.changes.iter().map(|changes| quantile(changes, QUIET)).collect();
        let is_quiet = |place: usize| {
            let others = self.changes.iter().zip(&limits).enumerate().filter(|(other, _)| *other != which);
            others.into_iter().all(|(_, (changes, limit))| changes[place].abs() <= *limit)
        };
        let places =
            (0..self.change.len()).filter(|place| self.changes[which][*place] != 0.0 && is_quiet(*place));
        let mut seen: Vec<(f32, bool)> =
            places.map(|place| (self.changes[which][place].abs(), self.change[place] != 0.0)).collect();
        if seen.len() < FEWEST {
            return None;
        }
        seen.sort_by(|one, other| one.0.total_cmp(&other.0));
        // Wrong if all count: those that are unchanged. Each that does not count is wrong where it is changed.
        let mut wrong = seen.iter().filter(|(_, is_changed)| !is_changed).count() as i64;
        let (mut least, mut found) = (wrong, seen[0].0);
        for (place, (_, is_changed)) in seen.iter().enumerate() {
            wrong += if *is_changed { 1 } else { -1 };
            let next = seen.get(place + 1).map_or(f32::INFINITY, |next| next.0);
            if wrong < least && next > seen[place].0 {
                (least, found) = (wrong, next);
            }
        }
        found.is_finite().then_some(found)
    }

    /// The ways that programs may have added up.
    fn ways(&self, thresholds: &[f32], to: Number) -> Vec<Way> {
        let counts = |which: usize, place: usize| self.changes[which][place].abs() >= thresholds[which];
        let size = self.changes.len();
        // What one parent is worth where it alone counts, and what each is where all do and agree.
        let mut lone = vec![(0.0f64, 0.0f64); size];
        let mut products = vec![vec![0.0f64; size + 1]; size];
        for place in 0..self.change.len() {
            let heard: Vec<usize> = (0..size).filter(|which| counts(*which, place)).collect();
            let value = |which: usize| f64::from(self.changes[which][place]);
            let change = f64::from(self.change[place]);
            if let [which] = heard[..] {
                lone[which].0 += value(which) * change;
                lone[which].1 += value(which) * value(which);
            }
            if heard.len() == size
                && (heard.iter().all(|of| value(*of) > 0.0) || heard.iter().all(|of| value(*of) < 0.0))
            {
                for (one, row) in products.iter_mut().enumerate() {
                    (0..size).for_each(|other| row[other] += value(one) * value(other));
                    row[size] += value(one) * change;
                }
            }
        }
        let lone: Vec<f64> = lone.into_iter().map(|(product, square)| product / square).collect();
        let Some(joint) = super::merge::solve(products) else { return Vec::new() };
        let sum: f64 = joint.iter().sum();
        if joint.iter().chain(&lone).any(|of| !of.is_finite() || *of == 0.0) || sum == 0.0 {
            return Vec::new();
        }
        let short = |of: f64| (of * 100.0).round() / 100.0;
        let mut weights: Vec<(bool, f64, Vec<f64>)> = Vec::new();
        weights.extend(in_proportion(&joint, sum).into_iter().map(|found| (true, short(sum), found)));
        weights.push((false, 1.0, joint.iter().map(|of| short(*of)).collect()));
        weights.push((false, 1.0, lone.iter().map(|of| short(*of)).collect()));
        weights.push((true, sum, joint.iter().map(|of| of / sum).collect()));
        weights.push((false, 1.0, joint));
        let precisions = [Precision::of_narrow(to), Some(Precision::F32)];
        let mut ways = Vec::new();
        for (normalised, by, weights) in weights {
            for precision in precisions.into_iter().flatten() {
                let voices = weights.iter().zip(thresholds);
                let voices = voices.map(|(weight, of)| Voice { weight: *weight, threshold: f64::from(*of) });
                ways.push(Way { precision, normalised, voices: voices.collect(), by });
            }
        }
        ways
    }
}

/// Short decimals in these proportions: where weights are divided by their sum, any scale of them is possible, and rounding tells them apart. Twice or half of
/// what is known already is rounded the same.
fn in_proportion(shares: &[f64], sum: f64) -> Vec<Vec<f64>> {
    let mut found: Vec<Vec<f64>> = Vec::new();
    for grain in [10u32, 20, 100] {
        for total in 1..=grain * 5 / 2 {
            let (by, grain) = (f64::from(total) / f64::from(grain) / sum, f64::from(grain));
            let weights: Vec<f64> = shares.iter().map(|of| (of * by * grain).round() / grain).collect();
            let is_near =
                shares.iter().zip(&weights).all(|(of, weight)| (of * by / weight - 1.0).abs() < NEAR);
            let is_known = found.iter().any(|known| {
                let ratio = (weights[0] / known[0]).log2();
                (ratio - ratio.round()).abs() < 1e-9
            });
            if is_near && !is_known && found.len() < PROPORTIONS {
                found.push(weights);
            }
        }
    }
    found
}

/// The magnitude that this share of numbers does not exceed.
fn quantile(values: &[f32], share: f64) -> f32 {
    let mut magnitudes: Vec<f32> = values.iter().map(|value| value.abs()).collect();
    let place = ((magnitudes.len() as f64 * share) as usize).min(magnitudes.len().saturating_sub(1));
    *magnitudes.select_nth_unstable_by(place, f32::total_cmp).1
}

/// Stretches of the parents, and of the tensor behind them.
fn stretches(parents: &[Parent<'_>], to: Number, bytes: &[u8]) -> Result<Vec<Vec<f32>>> {
    let count = bytes.len() / to.width();
    let stretch = (LOOKED_AT / STRETCHES).min(count);
    let stretches = if count <= stretch * STRETCHES { 1.max(count / stretch.max(1)) } else { STRETCHES };
    let mut values = vec![Vec::new(); parents.len() + 1];
    for number in 0..stretches {
        let first = if stretches == 1 { 0 } else { (count - stretch) * number / (stretches - 1) };
        for (values, parent) in values.iter_mut().zip(parents) {
            values.extend(parent.floats(first, stretch)?);
        }
        let target = &bytes[first * to.width()..(first + stretch) * to.width()];
        values[parents.len()].extend(floats(to, target)?);
    }
    Ok(values)
}
