//! Relatives inside the checkpoint that is added: an fp32 master copy beside bf16 weights, an average beside what it averages. They are found among the
//! tensors that come before, by shape, name and samples.

use std::collections::{BTreeSet, HashMap};
use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;

use super::chain::buffer;
use crate::record::float;
use ztensor::archive::Run;
use ztensor::recipe::{Operands, Recipe, Rounding};
use ztensor::{Result, Source};

/// Tensors of the same shape that are compared, the most similar names first.
const COMPARED: usize = 4;
/// Tensors whose names are the nearest that are looked at, to each side in their order: of thousands of experts of one shape.
const LOOKED_AT: usize = 32;
/// Bytes that are compared, in the middle.
const SAMPLE: u64 = 16 << 10;
/// Relatives have the same top byte, which has sign and most of the exponent, in this share of elements.
const RELATED: f64 = 0.75;

/// A tensor of the checkpoint that is added, or a part of one that is cut.
pub(crate) struct Kin {
    pub source: Arc<Source>,
    pub run: Run,
    /// Of the whole tensor; parts have the same one.
    pub name: Option<String>,
    /// The dimensions of the whole tensor, and the bytes of it that come before this part.
    pub whole: Vec<u64>,
    pub start: u64,
    /// Its entry, once it has one.
    pub entry: Option<usize>,
}

/// All of them, in their order: the parts of a tensor follow one another.
#[derive(Default)]
pub(crate) struct Family {
    members: Vec<Kin>,
    /// First parts by the dimensions of the whole tensor, then by name, read from its end: neighbours have the longest ends in common.
    by_shape: HashMap<Vec<u64>, BTreeSet<(Vec<u8>, usize)>>,
}

/// A relative: where it is among the parts of all tensors, and what makes its bytes comparable where it is not one part of the same type.
#[derive(Clone)]
pub(crate) struct Relative {
    pub parts: Range<usize>,
    pub recipe: Option<Recipe>,
}

impl Index<usize> for Family {
    type Output = Kin;

    fn index(&self, place: usize) -> &Kin {
        &self.members[place]
    }
}

impl IndexMut<usize> for Family {
    fn index_mut(&mut self, place: usize) -> &mut Kin {
        &mut self.members[place]
    }
}

impl Family {
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn push(&mut self, kin: Kin) {
        if let (Some(name), 0) = (&kin.name, kin.start) {
            let name = name.bytes().rev().collect();
            self.by_shape.entry(kin.whole.clone()).or_default().insert((name, self.members.len()));
        }
        self.members.push(kin);
    }

    /// The nearest relative of a tensor or part, whose bytes these are, among the tensors that come before it.
    pub(crate) fn nearest(&self, own: usize, bytes: &[u8]) -> Result<Option<Relative>> {
        let run = &self[own].run;
        let (start, length) = middle(run.length, SAMPLE);
        let mut best: Option<(f64, Relative)> = None;
        for relative in self.candidates(own) {
            let theirs = self.read(&relative, start, length)?;
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

    /// Tensors of the same shape and of a type that can be compared, those with the most similar names first.
    fn candidates(&self, own: usize) -> Vec<Relative> {
        let kin = &self[own];
        let (Some(name), Some(group)) = (&kin.name, self.by_shape.get(&kin.whole)) else { return Vec::new() };
        let key: Vec<u8> = name.bytes().rev().collect();
        let bound = (key, 0);
        let below = group.range(..&bound).rev().take(LOOKED_AT);
        let above = group.range(&bound..).take(LOOKED_AT);
        let mut found: Vec<(usize, usize)> = below
            .chain(above)
            // Not the tensor itself: its first part has its own name and comes no later than this one.
            .filter(|(_, other)| *other < own && !self.is_same_tensor(*other, own))
            .map(|(other, place)| (alike(other, &bound.0), *place))
            .filter(|(alike, _)| *alike > 0)
            .collect();
        found.sort_by_key(|(alike, place)| (std::cmp::Reverse(*alike), *place));
        found.into_iter().filter_map(|(_, other)| self.relative(own, other)).take(COMPARED).collect()
    }

    fn is_same_tensor(&self, first: usize, own: usize) -> bool {
        self.members[first + 1..=own].iter().all(|kin| kin.start > 0)
    }

    /// What corresponds to a part in another tensor, whose first part is `first`.
    fn relative(&self, own: usize, first: usize) -> Option<Relative> {
        let (kin, other) = (&self[own], &self[first]);
        let parts =
            first..first + 1 + self.members[first + 1..].iter().take_while(|kin| kin.start > 0).count();
        let (from, to) = (other.run.element.to_string(), kin.run.element.to_string());
        if from == to {
            let fits = |place: &usize| {
                let part = &self[*place];
                (part.start, part.run.length, &part.run.shape) == (kin.start, kin.run.length, &kin.run.shape)
            };
            let place = parts.clone().find(fits)?;
            return Some(Relative { parts: place..place + 1, recipe: None });
        }
        let (from, to) = (float(&from)?, float(&to)?);
        let width = to.width() as u64;
        let elements = kin.start / width..(kin.start + kin.run.length) / width;
        let (start, end) = (elements.start * from.width() as u64, elements.end * from.width() as u64);
        let needed = |place: &usize| {
            let part = &self[*place];
            part.start < end && start < part.start + part.run.length
        };
        let needed: Vec<usize> = parts.filter(needed).collect();
        let (first, last) = (*needed.first()?, *needed.last()?);
        let (begins, ends) = (self[first].start, self[last].start + self[last].run.length);
        if start < begins || ends < end {
            return None;
        }
        let mut recipe = Recipe::operand(0, from);
        if (start, end) != (begins, ends) {
            recipe = recipe.slice((start - begins) / from.width() as u64, elements.end - elements.start);
        }
        Some(Relative { parts: first..last + 1, recipe: Some(recipe.cast(to, Rounding::Nearest)) })
    }

    /// Bytes of a relative as they are compared.
    pub(crate) fn read(&self, relative: &Relative, start: u64, length: u64) -> Result<Vec<u8>> {
        let first = &self[relative.parts.start];
        let Some(recipe) = &relative.recipe else {
            return Ok(first.source.bytes(first.run.offset + start, length)?.into_owned());
        };
        let mut bytes = buffer(length)?;
        let all = self.members[relative.parts.clone()].iter().map(|part| part.run.length).sum();
        recipe.apply(first, &[all], start, &mut bytes)?;
        Ok(bytes)
    }
}

/// A range in the middle, of whole elements whatever their width.
pub(crate) fn middle(length: u64, most: u64) -> (u64, u64) {
    if length <= most {
        return (0, length);
    }
    ((length - most) / 2 / 16 * 16, most)
}

/// How many letters two names have in common at their ends: `model.layer.weight` and `ema.layer.weight`. Both are read from there.
fn alike(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The parts of a tensor lie in its file one after the other.
impl Operands for Kin {
    fn read(&self, _number: usize, start: u64, out: &mut [u8]) -> Result<()> {
        self.source.read_into(self.run.offset + start, out)
    }
}
