//! Chooses what a section shares, from counts of all its elements.

use super::classes::Classes;
use super::contexts::Contexts;
use super::counts::{Counts, View, top_exponent};
use super::decay::Decay;
use super::element::Word;
use super::model::ReferenceModel;
use super::{ElementFields, for_width};
use crate::entropy::plane::PlaneModel;
use crate::entropy::table::entropy_bits;
use crate::error::Result;
use crate::threads;

/// Elements counted by one thread at a time: its tables take up to 2 MiB, which must be added to the others'.
/// A round number.
const ELEMENTS_PER_TASK: usize = 1 << 21;

impl ReferenceModel {
    /// Makes the model for whole elements against as many, and estimates the bits that they will take.
    pub fn fit(fields: ElementFields, bytes: &[u8], reference: &[u8]) -> Result<(Self, u64)> {
        let (view, levels, counts) = for_width!(fields, measure, fields, bytes, reference);
        let (contexts, symbol_bits) = Contexts::choose(&counts)?;
        let classes = PlaneModel::choose(&counts.classes, 0)?;
        let bits = symbol_bits + counts.raw_bits + entropy_bits(&counts.classes);
        Ok((Self { view, levels, contexts, classes }, bits))
    }
}

fn measure<W: Word>(fields: ElementFields, bytes: &[u8], reference: &[u8]) -> (View, Classes, Counts) {
    let view = View {
        fields,
        decay: Decay::find::<W>(bytes, reference, fields),
        top_exponent: top_exponent::<W>(reference, fields),
    };
    let levels = Classes::choose::<W>(bytes, reference, view);
    let stretch = ELEMENTS_PER_TASK * W::BYTES;
    let stretches = bytes.chunks(stretch).zip(reference.chunks(stretch));
    let counts =
        threads::map(stretches, |(bytes, reference)| Counts::of::<W>(bytes, reference, view, &levels));
    let total = counts.into_iter().reduce(|total, counts| total.merge(counts));
    (view, levels, total.unwrap_or_default())
}
