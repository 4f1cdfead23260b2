//! How quickly the adaptive coder should learn from a section: rates for rows, columns and kernels, and the style, each tried on a sample.

use super::lanes::Lanes;
use super::learner::{FIXED, Learning};
use super::shape::Shape;
use super::survey::count_by_phase;
use crate::dtype::FloatLayout;

/// Elements of the sample: the first ones, since what is learnt from them is what the rates are about.
const SAMPLE: usize = 1 << 16;
const STYLES: u8 = 4;

/// The parameters that make a sample of the section smallest, found by changing one after the other.
pub(super) fn best_learning(layout: FloatLayout, heads: &[u16], first: Learning) -> Learning {
    let sample = &heads[..heads.len().min(SAMPLE)];
    let lanes = Lanes::new(first, sample.len());
    let sample = lanes.gather(sample);
    let cost = |learning: Learning| Shape::fit_roughly(&count_by_phase(layout, learning, lanes, &sample));
    let mut best = (cost(first), first);
    for style in (0..STYLES).filter(|&style| style != first.style) {
        let other = Learning { style, ..first };
        let found = cost(other);
        if found < best.0 {
            best = (found, other);
        }
    }
    // Setters, since each of these is walked in both directions.
    let columns = |learning: Learning, inertia| Learning { column_inertia: inertia, ..learning };
    let rows = |learning: Learning, inertia| Learning { row_inertia: inertia, ..learning };
    let kernels = |learning: Learning, inertia| Learning { kernel_inertia: inertia, ..learning };
    best = climb(best, best.1.column_inertia, columns, cost);
    best = climb(best, best.1.row_inertia, rows, cost);
    if first.kernel_length > 1 {
        best = climb(best, best.1.kernel_inertia, kernels, cost);
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
