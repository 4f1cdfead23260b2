//! Finds the grid of a tensor, if it has one. A few short runs of elements refuse ordinary weights within
//! microseconds; only when most of them lie on a grid are group sizes compared, by the size that a sample of
//! rows would take.

use super::format::Format;
use super::groups::Rows;
use super::model::GridModel;
use super::sample::{RUN, SEARCHED_ELEMENTS_OF_GRID, SampledLines, runs_fit};
use super::scale_search::QuantisedGroup;
use super::scheme::Scheme;
use super::{supports, with_format};
use crate::dtype::Dtype;
use std::borrow::Cow;
use std::cell::OnceCell;

/// How a tensor's grid is looked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantisation {
    /// Elements per group; the row length for one group per row.
    pub(crate) group: usize,
    /// How elements follow from levels.
    pub(crate) scheme: Scheme,
    /// Levels that the largest element of a group may stand for, the most frequent first.
    pub(crate) largest: Vec<f64>,
    /// Estimated size in bits per element, with ideal entropy coding of the levels.
    pub(crate) bits_per_element: f64,
}

/// Largest group size that is tried besides the row length. Structured: half or double changes no size.
const LARGEST_GROUP: usize = 1 << 14;

/// Elements that a tensor needs for its grid to be worth looking for: in a shorter one, often a bias or a
/// norm, it would save less than finding it takes. Structured: half no gain, double +0.001 %.
const SMALLEST_GRID: usize = 1 << 9;

/// Looks for a grid in a tensor of rows of `row_length` elements. `None` for ordinary weights.
pub(crate) fn detect(elements: &[u8], dtype: Dtype, row_length: usize) -> Option<Quantisation> {
    let count = elements.len() / dtype.width();
    let row_length = if (RUN..=count).contains(&row_length) { row_length } else { count };
    if count < SMALLEST_GRID {
        return None;
    }
    with_format!(dtype, F => detect_lines::<F>(&SampledLines::rows(elements, row_length)), None)
}

/// Looks for a grid in the columns of a tensor of whole rows of `row_length` elements.
pub(super) fn detect_columns(elements: &[u8], dtype: Dtype, row_length: usize) -> Option<Quantisation> {
    if elements.len() / dtype.width() < SMALLEST_GRID {
        return None;
    }
    with_format!(dtype, F => detect_lines::<F>(&SampledLines::columns(elements, row_length)), None)
}

fn detect_lines<F: Format>(lines: &SampledLines<F>) -> Option<Quantisation> {
    let run = lines.run_length();
    let runs = lines.runs(run);
    let groups = runs.groups();
    let runs_repeat = OnceCell::new();
    let is_viable = |scheme: &Scheme| match *scheme {
        Scheme::Product(levels) => runs_fit::<F>(&groups, levels),
        Scheme::Offset(_) => *runs_repeat.get_or_init(|| lines.runs_repeat()),
    };
    let viable: Vec<Scheme> = Scheme::ALL.into_iter().filter(is_viable).collect();
    if viable.is_empty() {
        return None;
    }
    let rows = lines.gather();
    let mut best: Option<Quantisation> = None;
    for scheme in viable {
        // From the largest group down: groups that are parts of the true ones fit as well, but cost more
        // scales.
        for group in group_sizes(lines.length, run) {
            if best.as_ref().is_some_and(|best| best.scheme == scheme && group < best.group / 4) {
                break;
            }
            let Some(plan) = estimate::<F>(&rows, group, scheme) else { continue };
            // Plain integers are the fastest to decode, so the others must be better by a margin. Floats with
            // more bits can do what those with fewer can, but reach less far than they.
            let limit = best.as_ref().map_or(f64::INFINITY, |best| {
                let margin = match scheme {
                    _ if best.scheme == scheme || scheme.is_mirrored() => 1.0,
                    _ if scheme.minifloat().is_some() => 1.02,
                    _ => 1.1,
                };
                best.bits_per_element / margin
            });
            if plan.bits_per_element < limit {
                best = Some(plan);
            }
        }
    }
    best
}

