//! How quickly the adaptive coder should learn from a section: rates for rows, columns and filters, and the
//! style, each tried on a sample.

use super::lanes::Lanes;
use super::learner::{FIXED, Learning, STYLE_MOVES};
use super::model::TensorGeometry;
use super::survey::count_by_phase;
use crate::dtype::FloatLayout;
use crate::transform::float::shape::Shape;

/// Elements of the sample: the first ones, since what is learnt from them is what the rates are about. At
/// maximum effort: half +0.006 %, double -0.002 %.
const SEARCHED_ELEMENTS: usize = 1 << 16;

/// The parameters that make a sample of the section smallest, found by changing one after the other.
pub(super) fn best_learning(layout: FloatLayout, heads: &[u16], geometry: TensorGeometry) -> Learning {
    let first = first_learning(layout, heads, geometry);
    let sample = &heads[..heads.len().min(SEARCHED_ELEMENTS)];
    let lanes = Lanes::new(first, sample.len());
    let sample = lanes.gather(sample);
    let cost = |learning: Learning| Shape::fit_roughly(&count_by_phase(layout, learning, lanes, &sample));
    let mut best = (cost(first), first);
    for style in (0..STYLE_MOVES.len() as u8).filter(|&style| style != first.style) {
        let other = Learning { style, ..first };
        let found = cost(other);
        if found < best.0 {
            best = (found, other);
        }
    }
    // Setters, since the search walks each parameter in both directions.
    let columns = |learning: Learning, inertia| Learning { column_inertia: inertia, ..learning };
    let rows = |learning: Learning, inertia| Learning { row_inertia: inertia, ..learning };
    let filters = |learning: Learning, inertia| Learning { filter_inertia: inertia, ..learning };
    best = climb(best, best.1.column_inertia, columns, cost);
    best = climb(best, best.1.row_inertia, rows, cost);
    if first.filter_length > 1 {
        best = climb(best, best.1.filter_inertia, filters, cost);
    }
    best.1
}

/// Moves one inertia up, or else down, as long as that helps.
fn climb(
    mut best: (u64, Learning),
    start: u8,
    set: impl Fn(Learning, u8) -> Learning,
    cost: impl Fn(Learning) -> u64,
) -> (u64, Learning) {
    for direction in [1i8, -1] {
        let mut inertia = start;
        while let Some(next) = inertia.checked_add_signed(direction).filter(|&next| next <= FIXED) {
            let other = set(best.1, next);
            let found = cost(other);
            if found >= best.0 {
                break;
            }
            (best, inertia) = ((found, other), next);
        }
        if inertia != start {
            break;
        }
    }
    best
}

/// About how many elements the rows of data have that has no rows. Unshaped: half +0.58 %, double +0.06 %.
const FLAT_ROW: usize = 2304;

/// Where the search for the best parameters begins: what most convolutions and matrices want.
fn first_learning(layout: FloatLayout, heads: &[u16], geometry: TensorGeometry) -> Learning {
    let row_length = geometry.row_length.unwrap_or(heads.len()).clamp(1, heads.len().max(1));
    // Lengths that do not divide each other are not those of a convolution.
    let filter_length =
        geometry.filter_length.filter(|&length| row_length.is_multiple_of(length)).unwrap_or(1);
    let inside_filter = |length: &usize| filter_length > 1 && *length <= filter_length;
    // A few long rows are as good as none, and leave lanes without work; rows of another length do not.
    let is_flat = heads.len() / row_length < 8 && heads.len() >= 8 * FLAT_ROW && filter_length <= FLAT_ROW;
    let row_length = if is_flat { FLAT_ROW / filter_length * filter_length } else { row_length };
    let line_length = geometry.line_length.filter(inside_filter).unwrap_or(row_length);
    Learning {
        row_length,
        filter_length,
        line_length,
        base: mean_magnitude(layout, heads),
        row_inertia: 2,
        column_inertia: 2,
        filter_inertia: 1,
        style: 1,
    }
}

/// The mean magnitude in eighths of an octave, without zeros and what is far below the others.
fn mean_magnitude(layout: FloatLayout, heads: &[u16]) -> u16 {
    let mean = |least: u64| {
        let counted =
            heads.iter().map(|&head| u64::from(head & 0x7fff)).filter(|&magnitude| magnitude >= least);
        let (sum, count) = counted.fold((0, 0), |(sum, count), magnitude| (sum + magnitude, count + 1));
        sum / u64::max(count, 1)
    };
    let bits = layout.head_mantissa_bits();
    let mean = mean(mean(1).saturating_sub(24 << bits).max(1));
    (mean << 3 >> bits) as u16
}
