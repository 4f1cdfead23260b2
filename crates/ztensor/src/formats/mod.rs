//! The formats. Each has the same two doors: `matches`, which looks at the first bytes, and `index`, which turns the file into an
//! [`Index`](crate::index::Index). Parsers hold no `unsafe`, read no tensor data and allocate by no number they have not checked.

mod input;
mod unknown;

#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "hdf5")]
mod hdf5;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "pytorch")]
pub mod pytorch;
#[cfg(feature = "safetensors")]
pub mod safetensors;
#[cfg(any(feature = "hdf5", feature = "npz", feature = "pytorch"))]
pub(crate) mod zip;
pub(crate) mod zt;

pub use input::Input;
pub(crate) use unknown::unknown;

use crate::error::Result;
use crate::index::Index;

/// The first of some names, and how many more there are: a list in a message is as long as a person reads it.
#[cfg(any(feature = "gguf", feature = "safetensors"))]
pub(crate) fn few(names: &[String]) -> String {
    const NAMED: usize = 10;
    let first = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMED) {
        None | Some(0) => first,
        Some(more) => format!("{first} and {more} more"),
    }
}

/// One format: how it is recognised and how it is indexed.
pub(crate) struct Parser {
    /// Looks at the first bytes (up to 4 KiB) and, for formats without a magic number, at the whole input.
    pub matches: fn(&[u8], &Input) -> bool,
    /// Indexes the file.
    pub index: fn(&mut Input) -> Result<Index>,
}

/// Every format of this build, those with an unmistakable magic number first.
pub(crate) const PARSERS: &[Parser] = &[
    Parser { matches: zt::matches, index: zt::index },
    #[cfg(feature = "gguf")]
    Parser { matches: gguf::matches, index: gguf::index },
    #[cfg(feature = "pytorch")]
    Parser { matches: pytorch::matches, index: pytorch::index },
    #[cfg(feature = "npz")]
    Parser { matches: npz::matches, index: npz::index },
    #[cfg(feature = "hdf5")]
    Parser { matches: hdf5::matches, index: hdf5::index },
    #[cfg(feature = "safetensors")]
    Parser { matches: safetensors::matches, index: safetensors::index },
    #[cfg(feature = "onnx")]
    Parser { matches: onnx::matches, index: onnx::index },
    #[cfg(feature = "hdf5")]
    Parser { matches: hdf5::matches_behind_user_block, index: hdf5::index },
];
