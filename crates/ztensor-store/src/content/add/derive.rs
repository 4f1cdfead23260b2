//! Files that may have been computed from a checkpoint of the store: its quantised copies, casts of it. Each tensor is tried on samples and stored so where
//! that takes less than any other base.

use super::Builder;
use super::prepare::{Derived, Ingredient, Nearest, Trial};
use crate::content::cut::cut;
use crate::content::parent::{Parent, Wanted, candidates};
use ztensor::archive::{Derivation, Operand, Original, Run, canonical_name, quantised_weights};
use ztensor::{Reader, Result};

/// Tensors by which checkpoints that a file may come from are found, and of these those that are tried.
const WANTED: usize = 16;
const TRIED: usize = 3;
/// A checkpoint is what a file was made from if the tried tensors take less than this share of what they take alone.
const RELATED: f64 = 0.9;
/// No other is looked for once they take less than this.
const SURE: f64 = 0.15;
/// Bytes that a computed piece takes in the manifest, besides its recipe.
const REFERENCE: usize = 120;
/// Shorter tensors say nothing of where a file comes from.
const SHORTEST: u64 = 2048;

/// Where the tensors of a file may come from.
pub(super) struct Ancestry<'a> {
    pub derivation: Derivation<'a>,
    pub parent: &'a Parent,
    /// Of each run of the file the tensor of this checkpoint that it is, if it was not cut.
    pub kin: Vec<Option<usize>>,
}

impl Builder<'_> {
    /// The checkpoint that a file was most likely made from; `None` where no tensor of it is explained by one.
    pub(super) fn parent(
        &self,
        reader: &Reader,
        original: &Original,
        runs: &[Run],
    ) -> Result<Option<Parent>> {
        // What ranks have are boxes of tensors, under names that no other checkpoint has.
        if self.options.deepest == 0 || self.lean {
            return Ok(None);
        }
        let mut order: Vec<usize> = (0..runs.len())
            .filter(|place| runs[*place].tensor.is_some() && runs[*place].length >= SHORTEST)
            .collect();
        order.sort_by_key(|place| (std::cmp::Reverse(runs[*place].length), *place));
        order.truncate(WANTED);
        let mut wanted = Vec::new();
        let mut quantised = quantised_weights(runs);
        for place in &order {
            let Some((name, _)) = &runs[*place].tensor else { continue };
            if let Some((name, elements)) = quantised.remove(place) {
                wanted.push(Wanted { name, elements, dtype: String::new() });
                continue;
            }
            let elements = reader.object(name)?.shape.elements().unwrap_or(0);
            let dtype = match runs[*place].blocks {
                Some(_) => String::new(),
                None => runs[*place].element.to_string(),
            };
            wanted.push(Wanted { name: canonical_name(name), elements, dtype });
        }
        let mut best: Option<(f64, Parent)> = None;
        for checkpoint in candidates(self.known, &self.options.base, &wanted) {
            let Some(parent) = Parent::open(self.protocol, self.known, checkpoint) else { continue };
            let derivation = Derivation::from_base(reader, original, runs, &parent.reader);
            let (mut shares, mut tried) = (0.0, 0);
            for place in order.iter().take(TRIED) {
                let Some(part) = cut(runs[*place].clone()).into_iter().next() else { continue };
                let bytes = original.bytes(part.offset, part.length)?;
                let codec = part.codec_options(&bytes, self.options.effort);
                shares += match derivation.search(*place, &part, &bytes, &codec)? {
                    Some(mut found) => found.share()?,
                    None => 1.0,
                };
                tried += 1;
            }
            let share = shares / f64::from(tried.max(1));
            if share < RELATED && best.as_ref().is_none_or(|(least, _)| share < *least) {
                best = Some((share, parent));
            }
            if share < SURE {
                break;
            }
        }
        Ok(best.map(|(_, parent)| parent))
    }

    /// Codes a piece against what a recipe makes of the file's parent, where that takes less than the nearest base does.
    pub(super) fn derive(
        &self,
        bytes: &[u8],
        run: &Run,
        ancestry: Option<(&Ancestry<'_>, usize)>,
        codec: &z4ai::Options,
        (trial, nearest): (&Trial<'_>, Option<Nearest<'_>>),
    ) -> Result<Option<Derived>> {
        let Some((ancestry, number)) = ancestry else { return Ok(None) };
        let Some(mut found) = ancestry.derivation.search(number, run, bytes, codec)? else { return Ok(None) };
        if let Some(nearest) = nearest
            && let Some(other) = self.try_nearest(trial, &nearest)?
            && found.share()? >= other as f64 / trial.alone()?.max(1) as f64
        {
            return Ok(None);
        }
        let alone = found.alone()?;
        let Some(computed) = found.compute(bytes)? else { return Ok(None) };
        let taken = computed.stored() + REFERENCE;
        // Samples say well enough what is half as long; the rest is weighed.
        if taken as u64 > alone / 2 && z4ai::compress(bytes, codec)?.len() <= taken {
            return Ok(None);
        }
        let mut operands = Vec::with_capacity(computed.operands.len());
        for operand in computed.operands {
            operands.push(match operand {
                Operand::Base(tensor) => match ancestry.parent.places(self.known, &tensor)? {
                    Some(places) => Ingredient::Stored(places.to_vec()),
                    None => return Ok(None),
                },
                Operand::Piece(piece) => match ancestry.kin.get(piece) {
                    Some(Some(part)) => Ingredient::Own(*part..*part + 1),
                    _ => return Ok(None),
                },
                Operand::Frame { length, frame } => Ingredient::Field { length, frame },
            });
        }
        Ok(Some(Derived { recipe: computed.recipe, operands, frame: computed.frame, alone }))
    }
}
