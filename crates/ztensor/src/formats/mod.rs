//! The formats. Each has the same two doors: `matches`, which looks at the first bytes, and `index`, which turns the file into an
//! [`Index`](crate::index::Index). Parsers hold no `unsafe`, read no tensor data and allocate by no number they have not checked.

#[cfg(feature = "pytorch")]
pub(crate) mod dcp;
pub(crate) mod edit;
mod input;
mod resolver;
mod unknown;

// Blocks of ggml are in `.zt` files and archives too, so their types are known without the parser.
#[cfg_attr(not(feature = "gguf"), allow(dead_code, unused_imports))]
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

pub use edit::MetadataEdit;
pub(crate) use input::Input;
pub(crate) use resolver::{Resolver, Wanted, in_folder};

use crate::error::{Error, Kind, Result};
use crate::index::Index;

/// The first of some names, and how many more there are: a list in a message is as long as a person reads it.
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
    Parser { matches: dcp::matches, index: dcp::index },
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

/// Whether a file of this name may describe tensors in boxes of the files beside it, so that those are no models of their own.
pub fn may_have_boxes(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    #[cfg(feature = "pytorch")]
    if name == dcp::FILE {
        return true;
    }
    name == zt::boxes::FILE
}

/// Bytes of the file that detection looks at.
const HEAD: u64 = 4096;

/// Indexes a file by the parser that its content asks for; the extension is only a tie-break.
pub(crate) fn detect(input: &mut Input) -> Result<Index> {
    let source = input.source();
    if source.is_empty() {
        return Err(Error::new(Kind::Truncated, "the file is empty").with_hint("Download or copy it again."));
    }
    let head = source.head(HEAD)?.into_owned();
    // A parser may put another source in its place.
    drop(source);
    if let Some(parser) = PARSERS.iter().find(|parser| (parser.matches)(&head, input)) {
        return (parser.index)(input);
    }
    // A download of a checkpoint that was cut off has lost the directory, and with it what tells which format it was.
    #[cfg(any(feature = "hdf5", feature = "npz", feature = "pytorch"))]
    if zip::matches(&head) {
        zip::members(&input.source(), &mut input.budget)?;
    }
    Err(unknown::unknown(&head, input))
}
