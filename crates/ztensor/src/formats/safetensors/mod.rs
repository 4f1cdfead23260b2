//! safetensors: a JSON header and one buffer that the tensors tile exactly. Also the sharded form, `*.safetensors.index.json`, which
//! opens as one file.

mod canonical;
mod header;
mod metadata;
mod shards;
mod types;
mod write;

pub use header::{Entry, Header};
pub(crate) use metadata::{is_single, with_metadata};
pub(crate) use types::element_of;
pub use types::name_of;
pub use write::{Entry as WriteEntry, check_layout, layout, write};

use super::Input;
use crate::error::{Error, Result};
use crate::index::{Component, FileId, Format, Index, Object};
use crate::tensor::Value;

/// Longest header the reference implementation accepts.
const LONGEST_HEADER: u64 = 100_000_000;

/// A header length that fits the file and the brace of its JSON; or the shard index, by its JSON keys.
pub(crate) fn matches(head: &[u8], input: &Input) -> bool {
    let Some((length, json)) = head.split_first_chunk::<8>() else { return shards::matches(head) };
    let length = u64::from_le_bytes(*length);
    let fits = (2..=LONGEST_HEADER).contains(&length);
    (fits
        && json.first() == Some(&b'{')
        && (length <= input.source().len() || input.extension() == "safetensors"))
        || shards::matches(head)
}

/// Whether a file with these first bytes is a shard index.
pub(crate) fn is_shard_index(head: &[u8]) -> bool {
    shards::matches(head)
}

/// Indexes a safetensors file or a shard index; of several files that were given together and have no index, all of them.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let head = source.head(4096)?;
    if shards::matches(&head) {
        return shards::index(input);
    }
    if let Some(parts) = input.parts() {
        return shards::index_parts(input, &parts);
    }
    let mut index = Index::new(Format::Safetensors, "");
    add_file(input, FileId(0), &mut index)?;
    Ok(index)
}

/// Adds the tensors of one file to an index.
fn add_file(input: &mut Input, file: FileId, index: &mut Index) -> Result<()> {
    let source = std::sync::Arc::clone(input.file(file)?);
    let length = source.bytes(0, 8)?.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if length > LONGEST_HEADER {
        return Err(Error::malformed(format!(
            "the header length {length} is over the limit of {LONGEST_HEADER}"
        ))
        .with_offset(0));
    }
    input.budget.check_header(length)?;
    let json = source.bytes(8, length)?;
    let header = Header::parse(&json)?;
    let data_start = 8 + length;
    header.check_tiling(source.len() - data_start)?;

    if let Some(metadata) = header.metadata {
        index.states_attributes = true;
        index.attributes.extend(metadata.into_iter().map(|(key, text)| (key, Value::Text(text))));
    }
    index.objects.reserve(header.entries.len());
    for (name, entry) in header.entries {
        input.budget.charge_object()?;
        let span = input.span(file, data_start + entry.begin, entry.end - entry.begin)?;
        match element_of(&entry.dtype) {
            Some(element) => {
                let shape = entry.shape;
                let expected = shape.elements().and_then(|count| exact_bytes(count, element.bits()?));
                if expected != Some(span.length) {
                    return Err(Error::malformed(format!(
                        "shape {shape} of {} does not take the {} bytes it is given",
                        entry.dtype, span.length
                    ))
                    .with_tensor(&name)
                    .with_offset(span.offset));
                }
                index.insert(name, Object::dense(shape, Component::raw(element, span)))?;
            }
            None => index.skip(name, format!("unknown dtype \"{}\"", entry.dtype)),
        }
    }
    Ok(())
}

/// Bytes of packed elements, which must be whole.
fn exact_bytes(elements: u64, bits: u64) -> Option<u64> {
    let total = u128::from(elements) * u128::from(bits);
    (total % 8 == 0).then(|| u64::try_from(total / 8).ok())?
}
