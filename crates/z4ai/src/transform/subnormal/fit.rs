//! Chooses what a section shares. Zeros count here: how many there are is what tells rows and columns of the
//! smallest numbers apart.

use super::element::MEANINGS;
use super::model::{SUBNORMAL_PRECISION, SubnormalModel, SubnormalSigns, fill_symbols};
use crate::arch;
use crate::entropy::table::{FrequencyTable, Histogram};
use crate::error::Result;
use crate::threads;
use crate::transform::scale_contexts::{Candidate, MOST_SCALE_CONTEXTS, ScaleTables, ScaledSymbols};

/// Quarters of an octave that a context may span, in the order in which they are tried.
const STEPS: [i64; 3] = [2, 1, 4];

impl SubnormalModel {
    /// Makes the model for a section: `bytes` are whole elements, in rows of `row_length` if that is known.
    pub fn fit(bytes: &[u8], row_length: Option<usize>, block: usize) -> Result<Self> {
        let parts = threads::map(bytes.chunks(block), |part| {
            let mut symbols = vec![0; part.len() / 2];
            arch::vectorised(
                #[inline(always)]
                || fill_symbols(part, &mut symbols),
            );
            symbols
        });
        let symbols = parts.concat();
        // Symbols are logarithms: quarters of an octave, about.
        let all = ScaledSymbols {
            symbols: &symbols,
            keys: &symbols,
            row_length,
            steps: STEPS,
            most: MOST_SCALE_CONTEXTS,
        };
        let best = all.choose();
        let total = best.count(&symbols, block);
        let Candidate { scales, window, .. } = best;
        let tables = total[..window.contexts].iter().map(table).collect();
        Ok(Self { signs: signs(bytes), contexts: ScaleTables::new(scales, window, tables)? })
    }
}

/// A table with these counts. Two symbols at least have a frequency, and both must be symbols that floats
/// have.
fn table(counts: &Histogram) -> FrequencyTable {
    let mut counts = *counts;
    let spare = MEANINGS.iter().enumerate().filter(|(_, meaning)| meaning.occurs).map(|(symbol, _)| symbol);
    for symbol in spare {
        if counts.iter().filter(|&&count| count > 0).count() >= 2 {
            break;
        }
        counts[symbol] = counts[symbol].max(1);
    }
    FrequencyTable::normalise(&counts, SUBNORMAL_PRECISION)
}

/// The sign that all elements have, if they have the same.
fn signs(bytes: &[u8]) -> SubnormalSigns {
    let (elements, _) = bytes.as_chunks::<2>();
    let (any, all) =
        elements.iter().fold((0, 0x80), |(any, all), element| (any | element[1], all & element[1]));
    match (any & 0x80, all) {
        (0, _) => SubnormalSigns::Positive,
        (_, 0) => SubnormalSigns::Verbatim,
        _ => SubnormalSigns::Negative,
    }
}
