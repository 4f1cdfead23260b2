//! Chooses how a section learns and which tables it gets.

use super::learner::SYMBOL_CONTEXTS;
use super::model::{AdaptiveModel, TensorGeometry};
use super::search::best_learning;
use super::survey::Survey;
use super::symbol_code::SymbolCode;
use crate::dtype::FloatLayout;
use crate::entropy::table::{Histogram, SYMBOLS};
use crate::error::Result;
use crate::threads;
use crate::transform::float::tails::Tails;

impl AdaptiveModel {
    /// Makes the model for a section of whole elements, one at least, in rows (if that is known) of filters,
    /// and the length that blocks should have: about `block` bytes.
    pub fn fit(
        layout: FloatLayout,
        bytes: &[u8],
        geometry: TensorGeometry,
        block: usize,
    ) -> Result<(Self, usize)> {
        let count = bytes.len() / layout.width;
        let mut heads = vec![0; count];
        layout.read_heads(bytes, &mut heads);
        let tails = Tails::fit(layout, bytes, geometry.row_length)?;
        let learning = best_learning(layout, &heads, geometry);
        let block = whole_rows(block / layout.width, learning.row_length);
        let surveys = threads::map(heads.chunks(block), |part| {
            let survey = Survey::new(layout, learning, part, true);
            let mut histograms: Vec<Histogram> = vec![[0; SYMBOLS]; SYMBOL_CONTEXTS];
            survey.count(&mut histograms);
            (histograms, survey.sign_bits())
        });
        let mut symbols: Vec<Histogram> = vec![[0; SYMBOLS]; SYMBOL_CONTEXTS];
        // The state of the coder at the end of each block.
        let mut sign_bits = heads.chunks(block).len() as u64 * 32;
        for (histograms, bits) in surveys {
            sign_bits += bits;
            symbols
                .iter_mut()
                .flatten()
                .zip(histograms.iter().flatten())
                .for_each(|(sum, more)| *sum += more);
        }
        let symbols = SymbolCode::fit(&symbols)?;
        let model = Self {
            layout,
            learning,
            symbols,
            signs: sign_bits < count as u64 - count as u64 / SIGN_GAIN,
            tails,
        };
        Ok((model, block * layout.width))
    }
}

/// As many elements in whole rows, if one fits.
fn whole_rows(elements: usize, row_length: usize) -> usize {
    if elements < row_length { elements.max(1) } else { elements - elements % row_length }
}

/// Coding signs must save one part in so many of their bits: it takes as long as everything else together. At
/// maximum effort: half +0.005 %, double -0.001 %.
const SIGN_GAIN: u64 = 128;
