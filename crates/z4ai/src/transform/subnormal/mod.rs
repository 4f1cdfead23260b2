//! Floats of two bytes many of which are below what their exponents can say, such as the optimizer's state in
//! fp16. Such a number is a small integer: it has an exponent all the same, the place of its first bit, but
//! fewer bits below that the smaller it is. So exponents are counted on downwards, and each element has as
//! many verbatim bits as it really has.
//!
//! Near zero the distribution is not the same at every scale, as it is for other floats. Symbols are
//! therefore not relative to what is expected of an element; that is their context.
//!
//! `element` has the symbols.

mod decode;
mod element;
mod encode;
mod fit;
mod model;
mod steps;

pub(crate) use model::SubnormalModel;
pub(crate) use steps::{Restorer, Steps, VerbatimBits};
