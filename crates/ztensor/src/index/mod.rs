//! The index: what a parser returns and everything else works from. It is plain data: names → objects →
//! components, each with its element type, shape, and a [`Data`] tree that says where the bytes lie and how
//! they are encoded. Nothing here reads tensor data; `encoding` is the one place that turns a `Data` into
//! bytes.

mod archived;
mod boxes;
mod data;
mod object;
mod spans;

pub use archived::{ArchiveInfo, BaseInfo, FileInfo};
pub use boxes::{Boxes, StoredBox};
pub use data::{
    Chunk, Chunked, Data, FileId, Filter, PackedMember, Packing, Span, Strided, SwappedBlocks, SwappedFields,
    Unraveled, VarintRun,
};
pub use object::{Component, Components, Content, Coverage, Digest, DigestValue, Object};

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;

use crate::error::{Error, Kind, Result};
use crate::tensor::Attributes;

/// The file formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Format {
    Zt,
    Safetensors,
    Pytorch,
    Gguf,
    Npz,
    Onnx,
    Hdf5,
    Dcp,
}

impl Format {
    /// The name that `Reader.format` reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Zt => "zt",
            Format::Safetensors => "safetensors",
            Format::Pytorch => "pickle",
            Format::Gguf => "gguf",
            Format::Npz => "npz",
            Format::Onnx => "onnx",
            Format::Hdf5 => "hdf5",
            Format::Dcp => "dcp",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All that is known of a file before any tensor is read.
#[derive(Clone, Debug)]
pub struct Index {
    /// The format the file was recognised as.
    pub format: Format,
    /// The format's version as the file states it, such as `1.2.0`; empty where the format has none.
    pub version: Cow<'static, str>,
    /// The tensors, in the order the format defines (file order where it has one).
    pub objects: IndexMap<String, Object>,
    /// The file's own metadata.
    pub attributes: Attributes,
    /// Whether the file has a place for metadata, be it empty: safetensors tells an empty map from none.
    pub states_attributes: bool,
    /// What the file holds but this library does not read, with reasons.
    pub skipped: Vec<Skipped>,
    /// Stored checksums of whole files beside the one that was opened. They are checked on request only.
    pub file_digests: Vec<(FileId, DigestValue)>,
    /// Set where a write to the file is not finished: the index is that of the state before it.
    pub recovered: Option<Recovered>,
}

/// A write that was interrupted, or is going on in another process: the file was opened in its last complete
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// What the write does.
    pub edit: Edit,
    /// Bytes behind the last complete state.
    pub unfinished: u64,
}

/// What changes a file in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// Tensors are appended.
    Append,
    /// A tensor is replaced.
    Replace,
    /// An incomplete write is cut off.
    Repair,
    /// Something that a later version of this library does.
    Other,
}

impl Edit {
    /// What it is called: `append`, `replace`, `repair` or `other`.
    pub fn name(self) -> &'static str {
        match self {
            Edit::Append => "append",
            Edit::Replace => "replace",
            Edit::Repair => "repair",
            Edit::Other => "other",
        }
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.edit {
            Edit::Append => "an append",
            Edit::Replace => "a replacement",
            Edit::Repair => "a repair",
            Edit::Other => "a write",
        };
        write!(
            f,
            "{what} was interrupted or is still going on: this is the last complete state, without the {} bytes behind it",
            self.unfinished
        )
    }
}

impl Index {
    /// An empty index.
    pub fn new(format: Format, version: impl Into<Cow<'static, str>>) -> Self {
        Index {
            format,
            version: version.into(),
            objects: IndexMap::new(),
            attributes: Attributes::new(),
            states_attributes: false,
            skipped: Vec::new(),
            file_digests: Vec::new(),
            recovered: None,
        }
    }

    /// Adds an object; a second one of the same name is refused.
    pub fn insert(&mut self, name: String, object: Object) -> Result<()> {
        match self.objects.entry(name) {
            indexmap::map::Entry::Vacant(entry) => {
                entry.insert(object);
                Ok(())
            }
            indexmap::map::Entry::Occupied(entry) => {
                Err(Error::new(Kind::Duplicate, "the name occurs twice in the file").with_tensor(entry.key()))
            }
        }
    }

    /// Notes something that is not read, and why.
    pub fn skip(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(Skipped { name: name.into(), reason: reason.into(), is_code: false });
    }

    /// Notes code that another reader of the file would run.
    pub fn skip_code(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(Skipped { name: name.into(), reason: reason.into(), is_code: true });
    }
}

/// Something the file holds that is not read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name in the file.
    pub name: String,
    /// Why it is not read.
    pub reason: String,
    /// Whether it is code that another reader of the file would run; `scan` tells all about it.
    pub is_code: bool,
}
