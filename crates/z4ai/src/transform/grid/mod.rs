//! Weights that were quantised in groups and multiplied out again: `level · scale`, perhaps with an offset,
//! rounded to the stored format.
//!
//! The encoder finds each group's scale and levels again and stores those; decoding is one multiplication per
//! element. Group size and levels are not known beforehand and come from a sample (`fit.rs`). A group that no
//! scale reproduces bit for bit is stored as it is, so nothing depends on the guess being right.

mod columns;
mod decode;
mod encode;
mod fit;
mod format;
mod groups;
mod levels;
mod minifloat;
mod model;
mod offset;
mod sample;
mod scale_search;
mod scheme;
mod shared_scales;

pub(crate) use format::{Bf16, Format, Fp16, Fp32};
pub(crate) use model::GridModel;

use crate::dtype::Dtype;

/// A block of quantised weights as planes for the entropy coder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// A few bytes that describe the grid.
    pub(crate) header: Vec<u8>,
    /// The planes, in the order of the constants in [`plane`].
    pub(crate) planes: [Vec<u8>; plane::COUNT],
}

/// What each plane holds. All lengths follow from the element count, the group size and the scales.
pub(crate) mod plane {
    /// One byte per element of a group on the grid: its level, modulo 256.
    pub(crate) const LEVELS: usize = 0;
    /// Four planes with the bytes of each group's scale, or of each scale that groups share, lowest first;
    /// the scale [`super::RAW_GROUP`] marks a group off the grid.
    pub(crate) const SCALES: usize = 1;
    /// One byte per group: where its 256 levels begin, as the distance from -128, modulo 256, or the place of
    /// its scale among those that are shared.
    pub(crate) const BASES: usize = 5;
    /// The elements of groups off the grid.
    pub(crate) const RAW: usize = 6;
    /// Four planes with the bytes of each group's offset, lowest first; empty for schemes without one.
    pub(crate) const OFFSETS: usize = 7;
    /// How many planes there are.
    pub(crate) const COUNT: usize = 11;
}

/// The bit pattern, a NaN, that takes the place of the scale for a group off the grid.
const RAW_GROUP: u32 = 0x7fc0_0000;
/// The level that stands for minus zero in blocks that have it; groups with this level are then off the grid.
const MINUS_ZERO: u8 = 0x80;

/// Whether a grid can be looked for in elements of this type.
pub(crate) fn supports(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Bf16 | Dtype::F16 | Dtype::F32)
}

/// Runs a generic function for the format of a dtype; `$none` for any other dtype.
macro_rules! with_format {
    ($dtype:expr, $format:ident => $call:expr, $none:expr) => {
        match $dtype {
            Dtype::Bf16 => {
                type $format = super::format::Bf16;
                $call
            }
            Dtype::F16 => {
                type $format = super::format::Fp16;
                $call
            }
            Dtype::F32 => {
                type $format = super::format::Fp32;
                $call
            }
            _ => $none,
        }
    };
}
use with_format;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
