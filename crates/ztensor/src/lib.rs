//! Tensors and the files they live in: one API over `.zt`, `.safetensors`, `.pt`, `.gguf`, `.npz`, `.onnx` and `.h5`.
//!
//! [`open`] recognises a file by its content and returns a [`Reader`]; a [`Writer`] makes `.zt` files. A format is a function from bytes
//! to an [`index::Index`]; one reading path then serves every format.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
// Some formats without the others leave unused what only those need; builds with all of them keep the check.
#![cfg_attr(
    not(feature = "all-formats"),
    allow(dead_code, unused_imports, unused_mut, unused_variables, unreachable_code)
)]

pub mod archive;
pub mod convert;
pub mod delta;
mod encoding;
pub mod error;
pub mod folder;
pub mod formats;
pub mod index;
mod joined;
pub mod limits;
pub mod metadata;
mod open;
#[allow(clippy::disallowed_methods, reason = "the one place where files are written")]
mod output;
mod printable;
mod reader;
pub mod recipe;
#[cfg(feature = "pytorch")]
pub mod scan;
pub mod source;
mod sparse;
pub mod tensor;
pub mod tree;
pub mod zt;

pub use encoding::{View, codec_dtype, codec_options};
pub use error::{Caller, Error, Hints, Kind, Result};
pub use index::{Edit, Format, Recovered, Skipped};
pub use limits::Limits;
pub use open::{OpenOptions, open};
pub use output::{Output, Partial, Scratch, make_durable, name_file};
pub use printable::{is_hidden, printable};
pub use reader::{ComponentData, Reader, TensorData};
pub use source::{Io, Ranges, Source};
pub use tensor::{
    Attributes, Compressed, DType, Element, ElementDifference, ElementType, Known, Layout, LogicalType,
    Shape, Value,
};
pub use z4ai::Effort;
pub use zt::{
    Checksum, Compression, Repair, TensorInput, TensorStream, TensorWrite, Version, Writer, remove_tensors,
    repair, repair_at, replace_tensor,
};
