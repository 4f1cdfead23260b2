//! Scales as contexts: symbols that are coded as they are, with a frequency table for each of a few expected
//! magnitudes. This is for elements whose distribution has another form at every scale, so that they cannot
//! be coded relative to what is expected of them.

use crate::arch;
use crate::entropy::plane;
use crate::entropy::rans::Tables;
use crate::entropy::table::{FrequencyTable, Histogram, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_signed};
use crate::threads;
use crate::transform::float::scale::Scales;
use crate::transform::float::{FLOAT_CHUNK, ROW_WITHOUT_SHAPE};

/// The most contexts.
pub(crate) const MOST_SCALE_CONTEXTS: usize = 16;
/// About how many elements scales are compared on, and the stride at which these are looked at to choose the
/// window: an odd number, which does not stay in a few columns. Round numbers.
const COMPARED_ELEMENTS: usize = 1 << 14;
const WINDOW_STRIDE: usize = 5;
/// About how many bits a frequency takes in a table's description.
const FREQUENCY_BITS: u64 = 6;

/// What scales are looked for in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScaledSymbols<'a> {
    pub symbols: &'a [u8],
    /// For each symbol a number whose mean tells rows and columns apart, such as the logarithm of the
    /// element's magnitude.
    pub keys: &'a [u8],
    pub row_length: Option<usize>,
    /// Units of keys that a context spans: the one to begin with, and others.
    pub steps: [i64; 3],
    /// The most contexts, a power of two.
    pub most: usize,
}

impl ScaledSymbols<'_> {
    /// The scales that make the symbols cheapest: none, those of rows, of columns or of both.
    pub fn choose(&self) -> Candidate {
        let elements = self.symbols.len();
        let with_columns = self.row_length.is_some_and(|length| length > 1 && elements / length > 1);
        let row_length =
            self.row_length.filter(|&length| length < elements).unwrap_or(ROW_WITHOUT_SHAPE).max(1);
        let means = Means::measure(self.keys, row_length, with_columns);
        let candidate = |step: i64, (rows, columns): (bool, bool)| {
            let scales = means.scales(step, row_length, rows, columns);
            (Candidate::new(scales, self.symbols, self.most), (rows, columns))
        };
        let cheaper = |best: (Candidate, (bool, bool)), other: (Candidate, (bool, bool))| {
            if other.0.cost < best.0.cost { other } else { best }
        };
        let [usual, others @ ..] = self.steps;
        let parts = [(true, false), (false, true), (true, true)].into_iter();
        let parts = parts.filter(|&(_, columns)| with_columns || !columns);
        let parts = parts.map(|parts| candidate(usual, parts));
        let (mut best, parts) = parts.fold(candidate(usual, (false, false)), cheaper);
        if parts != (false, false) {
            (best, _) = others.map(|step| candidate(step, parts)).into_iter().fold((best, parts), cheaper);
        }
        best
    }
}

impl Candidate {
    /// How often each symbol occurs in each context, counted in parts of so many symbols.
    pub fn count(&self, symbols: &[u8], part: usize) -> SymbolHistograms {
        let counts = threads::map(symbols.chunks(part).enumerate(), |(index, symbols)| {
            let pieces = symbols.chunks(FLOAT_CHUNK).enumerate();
            let pieces = pieces.map(|(piece, symbols)| (index * part + piece * FLOAT_CHUNK, symbols));
            self.window.count(&self.scales, pieces)
        });
        let mut counts = counts.into_iter();
        let mut total = counts.next().unwrap_or_else(empty_counts);
        for more in counts {
            total.iter_mut().flatten().zip(more.iter().flatten()).for_each(|(sum, count)| *sum += count);
        }
        total
    }
}

/// The context of an expectation.
#[inline(always)]
pub(crate) fn context(expected: i16, first: i16, last: i16) -> i16 {
    expected.saturating_sub(first).clamp(0, last)
}

/// The scales of a section and the frequency tables of the contexts that follow from them, as models have
/// them.
#[derive(Debug)]
pub(crate) struct ScaleTables {
    pub scales: Scales,
    /// The expectation of the first context.
    pub first: i16,
    pub tables: Tables,
}

impl ScaleTables {
    /// The tables of contexts in this window.
    pub fn new(scales: Scales, window: ContextWindow, tables: Vec<FrequencyTable>) -> Result<Self> {
        Ok(Self { scales, first: window.first, tables: Tables::new(tables)? })
    }

    /// Reads what [`Self::write`] wrote for `2^bits` contexts of so many elements, which errors call `what`.
    pub fn read(reader: &mut Reader, bits: u8, precision: u32, elements: usize, what: &str) -> Result<Self> {
        let contexts = 1usize.checked_shl(bits.into()).filter(|&contexts| contexts <= MOST_SCALE_CONTEXTS);
        let contexts = contexts.ok_or_else(|| Error::corrupt(format!("too many contexts of {what}")))?;
        let scales = Scales::read(reader, elements)?;
        let first = i16::try_from(reader.signed()?);
        let first = first.map_err(|_| Error::corrupt("the first context's scale is out of range"))?;
        let tables = (0..contexts).map(|_| FrequencyTable::read_from(reader, precision));
        Ok(Self { scales, first, tables: Tables::new(tables.collect::<Result<_>>()?)? })
    }

