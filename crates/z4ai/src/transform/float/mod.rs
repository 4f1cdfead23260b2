//! Floats of two bytes and more. The exponent minus the scale expected at its place, joined with the top two
//! mantissa bits, is one symbol for the entropy coder; sign and other mantissa bits of the head are stored as
//! they are; the bytes below the head are planes of their own.
//!
//! `scale` has the expectations and `expected` the form in which decoders use them, `shape` tables for small
//! sections, `signs` and `low_bits` the rest of a head, `tails` the bytes below it, `period` finds the length
//! of rows where the caller gave no shape.

mod decode;
mod encode;
mod expected;
mod fit;
pub(super) mod low_bits;
mod model;
mod period;
pub(crate) mod scale;
pub(super) mod shape;
mod signs;
mod steps;
pub(super) mod tails;

pub(crate) use decode::interleave;
pub(crate) use expected::{ExpectedRest, HeadFormat, HeadInputs, HeadSign};
pub(crate) use fit::{ROW_WITHOUT_SHAPE, choose_scales};
pub(crate) use model::FloatModel;
pub(crate) use period::find_row_length;
pub(crate) use signs::{pack_signs, set_signs};
pub(crate) use steps::{HeadChunk, Steps, decode_heads};

/// Elements that are transformed together; all the temporaries of a chunk stay in the first-level cache.
pub(crate) const FLOAT_CHUNK: usize = 4096;

/// Mantissa bits that join the exponent in a symbol.
pub(crate) const JOINT_BITS: u32 = 2;

/// A symbol is `(exponent - expected exponent + CENTRE) << JOINT_BITS | top mantissa bits`; the exponent part
/// 0 says that the exponent is an escape.
pub(super) const CENTRE: i32 = 48;
pub(super) const EXPONENT_PARTS: i32 = 1 << (8 - JOINT_BITS);

/// Symbols that are searched for escapes only if one of them is an escape.
const ESCAPE_STRETCH: usize = 64;
