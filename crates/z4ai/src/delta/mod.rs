//! Deltas: a buffer coded against another one, its reference, such as an earlier checkpoint. A delta is a
//! frame like any other, except that its header names the reference (length and digest) and that its sections
//! may be coded with it; what a reference does not help with is coded without it.

mod compress;
mod stream;

pub use compress::{compress_delta, compress_delta_if_useful};
pub use stream::{compress_delta_stream, decompress_delta_stream};
