//! GGUF: metadata, a list of tensors, and their data at padded offsets. Versions 2 and 3, both byte orders, and models split over
//! several files, which open as one. Quantised tensors are exposed as the raw blocks they are stored in; [`dequantize`] and
//! [`Reader::dequantize`](crate::Reader::dequantize) turn them into floats on request.

mod blocks;
mod cursor;
mod dequantize;
mod edit;
mod header;
mod metadata;
mod records;
mod split;
mod tensors;
mod types;
mod value_type;

pub use blocks::BlockType;
pub use dequantize::{Real, dequantize};
pub(crate) use edit::with_metadata;

use std::sync::Arc;

use super::Input;
use crate::error::Result;
use crate::index::{FileId, Format, Index};
use header::Header;

/// The four bytes every GGUF file begins with.
pub(crate) fn matches(head: &[u8], _input: &Input) -> bool {
    head.starts_with(header::MAGIC)
}

/// Indexes a GGUF file, together with the other parts if it is one part of a split model.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let header = Header::read(&source, &mut input.budget)?;
    if let Some(place) = split::Place::of(&header.attributes)? {
        return split::index(input, place, header);
    }
    let mut index = new_index(&header);
    add_file(input, FileId(0), header, &mut index)?;
    Ok(index)
}

fn new_index(header: &Header) -> Index {
    Index::new(Format::Gguf, if header.version == 2 { "2" } else { "3" })
}

/// Adds one file's metadata and tensors to the index.
fn add_file(input: &Input, file: FileId, mut header: Header, index: &mut Index) -> Result<()> {
    for (key, value) in std::mem::take(&mut header.attributes) {
        index.attributes.entry(key).or_insert(value);
    }
    tensors::add(input, file, header, index)
}

/// Reads the header of another file of the model.
fn read_header(input: &mut Input, file: FileId) -> Result<Header> {
    let source = Arc::clone(input.file(file)?);
    Header::read(&source, &mut input.budget)
}
