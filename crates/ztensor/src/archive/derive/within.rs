//! Relatives inside one model: an fp32 master copy beside bf16 weights, an average beside what it averages. They are found among the tensors
//! that come before, by shape, name and samples, before anything is coded, so that what others are made of is made of no pieces itself.

use std::collections::HashMap;

use super::names::{alike, numbers};
use crate::archive::{Original, Run};
use crate::error::Result;
use crate::recipe::{Number, Recipe, Rounding};

/// Shorter tensors are not worth it.
const SHORTEST: u64 = 4 << 10;
/// Tensors that are compared, the most similar names first.
const COMPARED: usize = 4;
/// Elements that are compared, in the middle.
const SAMPLE: u64 = 4 << 10;
/// Relatives have the same top byte, which has sign and most of the exponent, in this share of elements. Unrelated weights of the same scale agree in
/// less than half of them.
const RELATED: f64 = 0.75;

/// For each run the earlier one that it is nearest to, if any is near.
pub(super) fn relatives(runs: &[Run], original: &Original) -> Result<Vec<Option<usize>>> {
    let mut found: Vec<Option<usize>> = vec![None; runs.len()];
    let mut groups: HashMap<(Vec<u64>, Vec<&str>), Vec<usize>> = HashMap::new();
    for (place, run) in runs.iter().enumerate() {
        let Some((name, _)) = run.tensor.as_ref().filter(|_| run.length >= SHORTEST) else { continue };
        let Some(number) = Number::of(&run.element).filter(|number| number.is_float()) else { continue };
        let group = groups.entry((run.shape.to_vec(), numbers(name))).or_default();
        let mut others: Vec<usize> = group.iter().copied().filter(|other| found[*other].is_none()).collect();
        others.sort_by_key(|other| {
            let name_of = |place: usize| runs[place].tensor.as_ref().map_or("", |(name, _)| name);
            std::cmp::Reverse(alike(name_of(*other), name))
        });
        let mut best = RELATED;
        for other in others.into_iter().take(COMPARED) {
            let Some(of) = Number::of(&runs[other].element) else { continue };
            let agreement = agreement(original, (run, number), (&runs[other], of))?;
            if agreement >= best {
                (best, found[place]) = (agreement, Some(other));
            }
        }
        group.push(place);
    }
    Ok(found)
}

/// The share of elements whose top byte is the same once the other's are of the same type.
fn agreement(original: &Original, (run, number): (&Run, Number), (other, of): (&Run, Number)) -> Result<f64> {
    let count = run.length / number.width() as u64;
    let taken = count.min(SAMPLE);
    let first = (count - taken) / 2;
    let bytes =
        |run: &Run, width: usize| original.bytes(run.offset + first * width as u64, taken * width as u64);
    let (ours, theirs) = (bytes(run, number.width())?, bytes(other, of.width())?);
    let recipe = Recipe::operand(0, of).cast(number, Rounding::Nearest);
    let mut made = vec![0; ours.len()];
    recipe.apply(&&[&*theirs][..], &[theirs.len() as u64], 0, &mut made)?;
    let tops = ours.iter().zip(&made).skip(number.width() - 1).step_by(number.width());
    let same = tops.filter(|(one, other)| one == other).count();
    // Constants say nothing.
    let varied = ours.chunks_exact(number.width()).any(|element| *element != ours[..number.width()]);
    Ok(if varied { same as f64 / taken.max(1) as f64 } else { 0.0 })
}
