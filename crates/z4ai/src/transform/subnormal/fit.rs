//! Chooses what a section shares. Zeros count here: how many there are is what tells rows and columns of the
//! smallest numbers apart.

use super::element::MEANINGS;
use super::model::{
    MOST_SUBNORMAL_CONTEXTS, SUBNORMAL_PRECISION, SubnormalModel, SubnormalSigns, context, fill_symbols,
};
use crate::arch;
use crate::entropy::plane;
use crate::entropy::rans::Tables;
use crate::entropy::table::{FrequencyTable, Histogram, SYMBOLS, entropy_bits};
use crate::error::Result;
use crate::threads;
use crate::transform::float::scale::Scales;
use crate::transform::float::{FLOAT_CHUNK, ROW_WITHOUT_SHAPE};

/// Elements that scales are compared on, about.
const COMPARED_ELEMENTS: usize = 1 << 15;
/// Quarters of an octave that a context spans.
const USUAL_STEP: i64 = 2;
const OTHER_STEPS: [i64; 2] = [1, 4];
/// Bits that a frequency in a table takes, about.
const FREQUENCY_BITS: u64 = 6;

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
        let elements = symbols.len();
        let with_columns = row_length.is_some_and(|length| length > 1 && elements / length > 1);
        let row_length = row_length.filter(|&length| length < elements).unwrap_or(ROW_WITHOUT_SHAPE).max(1);
        let means = Means::measure(&symbols, row_length, with_columns);
        let candidate = |step: i64, (rows, columns): (bool, bool)| {
            let scales = means.scales(step, row_length, rows, columns);
            (Candidate::new(scales, &symbols), (rows, columns))
        };
        let cheaper = |best: (Candidate, (bool, bool)), other: (Candidate, (bool, bool))| {
            if other.0.cost < best.0.cost { other } else { best }
        };
        let parts = [(true, false), (false, true), (true, true)].into_iter();
        let parts = parts.filter(|&(_, columns)| with_columns || !columns);
        let parts = parts.map(|parts| candidate(USUAL_STEP, parts));
        let (mut best, parts) = parts.fold(candidate(USUAL_STEP, (false, false)), cheaper);
        if parts != (false, false) {
            (best, _) =
                OTHER_STEPS.map(|step| candidate(step, parts)).into_iter().fold((best, parts), cheaper);
        }
        let Candidate { scales, window, .. } = best;
        let counts = threads::map(symbols.chunks(block).enumerate(), |(index, part)| {
            let pieces = part.chunks(FLOAT_CHUNK).enumerate();
            let pieces = pieces.map(|(piece, symbols)| (index * block + piece * FLOAT_CHUNK, symbols));
            window.count(&scales, pieces)
        });
        let mut counts = counts.into_iter();
        let mut total = counts.next().unwrap_or_else(empty_counts);
        for more in counts {
            total.iter_mut().flatten().zip(more.iter().flatten()).for_each(|(sum, count)| *sum += count);
        }
        let tables = total[..window.contexts].iter().map(table).collect();
        Ok(Self { signs: signs(bytes), scales, first: window.first, tables: Tables::new(tables)? })
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

/// The sums of the symbols of rows and columns. Symbols are logarithms: quarters of an octave, about.
struct Means {
    rows: Vec<(u64, u64)>,
    columns: Vec<(u64, u64)>,
}

impl Means {
    fn measure(symbols: &[u8], row_length: usize, want_columns: bool) -> Self {
        let mut sums = vec![0u64; if want_columns { row_length } else { 0 }];
        let mut rows = Vec::with_capacity(symbols.len().div_ceil(row_length));
        arch::vectorised(
            #[inline(always)]
            || {
                for row in symbols.chunks(row_length) {
                    let sum = row.iter().map(|&symbol| u64::from(symbol)).sum::<u64>();
                    rows.push((sum, row.len() as u64));
                    sums.iter_mut().zip(row).for_each(|(sum, &symbol)| *sum += u64::from(symbol));
                }
            },
        );
        let (whole, rest) = (symbols.len() / row_length, symbols.len() % row_length);
        let count = |column: usize| (whole + usize::from(column < rest)) as u64;
        let columns = sums.into_iter().enumerate().map(|(column, sum)| (sum, count(column))).collect();
        Self { rows, columns }
    }

    /// The scales of rows and columns, as asked, in steps of so many quarters of an octave.
    fn scales(&self, step: i64, row_length: usize, with_rows: bool, with_columns: bool) -> Scales {
        let (sum, count) = self.rows.iter().fold((0, 0), |(s, c), row| (s + row.0, c + row.1));
        let mean = mean_16((sum, count));
        let rounded = |value: i64| (value + 8 * step).div_euclid(16 * step);
        let offset = |&row: &(u64, u64)| rounded(mean_16(row) - mean).clamp(-127, 127) as i8;
        let offsets = |wanted: bool, sums: &[(u64, u64)]| -> Vec<i8> {
            if wanted { sums.iter().map(offset).collect() } else { Vec::new() }
        };
        let (rows, columns) = (offsets(with_rows, &self.rows), offsets(with_columns, &self.columns));
        let mut scales = Scales { base: rounded(mean) as i16, row_length, rows, columns };
        scales.drop_zeros();
        scales
    }
}