/// Group sizes worth a try in rows of this length: the row, and small multiples of powers of two, but nothing
/// shorter than a run.
fn group_sizes(row_length: usize, run: usize) -> Vec<usize> {
    let multiples = [1, 3, 5, 7]
        .into_iter()
        .flat_map(|odd| (0..).map(move |shift| odd << shift).take_while(|&size| size <= LARGEST_GROUP));
    let mut sizes: Vec<usize> =
        multiples.filter(|&size| size >= run && size < row_length).chain([row_length]).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// The plan for one group size, if most groups of the sample lie on the grid.
fn estimate<F: Format>(rows: &[Cow<[u8]>], group_size: usize, scheme: Scheme) -> Option<Quantisation> {
    let all_largest = scheme.largest();
    let mut found = vec![0_u32; all_largest.len()];
    let mut histogram = [0_u32; 256];
    let mut numbers = Vec::new();
    let (mut scale_bits, mut raw, mut seen, mut total) = (0_u64, 0, 0, 0);
    let mut scales = Vec::new();
    for row in rows {
        let row = &row[..row.len().min(2 * SEARCHED_ELEMENTS_OF_GRID.max(group_size) * F::WIDTH)];
        let count = row.len() / F::WIDTH;
        total += count;
        for range in Rows::new(count).groups(group_size, count) {
            let elements = &row[range.start * F::WIDTH..range.end * F::WIDTH];
            seen += range.len();
            let group = QuantisedGroup::<F>::new(elements);
            if group.is_zero() {
                histogram[usize::from(scheme.zero())] += range.len() as u32;
                continue;
            }
            let Some(fit) = scheme.fit(&group, &all_largest, &mut numbers) else {
                raw += range.len();
                // A quarter of the elements may be off the grid, and a few groups more, since these need not
                // be evenly spread.
                if raw * 4
                    > SEARCHED_ELEMENTS_OF_GRID
                        .min(seen + (8 * group_size).max(SEARCHED_ELEMENTS_OF_GRID / 16))
                {
                    return None;
                }
                continue;
            };
            if let Some(place) = all_largest.iter().position(|&known| known == fit.largest) {
                found[place] += 1;
            }
            // Sign and the top of the exponent hardly vary.
            let bits = |parameter: f32| u64::from(28 - parameter.to_bits().trailing_zeros().min(24));
            scale_bits += bits(fit.scale) + if scheme.has_offset() { bits(fit.offset) } else { 0 };
            scales.push(fit.scale.to_bits());
            numbers.iter().for_each(|&number| histogram[usize::from(number as u8)] += 1);
        }
    }
    if total == 0 || raw * 4 > total {
        return None;
    }
    if scheme.minifloat().is_some() {
        scale_bits = scale_bits.min(shared_bits(scales));
    }
    let mut order: Vec<usize> = (0..all_largest.len()).collect();
    order.sort_by_key(|&place| std::cmp::Reverse(found[place]));
    let bits = entropy(&histogram) + scale_bits as f64 + (raw * F::WIDTH * 8) as f64;
    Some(Quantisation {
        group: group_size,
        scheme,
        largest: order.into_iter().map(|place| all_largest[place]).collect(),
        bits_per_element: bits / total as f64,
    })
}

/// Bits that the scales of groups take if each is stored once.
fn shared_bits(mut scales: Vec<u32>) -> u64 {
    let groups = scales.len() as u64;
    scales.sort_unstable();
    scales.dedup();
    let index_bits = u64::from(usize::BITS - scales.len().leading_zeros());
    28 * scales.len() as u64 + groups * index_bits
}

/// Bits that ideal coding of the counted symbols takes.
fn entropy(histogram: &[u32; 256]) -> f64 {
    let total: f64 = histogram.iter().map(|&count| f64::from(count)).sum();
    histogram
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| f64::from(count) * (total / f64::from(count)).log2())
        .sum()
}

impl GridModel {
    /// Makes the model for a section of whole elements, if they lie on a grid and that is worth it.
    pub fn fit(bytes: &[u8], dtype: Dtype, row_length: Option<usize>) -> Option<Self> {
        if !supports(dtype) {
            return None;
        }
        let elements = bytes.len() / dtype.width();
        let row_length = row_length.unwrap_or(elements).max(1);
        let found = detect(bytes, dtype, row_length).filter(|found| is_worthwhile(found, dtype))?;
        Some(Self { dtype, row_length, by_columns: false, quantisation: Some(found) })
    }
}

/// Whether a grid takes less than dense floats need, about; one that takes more was found by chance.
pub(super) fn is_worthwhile(found: &Quantisation, dtype: Dtype) -> bool {
    found.bits_per_element < if dtype.width() == 2 { 9.5 } else { 22.0 }
}
