//! A recipe while it is tried: its operands are read where they lie, in bases, in the model itself, or in memory.

use std::borrow::Cow;
use std::sync::Arc;

use super::candidates::Origin;
use crate::archive::BaseTensor;
use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::recipe::{Number, Operands, Recipe, Rounding};

/// Elements by which tensors of bases are compared with a tensor, and the least cosine between them that makes one its parent: that of unrelated
/// weights is about 0.01, that of a merge with a share of a tenth 0.1.
const COMPARED: usize = 4 << 10;
const LIKE: f64 = 0.05;

/// What a recipe is applied to while it is tried.
#[derive(Clone)]
pub(super) enum Source<'a> {
    Base(&'a Reader, BaseTensor, u64),
    Run(usize, Cow<'a, [u8]>),
    Field(Number, usize, Arc<Vec<u8>>),
}

/// A recipe to be tried, and what it is applied to.
pub(super) struct Trial<'a> {
    pub(super) recipe: Recipe,
    pub(super) sources: Vec<Source<'a>>,
    pub(super) lengths: Vec<u64>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(recipe: Recipe, sources: Vec<Source<'a>>) -> Trial<'a> {
        let lengths = sources.iter().map(|source| match source {
            Source::Base(_, _, length) => *length,
            Source::Run(_, bytes) => bytes.len() as u64,
            Source::Field(_, _, bytes) => bytes.len() as u64,
        });
        Trial { lengths: lengths.collect(), recipe, sources }
    }

    pub(super) fn reference(&self, start: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.recipe.apply(self, &self.lengths, start, &mut bytes)?;
        Ok(bytes)
    }
}

/// Numbers of a base that a tensor may be computed from, together with others.
pub(super) struct Parent<'a> {
    pub(super) recipe: Recipe,
    pub(super) sources: Vec<Source<'a>>,
    /// The cosine between the two, by a sample.
    pub(super) likeness: f64,
}

impl<'a> Parent<'a> {
    /// `None` for what has not as many numbers as the tensor, or others.
    pub(super) fn new(
        base: &'a Reader,
        origin: &Origin,
        to: Number,
        bytes: &[u8],
    ) -> Result<Option<Parent<'a>>> {
        let Some(sources) = sources(base, origin) else { return Ok(None) };
        let mut parent = Parent { recipe: origin.recipe.clone(), sources, likeness: 0.0 };
        let count = bytes.len() / to.width();
        let lengths = Trial::new(Recipe::operand(0, Number::U8), parent.sources.clone()).lengths;
        if parent.recipe.length(&lengths).ok() != Some((count * origin.number.width()) as u64) {
            return Ok(None);
        }
        let compared = count.min(COMPARED);
        let first = (count - compared) / 2;
        let ours = floats(to, &bytes[first * to.width()..(first + compared) * to.width()])?;
        let theirs = parent.floats(first, compared)?;
        let product = |one: &[f32], other: &[f32]| -> f64 {
            one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
        };
        let squares = product(&ours, &ours) * product(&theirs, &theirs);
        parent.likeness = product(&ours, &theirs) / squares.sqrt();
        Ok((parent.likeness > LIKE).then_some(parent))
    }

    /// Some of its numbers.
    pub(super) fn floats(&self, first: usize, count: usize) -> Result<Vec<f32>> {
        let trial =
            Trial::new(self.recipe.clone().cast(Number::F32, Rounding::Nearest), self.sources.clone());
        let bytes = trial.reference(4 * first as u64, 4 * count)?;
        Ok(bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect())
    }
}

/// Numbers as f32.
pub(super) fn floats(number: Number, bytes: &[u8]) -> Result<Vec<f32>> {
    let mut out = vec![0; bytes.len() / number.width() * 4];
    let recipe = Recipe::operand(0, number).cast(Number::F32, Rounding::Nearest);
    recipe.apply(&&[bytes][..], &[bytes.len() as u64], 0, &mut out)?;
    Ok(out.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect())
}

/// The tensors of a base that numbers come from.
pub(super) fn sources<'a>(base: &'a Reader, origin: &Origin) -> Option<Vec<Source<'a>>> {
    let source = |tensor: &BaseTensor| {
        let length = base.object(&tensor.name).ok()?.component(&tensor.role)?.length;
        Some(Source::Base(base, tensor.clone(), length))
    };
    origin.tensors.iter().map(source).collect()
}

impl Operands for Trial<'_> {
    fn read(&self, number: usize, start: u64, out: &mut [u8]) -> Result<()> {
        match self.sources.get(number) {
            Some(Source::Base(reader, tensor, _)) => {
                reader.component_range_into(&tensor.name, &tensor.role, start, out)
            }
            _ => {
                let part = self.lent(number).and_then(|bytes| bytes.get(start as usize..)?.get(..out.len()));
                out.copy_from_slice(part.ok_or_else(|| Error::truncated("an operand is too short"))?);
                Ok(())
            }
        }
    }

    fn lent(&self, number: usize) -> Option<&[u8]> {
        match self.sources.get(number)? {
            Source::Base(reader, tensor, _) => {
                let view = reader.component_view(&tensor.name, &tensor.role).ok()??;
                view.strides.is_none().then_some(view.bytes)
            }
            Source::Run(_, bytes) => Some(bytes),
            Source::Field(_, _, bytes) => Some(bytes),
        }
    }
}
