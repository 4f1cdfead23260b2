//! Relatives inside the checkpoint that is added: an fp32 master copy beside bf16 weights, an average beside what it averages. They are found among the
//! tensors that come before, by shape, name and samples.

use std::sync::Arc;

use super::chain::buffer;
use crate::record::cast;
use ztensor::archive::Run;
use ztensor::recipe::{Operands, Recipe};
use ztensor::{Result, Source};

/// Tensors of the same shape that are compared, the most similar names first.
const COMPARED: usize = 4;
/// Bytes that are compared, in the middle.
const SAMPLE: u64 = 16 << 10;
/// Relatives have the same top byte, which has sign and most of the exponent, in this share of elements.
const RELATED: f64 = 0.75;

/// A tensor of the checkpoint that is added.
pub(crate) struct Kin {
    pub source: Arc<Source>,
    pub run: Run,
    pub name: Option<String>,
    /// Its entry, once it has one.
    pub entry: Option<usize>,
}

/// A relative: its place among the tensors, and the recipe that makes its bytes comparable, where they are of another type.
#[derive(Clone)]
pub(crate) struct Relative {
    pub kin: usize,
    pub recipe: Option<Recipe>,
}

/// The nearest relative of a tensor among those that come before it.
pub(crate) fn nearest_kin(before: &[Kin], bytes: &[u8], run: &Run, name: &str) -> Result<Option<Relative>> {
    let dtype = run.element.to_string();
    let comparable = |(kin, other): (usize, &Kin)| {
        let from = other.run.element.to_string();
        let recipe = cast(&from, &dtype);
        let length = match &recipe {
            Some(recipe) => recipe.length(&[other.run.length]).ok()?,
            None => other.run.length,
        };
        let fits = other.run.shape == run.shape && length == run.length;
        let alike = alike(other.name.as_deref()?, name);
        let comparable = recipe.is_some() || from == dtype;
        (comparable && fits && alike > 0).then_some((alike, Relative { kin, recipe }))
    };
    let mut candidates: Vec<_> = before.iter().enumerate().filter_map(comparable).collect();
    candidates.sort_by_key(|(alike, relative)| (std::cmp::Reverse(*alike), relative.kin));
    let mut best: Option<(f64, Relative)> = None;
    for (_, relative) in candidates.into_iter().take(COMPARED) {
        let (start, length) = middle(run.length, SAMPLE);
        let theirs = before[relative.kin].read(relative.recipe.as_ref(), start, length)?;
        let ours = &bytes[start as usize..(start + length) as usize];
        let width = run.element.storage.width().max(1);
        let tops = ours.iter().zip(&theirs).skip(width - 1).step_by(width);
        let same = tops.clone().filter(|(a, b)| a == b).count() as f64 / tops.count().max(1) as f64;
        if same >= RELATED && best.as_ref().is_none_or(|(found, _)| same > *found) {
            best = Some((same, relative));
        }
    }
    Ok(best.map(|(_, relative)| relative))
}

/// A range in the middle, of whole elements whatever their width.
pub(crate) fn middle(length: u64, most: u64) -> (u64, u64) {
    if length <= most {
        return (0, length);
    }
    ((length - most) / 2 / 16 * 16, most)
}

/// How many letters two names have in common at their ends: `model.layer.weight` and `ema.layer.weight`.
fn alike(one: &str, other: &str) -> usize {
    one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count()
}

impl Kin {
    /// Bytes of it, or of what a recipe makes of it.
    pub(crate) fn read(&self, recipe: Option<&Recipe>, start: u64, length: u64) -> Result<Vec<u8>> {
        let Some(recipe) = recipe else {
            return Ok(self.source.bytes(self.run.offset + start, length)?.into_owned());
        };
        let mut bytes = buffer(length)?;
        recipe.apply(self, &[self.run.length], start, &mut bytes)?;
        Ok(bytes)
    }
}

impl Operands for Kin {
    fn read(&self, _number: usize, start: u64, out: &mut [u8]) -> Result<()> {
        self.source.read_into(self.run.offset + start, out)
    }
}
