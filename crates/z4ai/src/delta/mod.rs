//! Deltas: a buffer coded against another one, its reference, such as an earlier checkpoint. A delta is a frame like any other, except that its header names
//! the reference (length and digest) and that its sections may be coded with it; what a reference does not help with is coded without it.

mod compress;
mod decompress;
mod stream;

pub use compress::{compress_delta, compress_delta_if_useful};
pub use decompress::{
    decompress_delta, decompress_delta_into, decompress_delta_into_with, decompress_delta_range,
    decompress_delta_range_trusted, decompress_delta_range_trusted_into, decompress_delta_with,
};
pub use stream::{compress_delta_stream, decompress_delta_stream};
