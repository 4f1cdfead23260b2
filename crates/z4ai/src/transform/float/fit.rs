//! Chooses what a section of floats shares: the scales of rows and columns, the tables or the shape that they
//! follow from, and the signs.

use super::encode::{ExponentParts, SymbolScratch};
use super::model::{FLOAT_CONTEXTS, FloatModel, shape_tables};
use super::period::find_row_length;
use super::scale::{Scales, Sums};
use super::shape::Shape;
use super::signs::Signs;
use super::tails::Tails;
use super::{EXPONENT_PARTS, FLOAT_CHUNK, JOINT_BITS};
use crate::arch;
use crate::dtype::FloatLayout;
use crate::entropy::plane;
use crate::entropy::rans::Tables;
use crate::entropy::table::{FrequencyTable, Histogram, MAX_PRECISION, SYMBOLS, entropy_bits};
use crate::error::Result;
use crate::options::Effort;
use crate::threads;

/// Elements looked at when choosing between scales. Weights: half +0.043 %, double -0.004 %; unshaped: half
/// +0.29 %.
const COMPARED_FOR_SCALES: usize = 1 << 13;
/// Elements per row when the shape is unknown: short enough to follow the scale from tensor to tensor in a
/// concatenation. Unshaped: half -0.17 % (with twice the scales to fit and to look up), double +0.11 %.
pub(crate) const ROW_WITHOUT_SHAPE: usize = 1024;
/// Elements whose symbols are counted, about, in sections with many more: what tables of these lose is not
/// worth a look at all the others. In shorter sections it is one in [`THINNED`], but not fewer than
/// [`FEWEST_COUNTED`]. Weights: half and double of the first two change at most 0.003 %, half of the fewest
/// +0.038 %, double -0.005 %.
const COUNTED: usize = 1 << 18;
const THINNED: usize = 4;
const FEWEST_COUNTED: usize = 1 << 16;

/// Elements that are counted together then, short so that they come from everywhere. Weights: half and double
/// change about 0.001 %.
const COUNTED_PIECE: usize = 64;

/// Symbols, of all contexts together, that may then have gone unmet. Weights: half or double changes no size.
const UNMET: usize = 64;

/// The most elements of a section whose tables may follow from a shape; tables of their own cost larger ones
/// next to nothing. Weights: half +0.007 %, double +0.70 %: larger tensors differ from every shape by more
/// than their tables take.
const SHAPED: usize = 1 << 17;

/// The precision of four tables that are to be decoded quickly: with another bit they would not fit the
/// first-level cache.
const QUICK_PRECISION: u32 = MAX_PRECISION - 1;

/// Elements of the shortest kernel whose scale may be worth a byte, and elements and kernels on which that is
/// tried. crepe, whose kernels have 64: -0.5 % in bf16.
const SHORTEST_KERNEL: usize = 16;
const KERNEL_TRIAL: usize = 1 << 14;
const FEWEST_KERNELS: usize = 8;
/// Rows that what is tried may be from for kernels to be preferred to rows without comparing them, except at
/// maximum effort. Recorded sets: no size changes, and compressing crepe takes 8 % fewer instructions.
const FEW_ROWS: usize = 4;

/// Histograms of one section's symbols, and the signs seen.
#[derive(Debug, Clone)]
pub(super) struct SymbolCounts {
    pub histograms: [Histogram; FLOAT_CONTEXTS],
    pub negative: u64,
    pub positive: u64,
}

impl Default for SymbolCounts {
    fn default() -> Self {
        Self { histograms: [[0; SYMBOLS]; FLOAT_CONTEXTS], negative: 0, positive: 0 }
    }
}