/// 16 times the mean, so that rounding to a step sees the fraction.
fn mean_16((sum, count): (u64, u64)) -> i64 {
    (16 * sum / count.max(1)) as i64
}

/// Scales, and what they make elements cost.
struct Candidate {
    scales: Scales,
    window: ContextWindow,
    cost: u64,
}

impl Candidate {
    fn new(scales: Scales, symbols: &[u8]) -> Self {
        let pieces = symbols.len().div_ceil(FLOAT_CHUNK);
        let stride = pieces.div_ceil(COMPARED_ELEMENTS / FLOAT_CHUNK).max(1);
        let sample = || {
            symbols.chunks(FLOAT_CHUNK).enumerate().step_by(stride).map(|(at, part)| (at * FLOAT_CHUNK, part))
        };
        let window = ContextWindow::choose(&scales, sample().map(|(start, part)| (start, part.len())));
        let counts = window.count(&scales, sample());
        let sampled: usize = sample().map(|(_, part)| part.len()).sum();
        let coded: u64 = counts.iter().map(|counts| entropy_bits(counts)).sum();
        let frequencies = counts.iter().flatten().filter(|&&count| count > 0).count() as u64;
        let side = [&scales.rows, &scales.columns].map(|offsets| {
            let bytes: &[u8] = bytemuck::cast_slice(offsets);
            entropy_bits(&plane::histogram(bytes.iter().copied()))
        });
        let coded = u128::from(coded) * symbols.len() as u128 / sampled.max(1) as u128;
        let cost = coded as u64 + FREQUENCY_BITS * frequencies + side[0] + side[1];
        Self { scales, window, cost }
    }
}

type SymbolHistograms = Box<[Histogram; MOST_SUBNORMAL_CONTEXTS]>;

fn empty_counts() -> SymbolHistograms {
    Box::new([[0; SYMBOLS]; MOST_SUBNORMAL_CONTEXTS])
}

/// Which expectations have contexts of their own.
#[derive(Debug, Clone, Copy)]
struct ContextWindow {
    first: i16,
    contexts: usize,
}

impl ContextWindow {
    /// The window with most of a sample, of which the first elements and their numbers are given.
    fn choose(scales: &Scales, sample: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut counts = vec![0u32; 1 << 11];
        let last = counts.len() as i16 - 1;
        let mut expected = [0; FLOAT_CHUNK];
        for (start, length) in sample {
            let expected = &mut expected[..length];
            arch::vectorised(
                #[inline(always)]
                || scales.fill(start, expected),
            );
            // There are no more than so many: symbols are bytes, and so are the offsets of rows and columns.
            expected.iter().for_each(|&expected| counts[context(expected, -512, last) as usize] += 1);
        }
        let lowest = counts.iter().position(|&count| count > 0).unwrap_or(0);
        let highest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let first = |place: usize| place as i16 - 512;
        if highest - lowest < MOST_SUBNORMAL_CONTEXTS {
            return Self { first: first(lowest), contexts: (highest - lowest + 1).next_power_of_two() };
        }
        let inside = |place: usize| {
            counts[place..place + MOST_SUBNORMAL_CONTEXTS].iter().map(|&count| u64::from(count)).sum::<u64>()
        };
        let most = (lowest..=highest + 1 - MOST_SUBNORMAL_CONTEXTS)
            .max_by_key(|&place| inside(place))
            .unwrap_or(lowest);
        Self { first: first(most), contexts: MOST_SUBNORMAL_CONTEXTS }
    }

    /// How often each symbol occurs in each context, in pieces that are no longer than a chunk and have the
    /// number of their first element.
    fn count<'s>(self, scales: &Scales, pieces: impl Iterator<Item = (usize, &'s [u8])>) -> SymbolHistograms {
        let mut counts = empty_counts();
        let mut expected = [0; FLOAT_CHUNK];
        for (start, symbols) in pieces {
            let expected = &mut expected[..symbols.len()];
            arch::vectorised(
                #[inline(always)]
                || {
                    scales.fill(start, expected);
                    let contexts = expected.iter_mut();
                    contexts.for_each(|to| *to = context(*to, self.first, self.contexts as i16 - 1));
                },
            );
            for (&context, &symbol) in expected.iter().zip(symbols) {
                counts[context as usize & (MOST_SUBNORMAL_CONTEXTS - 1)][usize::from(symbol)] += 1;
            }
        }
        counts
    }
}
