//! Is there a grid, and which? A few short runs of elements refuse ordinary weights within microseconds; only
//! when most of them lie on a grid are group sizes compared, by the size that a sample of rows would take.

use super::format::Format;
use super::groups::Rows;
use super::levels::Levels;
use super::model::GridModel;
use super::scale_search::QuantisedGroup;
use super::scheme::Scheme;
use super::{supports, with_format};
use crate::dtype::Dtype;

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

/// Elements of a run that is tested first, and of the smallest group that is looked for, unless many are
/// zero.
const RUN: usize = 16;
const LONGEST_RUN: usize = 4 * RUN;
/// Elements other than zero that a run has on average: fewer lie on some grid whatever they are. Structured:
/// half +0.12 % where 80 % are zeros, double no gain.
const TELLING_ELEMENTS: usize = 6;
/// Runs tested first. Structured: half or double changes no size.
const RUNS: usize = 12;
/// Elements that the comparison of group sizes looks at. Structured: half or double changes no size.
const SEARCHED_ELEMENTS_OF_GRID: usize = 1 << 14;
/// Largest group size that is tried besides the row length. Structured: half or double changes no size.
const LARGEST_GROUP: usize = 1 << 14;

/// Elements that a tensor needs for its grid to be worth looking for: in a shorter one, often a bias or a
/// norm, it would save less than finding it takes. Structured: half no gain, double +0.001 %.
const SMALLEST_GRID: usize = 1 << 9;

/// Look for a grid in a tensor of rows of `row_length` elements. `None` for ordinary weights.
pub(crate) fn detect(elements: &[u8], dtype: Dtype, row_length: usize) -> Option<Quantisation> {
    with_format!(dtype, F => detect_format::<F>(elements, row_length), None)
}

fn detect_format<F: Format>(elements: &[u8], row_length: usize) -> Option<Quantisation> {
    let count = elements.len() / F::WIDTH;
    let row_length = if (RUN..=count).contains(&row_length) { row_length } else { count };
    if count < SMALLEST_GRID {
        return None;
    }
    let rows: Vec<&[u8]> = sample_rows(elements, row_length * F::WIDTH, SEARCHED_ELEMENTS_OF_GRID * F::WIDTH);
    let run = run_length::<F>(&rows);
    let viable: Vec<Scheme> =
        Scheme::ALL.into_iter().filter(|&scheme| is_viable::<F>(&rows, scheme, run)).collect();
    let mut best: Option<Quantisation> = None;
    for scheme in viable {
        // From the largest group down: groups that are parts of the true ones fit as well, but cost more
        // scales.
        for group in group_sizes(row_length, run) {
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

/// Whole rows, evenly spread, of about `limit` bytes in all; the start of the first row if one is longer.
fn sample_rows(elements: &[u8], row_bytes: usize, limit: usize) -> Vec<&[u8]> {
    let available = elements.len() / row_bytes;
    let wanted = (limit / row_bytes).clamp(1, available.max(1)).max(available.min(2));
    let step = available / wanted.max(1);
    (0..wanted)
        .filter_map(|index| elements.get(index * step * row_bytes..(index * step + 1) * row_bytes))
        .collect()
}

/// Elements of a run that tells whether there is a grid.
fn run_length<F: Format>(rows: &[&[u8]]) -> usize {
    let (mut seen, mut telling) = (0, 0);
    for row in rows {
        // A part is enough to tell how many are zero.
        let elements = row
            .chunks_exact(F::WIDTH)
            .step_by(3)
            .take(SEARCHED_ELEMENTS_OF_GRID / 4 / rows.len().min(SEARCHED_ELEMENTS_OF_GRID / 16));
        for element in elements {
            seen += 1;
            telling += usize::from(F::read(element) & !F::SIGN != 0);
        }
    }
    let longest = rows.first().map_or(0, |row| row.len() / F::WIDTH).min(LONGEST_RUN);
    let mut length = RUN;
    while telling * length < TELLING_ELEMENTS * seen && 2 * length <= longest {
        length *= 2;
    }
    length
}

/// Whether a scheme is worth comparing group sizes for.
fn is_viable<F: Format>(rows: &[&[u8]], scheme: Scheme, run: usize) -> bool {
    match scheme {
        Scheme::Product(levels) => runs_fit::<F>(rows, levels, run),
        Scheme::Offset(_) => runs_repeat::<F>(rows),
    }
}

/// Whether elements other than zero repeat within most longer runs, as they do when there are at most 32
/// levels. An offset shows only in a whole group, whose size is not known yet.
fn runs_repeat<F: Format>(rows: &[&[u8]]) -> bool {
    let mut repeating = 0;
    for index in 0..RUNS {
        let row = rows[index * rows.len() / RUNS];
        let Some(last) = row.len().checked_sub(LONGEST_RUN * F::WIDTH) else { return false };
        let start = last * (index * 7 % RUNS) / RUNS / F::WIDTH * F::WIDTH;
        let mut run: Vec<u32> =
            row[start..start + LONGEST_RUN * F::WIDTH].chunks_exact(F::WIDTH).map(F::read).collect();
        run.retain(|&element| element & !F::SIGN != 0);
        let most = run.len() * 3 / 4;
        run.sort_unstable();
        run.dedup();
        repeating += usize::from((1..=most).contains(&run.len()));
        if repeating + RUNS / 4 < index {
            return false;
        }
    }
    repeating * 4 >= RUNS * 3
}

/// Whether most short runs lie on a grid with these levels.
fn runs_fit<F: Format>(rows: &[&[u8]], levels: Levels, run: usize) -> bool {
    let largest = levels.largest();
    let mut numbers = Vec::new();
    let (mut fitting, mut failing, mut telling) = (0, 0, 0);
    for index in 0..RUNS {
        let row = rows[index * rows.len() / RUNS];
        let runs = row.len() / (run * F::WIDTH);
        let start = (index * 7 % RUNS) * runs / RUNS * run * F::WIDTH;
        let group = QuantisedGroup::<F>::new(&row[start..start + run * F::WIDTH]);
        if group.is_zero() {
            continue;
        }
        telling += usize::from(group.has_two_magnitudes() || group.zero);
        match group.fit(levels, &largest, &mut numbers) {
            Some(_) => fitting += 1,
            None => failing += 1,
        }
        if failing > RUNS / 4 {
            return false;
        }
    }
    telling > 0 && fitting > 0
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
fn estimate<F: Format>(rows: &[&[u8]], group_size: usize, scheme: Scheme) -> Option<Quantisation> {
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
                // So much may be off the grid, and a few groups more, since these need not be evenly spread.
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
        let found = detect(bytes, dtype, row_length)?;
        // Dense floats need about this much; a grid that takes more was found by chance.
        let dense = if dtype.width() == 2 { 9.5 } else { 22.0 };
        (found.bits_per_element < dense).then_some(Self {
            dtype,
            row_length,
            by_columns: false,
            quantisation: Some(found),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Bf16;
    use super::*;

    #[test]
    fn runs_are_longer_where_many_elements_are_zero() {
        let row = |period: usize, length: usize| -> Vec<u8> {
            (0..length).flat_map(|index| [0, if index % period == 0 { 0x3f } else { 0 }]).collect()
        };
        for (period, length, expected) in
            [(1, 256, 16), (2, 256, 16), (5, 256, 32), (20, 256, 64), (20, 40, 32), (20, 16, 16)]
        {
            let row = row(period, length);
            assert_eq!(run_length::<Bf16>(&[&row, &row]), expected, "{period} {length}");
        }
    }
}
