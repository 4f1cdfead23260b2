//! Elements of one byte whose distribution depends on their row and column: floats of eight bits, and the
//! quantised states of optimizers, whose codes are about the logarithms of what they stand for. What is
//! expected of a row and a column is the context of a byte.

mod decode;
mod encode;
mod fit;
mod model;

pub(crate) use model::ScaledModel;
