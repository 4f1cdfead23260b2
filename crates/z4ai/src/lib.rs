//! Lossless compression of model weights: bytes in, fewer bytes out, the same bytes back.
//!
//! [`compress`] makes a self-describing frame and [`decompress`] restores it, both on all cores. The dtype
//! and the shape in [`Options`] tell the encoder what the bytes are; it finds out by itself how they were
//! made. Behind these two doors:
//!
//! * [`Frame`]: parsed once; all of its data or any range, into memory of one's own, from memory or from any
//!   [`BlockSource`];
//! * [`compress_delta`] and [`Frame::against`]: a buffer against another one, such as an earlier checkpoint;
//! * [`Encoder`] and [`Decoder`]: streams of any length;
//! * [`Info`] and [`estimate`]: what is in a frame, and what one would gain.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
// What only kernels of other architectures ask of models and tables is unused here. Builds for x86, which has
// the most kernels, keep the check.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]

#[cfg(any(test, fuzzing))]
pub mod agreement;
mod arch;
mod block;
mod compress;
mod decompress;
mod delta;
mod dtype;
mod encode;
mod entropy;
mod error;
mod estimate;
mod frame;
mod info;
mod options;
mod record;
mod reference;
mod stream;
mod threads;
mod transform;

/// Fresh memory, brought in by the kind of page that comes faster. For the crates of this workspace, whose
/// memory is decoded into.
#[doc(hidden)]
pub mod pages {
    pub use crate::arch::pages::{bring, bring_all, pieces};
}

/// Loops compiled for the CPU's widest registers. For the crates of this workspace, whose recipes are as hot
/// as decoding is.
#[doc(hidden)]
pub mod kernels {
    pub use crate::arch::vectorised;
}

pub use compress::{compress, compress_into, compress_watched};
pub use decompress::{decompress, is_frame};
pub use delta::{compress_delta, compress_delta_if_useful, compress_delta_stream, decompress_delta_stream};
pub use dtype::Dtype;
pub use error::{Error, ErrorKind, Result};
pub use estimate::estimate;
pub use frame::{BlockSource, Delta, Description, Fetch, Frame};
pub use info::{Info, Part};
pub use options::{Effort, MAX_DIMENSIONS, Options};
pub use record::{BitArray, BitSlice, Field, Given, RecordLayout};
pub use reference::ReferenceId;
pub use stream::{Decoder, Encoder};
