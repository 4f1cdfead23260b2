//! Lossless compression of model weights: bytes in, fewer bytes out, the same bytes back.
//!
//! [`compress`] makes a self-describing frame; [`decompress`], [`decompress_into`] and [`decompress_range`] restore all or part of it on all cores. The
//! dtype and the shape in [`Options`] tell the encoder what the bytes are; it finds out by itself how they were made.

#[cfg(any(test, fuzzing))]
pub mod agreement;
mod arch;
mod block;
mod compress;
mod decompress;
mod delta;
mod description;
mod dtype;
mod entropy;
mod error;
mod estimate;
mod fetch;
mod frame;
mod info;
mod options;
mod plan;
mod reference;
mod repeats;
mod segments;
mod stream;
mod threads;
mod transform;

pub use compress::{compress, compress_into};
pub use decompress::{
    decoded_len, decoding_cost, decompress, decompress_into, decompress_into_with, decompress_range,
    decompress_with, is_frame,
};
pub use delta::{
    compress_delta, compress_delta_if_useful, compress_delta_stream, decompress_delta, decompress_delta_into,
    decompress_delta_into_with, decompress_delta_range, decompress_delta_range_trusted,
    decompress_delta_range_trusted_into, decompress_delta_stream, decompress_delta_with,
};
pub use description::{Description, describe};
pub use dtype::Dtype;
pub use error::{Error, ErrorKind, Result};
pub use estimate::estimate;
pub use fetch::{decompress_delta_range_from, decompress_range_from};
pub use info::{Info, Part};
pub use options::{Effort, MAX_DIMENSIONS, Options};
pub use reference::ReferenceId;
pub use stream::{Decoder, Encoder};