    /// Appends the scales and the tables, of which there are `2^`[`Self::bits`].
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.scales.write(out)?;
        put_signed(out, i64::from(self.first));
        self.tables.frequencies().iter().for_each(|table| table.write(out));
        Ok(())
    }

    /// The logarithm of the number of contexts.
    pub fn bits(&self) -> u8 {
        self.tables.frequencies().len().trailing_zeros() as u8
    }

    /// Writes the contexts of the elements from `start` on.
    #[inline(always)]
    pub fn contexts(&self, start: usize, contexts: &mut [i16]) {
        fill_contexts(&self.scales, self.first, self.tables.frequencies().len(), start, contexts);
    }
}

/// Writes the contexts of the elements from `start` on, of which there are `count` kinds.
#[inline(always)]
fn fill_contexts(scales: &Scales, first: i16, count: usize, start: usize, contexts: &mut [i16]) {
    scales.fill(start, contexts);
    contexts.iter_mut().for_each(|to| *to = context(*to, first, count as i16 - 1));
}

/// The sums of the keys of rows and columns.
struct Means {
    rows: Vec<(u64, u64)>,
    columns: Vec<(u64, u64)>,
}

impl Means {
    fn measure(keys: &[u8], row_length: usize, want_columns: bool) -> Self {
        let mut sums = vec![0u64; if want_columns { row_length } else { 0 }];
        let mut rows = Vec::with_capacity(keys.len().div_ceil(row_length));
        arch::vectorised(
            #[inline(always)]
            || {
                for row in keys.chunks(row_length) {
                    let sum = row.iter().map(|&key| u64::from(key)).sum::<u64>();
                    rows.push((sum, row.len() as u64));
                    sums.iter_mut().zip(row).for_each(|(sum, &key)| *sum += u64::from(key));
                }
            },
        );
        let (whole, rest) = (keys.len() / row_length, keys.len() % row_length);
        let count = |column: usize| (whole + usize::from(column < rest)) as u64;
        let columns = sums.into_iter().enumerate().map(|(column, sum)| (sum, count(column))).collect();
        Self { rows, columns }
    }

    /// The scales of rows and columns, as asked, in steps of so many units.
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
#[derive(Debug)]
pub(crate) struct Candidate {
    pub scales: Scales,
    pub window: ContextWindow,
    /// Bits of all elements, with tables and scales.
    pub cost: u64,
}

impl Candidate {
    fn new(scales: Scales, symbols: &[u8], most: usize) -> Self {
        let pieces = symbols.len().div_ceil(FLOAT_CHUNK);
        let stride = pieces.div_ceil(COMPARED_ELEMENTS / FLOAT_CHUNK).max(1);
        let sample = || {
            symbols.chunks(FLOAT_CHUNK).enumerate().step_by(stride).map(|(at, part)| (at * FLOAT_CHUNK, part))
        };
        let window = ContextWindow::choose(&scales, most, sample().map(|(start, part)| (start, part.len())));
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

pub(crate) type SymbolHistograms = Box<[Histogram; MOST_SCALE_CONTEXTS]>;

fn empty_counts() -> SymbolHistograms {
    Box::new([[0; SYMBOLS]; MOST_SCALE_CONTEXTS])
}

/// Which expectations have contexts of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextWindow {
    pub first: i16,
    pub contexts: usize,
}

impl ContextWindow {
    /// The window with most of a sample, of which the first elements and their numbers are given.
    fn choose(scales: &Scales, most: usize, sample: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut counts = vec![0u32; 1 << 11];
        let last = counts.len() as i16 - 1;
        let mut expected = [0; FLOAT_CHUNK];
        for (start, length) in sample {
            let expected = &mut expected[..length];
            arch::vectorised(
                #[inline(always)]
                || scales.fill(start, expected),
            );
            // Expectations are few: symbols are bytes, and so are the offsets of rows and columns.
            let some = expected.iter().step_by(WINDOW_STRIDE);
            some.for_each(|&expected| counts[context(expected, -512, last) as usize] += 1);
        }
        let lowest = counts.iter().position(|&count| count > 0).unwrap_or(0);
        let highest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let first = |place: usize| place as i16 - 512;
        if highest - lowest < most {
            return Self { first: first(lowest), contexts: (highest - lowest + 1).next_power_of_two() };
        }
        let inside =
            |place: usize| counts[place..place + most].iter().map(|&count| u64::from(count)).sum::<u64>();
        let place = (lowest..=highest + 1 - most).max_by_key(|&place| inside(place)).unwrap_or(lowest);
        Self { first: first(place), contexts: most }
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
                || fill_contexts(scales, self.first, self.contexts, start, expected),
            );
            for (&context, &symbol) in expected.iter().zip(symbols) {
                counts[context as usize & (MOST_SCALE_CONTEXTS - 1)][usize::from(symbol)] += 1;
            }
        }
        counts
    }
}