impl SymbolCounts {
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.histograms.iter_mut().flatten().zip(other.histograms.iter().flatten()) {
            *mine += theirs;
        }
        self.negative += other.negative;
        self.positive += other.positive;
    }

    /// Makes counts of one in `stride` elements those of all, as far as can be told. What they have not met
    /// gets a count of one: symbols of `parts`, and escapes. `false` if that is too much, since room in the
    /// tables that nothing uses costs everything else.
    fn extrapolate(&mut self, stride: usize, parts: ExponentParts) -> bool {
        let parts = (parts.first as usize) << JOINT_BITS..(parts.last as usize + 1) << JOINT_BITS;
        let unmet =
            |histogram: &Histogram| histogram[parts.clone()].iter().filter(|&&count| count == 0).count();
        if self.histograms.iter().map(unmet).sum::<usize>() > UNMET {
            return false;
        }
        for histogram in &mut self.histograms {
            for symbol in (0..1 << JOINT_BITS).chain(parts.clone()) {
                histogram[symbol] = (histogram[symbol] * stride as u32).max(1);
            }
        }
        true
    }

    /// Counts the symbols of pieces of whole elements, no longer than a chunk, each with the number of its
    /// first element in the section.
    fn count<'a>(
        &mut self,
        layout: FloatLayout,
        scales: &Scales,
        pieces: impl Iterator<Item = (usize, &'a [u8])>,
    ) {
        // Neighbours are often equal; in one table each increment would depend on the store before it.
        let mut counts = [[0u32; FLOAT_CONTEXTS * SYMBOLS]; 4];
        SymbolScratch::with(|scratch| {
            for (start, piece) in pieces {
                arch::vectorised(
                    #[inline(always)]
                    || {
                        scratch.transform(layout, scales, piece, start);
                        let negative = scratch.negative();
                        self.negative += negative;
                        self.positive += (piece.len() / layout.width) as u64 - negative;
                    },
                );
                let (codes, last) = scratch.codes().as_chunks::<4>();
                let place = |code: u16| usize::from(code) & (FLOAT_CONTEXTS * SYMBOLS - 1);
                for codes in codes {
                    counts.iter_mut().zip(codes).for_each(|(counts, &code)| counts[place(code)] += 1);
                }
                last.iter().for_each(|&code| counts[0][place(code)] += 1);
            }
        });
        for counts in &counts {
            let sums = self.histograms.iter_mut().flatten();
            sums.zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    /// Turns the exponents at both ends that are too rare for a table's precision into escapes: a frequency
    /// of 1 for each of their symbols would overpay them at the cost of all others.
    fn escape_rare(&mut self, precision: u32) -> ExponentParts {
        let mut counts = [0u64; EXPONENT_PARTS as usize];
        for histogram in &self.histograms {
            for (count, symbols) in counts.iter_mut().zip(histogram.chunks_exact(1 << JOINT_BITS)) {
                *count += symbols.iter().map(|&count| u64::from(count)).sum::<u64>();
            }
        }
        let total: u64 = counts.iter().sum();
        // Worth it below a third of a frequency of 1 in each of the tables' symbols.
        let kept = |&part: &i16| (counts[part as usize] * 3) << (precision - 2) >= total.max(1);
        let all = ExponentParts::ALL.first..=ExponentParts::ALL.last;
        let first = all.clone().find(kept).unwrap_or(ExponentParts::ALL.first);
        let last = all.rev().find(kept).unwrap_or(ExponentParts::ALL.first);
        for histogram in &mut self.histograms {
            for symbol in (1 << JOINT_BITS)..SYMBOLS {
                let part = (symbol >> JOINT_BITS) as i16;
                if !(first..=last).contains(&part) {
                    histogram[symbol % (1 << JOINT_BITS)] += std::mem::take(&mut histogram[symbol]);
                }
            }
        }
        ExponentParts { first, last }
    }

    fn cost(&self) -> u64 {
        self.histograms.iter().map(|histogram| entropy_bits(histogram)).sum()
    }
}

impl FloatModel {
    /// Makes the model for a section: `bytes` are whole elements, in rows of `row_length` and kernels of
    /// `kernel_length` if these are known.
    pub fn fit(
        layout: FloatLayout,
        bytes: &[u8],
        row_length: Option<usize>,
        kernel_length: Option<usize>,
        effort: Effort,
        block: usize,
    ) -> Result<Self> {
        let row_length = row_length.or_else(|| find_row_length(layout, bytes));
        let kernels = kernel_length
            .filter(|&length| Some(length) != row_length && kernels_may_differ(layout, bytes, length));
        let of_kernels = kernels.map(|length| choose_scales(layout, bytes, Some(length)));
        // The kernels that were tried differ although they are of a few rows, whose scales would not do.
        let in_few_rows = row_length.is_some_and(|length| length >= KERNEL_TRIAL / FEW_ROWS);
        let scales = match of_kernels {
            Some(of_kernels) if in_few_rows && effort != Effort::Max => of_kernels,
            Some(of_kernels) => {
                let of_rows = choose_scales(layout, bytes, row_length);
                let is_less = cost_with(&of_kernels, layout, bytes) < cost_with(&of_rows, layout, bytes);
                if is_less { of_kernels } else { of_rows }
            }
            None => choose_scales(layout, bytes, row_length),
        };
        Self::fit_scales(layout, bytes, scales, row_length, effort, block)
    }

    /// Makes the model for elements without any order: one scale for all.
    pub fn fit_flat(layout: FloatLayout, bytes: &[u8], block: usize) -> Result<Self> {
        let scales = Sums::measure(layout, bytes, ROW_WITHOUT_SHAPE, false).scales(layout, 0);
        let scales = scales.with_parts(false, false);
        Self::fit_scales(layout, bytes, scales, None, Effort::Default, block)
    }

    fn fit_scales(
        layout: FloatLayout,
        bytes: &[u8],
        scales: Scales,
        row_length: Option<usize>,
        effort: Effort,
        block: usize,
    ) -> Result<Self> {
        let elements = bytes.len() / layout.width;
        let thinned = (elements / FEWEST_COUNTED).clamp(1, THINNED);
        let stride = if effort == Effort::Max { 1 } else { thinned.max(elements / COUNTED) };
        let mut counts = count_blocks(layout, &scales, bytes, block, stride);
        let precision = if effort == Effort::Max { MAX_PRECISION } else { QUICK_PRECISION };
        let shaped = (elements <= SHAPED).then(|| Shape::fit_quickly(&counts.histograms));
        let mut parts = counts.escape_rare(precision);
        // Four times as many say enough most of the time.
        for (stride, denser) in [(stride, stride / 4), (stride / 4, 1)] {
            if stride > 1 && !counts.extrapolate(stride, parts) {
                counts = count_blocks(layout, &scales, bytes, block, denser.max(1));
                parts = counts.escape_rare(precision);
            } else {
                break;
            }
        }
        let mut signs = if counts.negative == 0 || counts.positive == 0 {
            constant_sign(layout, bytes).map_or(Signs::Verbatim, Signs::Constant)
        } else {
            Signs::Verbatim
        };
        if let Signs::Verbatim = signs {
            let counts = [counts.negative, counts.positive];
            signs = Signs::fit_coded(layout, bytes, counts)?.unwrap_or(Signs::Verbatim);
        }
        let (tables, cost) = choose_tables(&counts, precision);
        let tails = Tails::fit(layout, bytes, row_length)?;
        let model = Self::new(layout, scales, signs, tables, None, tails)?;
        if let Some((shape, rate, shape_cost)) = shaped
            && shape_cost < cost
        {
            // Some of the elements may have had no escapes where the others have, which need a frequency.
            let rate = if stride > 1 && !rate.has_escapes() {
                let all = count_blocks(layout, &model.scales, bytes, block, 1);
                shape.escape_rate(&all.histograms)
            } else {
                rate
            };
            let tables = Tables::new(shape_tables(shape, rate))?;
            return Ok(Self { parts: shape.parts(), tables, shape: Some((shape, rate)), ..model });
        }
        Ok(Self { parts, ..model })
    }
}

/// The symbols of one in `stride` pieces of a section.
fn count_blocks(
    layout: FloatLayout,
    scales: &Scales,
    bytes: &[u8],
    block: usize,
    stride: usize,
) -> Box<SymbolCounts> {
    let piece = if stride == 1 { FLOAT_CHUNK } else { COUNTED_PIECE };
    let blocks = threads::map(bytes.chunks(block).enumerate(), |(index, part)| {
        let start = index * block / layout.width;
        let pieces = part.chunks(piece * layout.width).enumerate();
        let pieces = pieces.map(|(index, bytes)| (start + index * piece, bytes));
        let pieces = pieces.filter(|(start, _)| (start / piece).is_multiple_of(stride));
        let mut counts = Box::<SymbolCounts>::default();
        counts.count(layout, scales, pieces);
        counts
    });
    let mut blocks = blocks.into_iter();
    let mut counts = blocks.next().unwrap_or_default();
    blocks.for_each(|more| counts.add(&more));
    counts
}

/// The sign that all elements have, if they have the same: `true` is negative.
fn constant_sign(layout: FloatLayout, bytes: &[u8]) -> Option<bool> {
    let mut signs = bytes.chunks_exact(layout.width).map(|element| element[layout.width - 1] >> 7 == 1);
    let first = signs.next()?;
    signs.all(|sign| sign == first).then_some(first)
}

/// The cheapest of: one scale for all, per row, per column, and both; judged on a sample.
pub(crate) fn choose_scales(layout: FloatLayout, bytes: &[u8], row_length: Option<usize>) -> Scales {
    let mut candidates = scale_candidates(layout, bytes, row_length);
    if candidates.len() == 1 {
        return candidates.pop().unwrap_or_default();
    }
    let chosen = candidates.into_iter().min_by_key(|scales| cost_with(scales, layout, bytes));
    chosen.unwrap_or_default()
}

/// The bits that symbols cost with the scales that would be chosen for rows of this length.
pub(super) fn least_cost(layout: FloatLayout, bytes: &[u8], row_length: Option<usize>) -> Option<u64> {
    let candidates = scale_candidates(layout, bytes, row_length);
    candidates.iter().map(|scales| cost_with(scales, layout, bytes)).min()
}

/// Whether the scales of so many elements each may be worth storing: those of a convolution's kernels, if
/// these are long.
fn kernels_may_differ(layout: FloatLayout, bytes: &[u8], length: usize) -> bool {
    let elements = bytes.len() / layout.width;
    if length < SHORTEST_KERNEL || elements / length < 2 {
        return false;
    }
    let tried = (KERNEL_TRIAL / length).max(FEWEST_KERNELS) * length;
    let start = elements.saturating_sub(tried) / 2 / length * length;
    let bytes = &bytes[start * layout.width..(start + tried).min(elements) * layout.width];
    let one = Sums::measure(layout, bytes, length, false).scales(layout, length);
    let cost = |rows| cost_with(&one.with_parts(rows, false), layout, bytes);
    cost(true) < cost(false)
}

fn scale_candidates(layout: FloatLayout, bytes: &[u8], row_length: Option<usize>) -> Vec<Scales> {
    let elements = bytes.len() / layout.width;
    let with_columns = row_length.is_some_and(|length| length > 1 && elements / length > 1);
    let row_length = row_length.filter(|&length| length < elements).unwrap_or(ROW_WITHOUT_SHAPE).max(1);
    let sums = Sums::measure(layout, bytes, row_length, with_columns);
    let scales = sums.scales(layout, row_length);
    let candidates = [(false, false), (true, false), (false, true), (true, true)];
    let mut candidates: Vec<Scales> = candidates
        .into_iter()
        .filter(|&(_, columns)| with_columns || !columns)
        .map(|(rows, columns)| scales.with_parts(rows, columns))
        .collect();
    candidates.dedup();
    candidates
}

/// The bits that the scales and the symbols of all elements cost, from a sample of these.
fn cost_with(scales: &Scales, layout: FloatLayout, bytes: &[u8]) -> u64 {
    let elements = bytes.len() / layout.width;
    let pieces = (elements / FLOAT_CHUNK).max(1);
    let stride = pieces.div_ceil(COMPARED_FOR_SCALES / FLOAT_CHUNK);
    let mut sampled = 0u64;
    let mut counts = SymbolCounts::default();
    let sample = (0..pieces).step_by(stride).map(|piece| {
        let start = piece * FLOAT_CHUNK;
        let chunk = &bytes[start * layout.width..elements.min(start + FLOAT_CHUNK) * layout.width];
        sampled += (chunk.len() / layout.width) as u64;
        (start, chunk)
    });
    counts.count(layout, scales, sample);
    let side = [&scales.rows, &scales.columns].map(|offsets| {
        let bytes: &[u8] = bytemuck::cast_slice(offsets);
        entropy_bits(&plane::histogram(bytes.iter().copied()))
    });
    (counts.cost() as u128 * elements as u128 / u128::from(sampled.max(1))) as u64 + side[0] + side[1]
}

/// Four tables of this precision, or one when four do not pay for their own description, and the bits that
/// they and what they code take.
fn choose_tables(counts: &SymbolCounts, precision: u32) -> (Vec<FrequencyTable>, u64) {
    let mut merged = [0u32; SYMBOLS];
    for histogram in &counts.histograms {
        merged.iter_mut().zip(histogram).for_each(|(sum, count)| *sum += count);
    }
    let one = vec![FrequencyTable::normalise(&merged, MAX_PRECISION)];
    let four = counts.histograms.iter().map(|histogram| FrequencyTable::normalise(histogram, precision));
    let four: Vec<_> = four.collect();
    let side = |tables: &[FrequencyTable]| {
        let mut out = Vec::new();
        tables.iter().for_each(|table| table.write(&mut out));
        8 * out.len() as u64
    };
    let escapes = 8 * merged[..1 << JOINT_BITS].iter().map(|&count| u64::from(count)).sum::<u64>();
    let costs = (counts.cost() + side(&four) + escapes, entropy_bits(&merged) + side(&one) + escapes);
    if costs.0 < costs.1 { (four, costs.0) } else { (one, costs.1) }
}
