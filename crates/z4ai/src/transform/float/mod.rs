//! Floats of two bytes and more. The exponent minus the scale expected at its place, joined with the top two mantissa bits, is one symbol for the entropy
//! coder; sign and other mantissa bits of the head are stored as they are; the bytes below the head are planes of their own.
//!
//! `scale` has the expectations, `model` what a section shares (and how it is chosen), `encode` and `decode` the two directions of one block. `adaptive` is the other way to code the
//! same floats, for maximum effort; `learner` has what it learns, `lanes` the order in which it does so.

mod adaptive;
mod decode;
mod encode;
mod heads;
mod lanes;
mod learner;
mod low_bits;
mod model;
mod period;
pub(crate) mod scale;
mod search;
mod shape;
mod sign_mixer;
mod signs;
mod survey;
mod symbol_code;
mod tails;

pub(crate) use adaptive::{AdaptiveModel, Geometry};
pub(crate) use lanes::Kernels;
pub(crate) use learner::{
    ABOVE, Column, DUST, FURTHEST, LAST_RATE, LEFT, MagnitudeRun, Moves, OCTAVE_BITS, PHASES, RATE_BITS,
    Rates,
};
pub(crate) use model::{FloatModel, choose_scales};
pub(crate) use period::find_row_length;
pub(crate) use sign_mixer::{BIASES, NEIGHBOURHOODS, PLACES, SignRun};

/// Elements that are transformed together; all the temporaries of a chunk stay in the first-level cache.
pub(crate) const CHUNK: usize = 4096;

/// Mantissa bits that join the exponent in a symbol.
pub(crate) const JOINT_BITS: u32 = 2;

/// A symbol is `(exponent - expected exponent + CENTRE) << JOINT_BITS | top mantissa bits`; the exponent part 0 says that the exponent is an escape.
const CENTRE: i32 = 48;
const EXPONENT_PARTS: i32 = 1 << (8 - JOINT_BITS);

/// Symbols that are searched for escapes only if one of them is an escape.
const ESCAPE_STRETCH: usize = 64;
