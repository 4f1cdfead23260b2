//! The header with other metadata in it. What the header says of the tensors stays as it stands.

use serde_json::{Map, Value as Json};

use super::{Header, LONGEST_HEADER, shards};
use crate::error::{Error, Result};
use crate::formats::edit::{Front, MetadataEdit, NewValue, no_such_key};
use crate::source::Source;
use crate::tensor::text_of;

/// File systems share blocks of this size between files; data that keeps its place in them can be shared instead of copied.
const BLOCK: u64 = 4096;

/// Whether a file is one with a header of its own, not an index of several.
pub(crate) fn is_single(source: &Source) -> Result<bool> {
    Ok(!shards::matches(&source.head(4096)?))
}

/// The beginning of a file with its metadata changed.
pub(crate) fn with_metadata(source: &Source, edit: &MetadataEdit) -> Result<Front> {
    let length = source.bytes(0, 8)?.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let json = source.bytes(8, length)?;
    // Checks what the generic parser below would let pass, such as a key that occurs twice.
    Header::parse(&json)?;
    let broken = |cause| Error::malformed("the header is not valid").with_offset(8).with_cause(cause);
    let mut header: Map<String, Json> = serde_json::from_slice(&json).map_err(broken)?;
    let mut metadata = match header.shift_remove("__metadata__") {
        Some(Json::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for change in &edit.changes {
        if change.kind.is_some() {
            return Err(Error::argument(format!("\"{}\": metadata of safetensors is text", change.key)));
        }
        match &change.to {
            NewValue::Removed => {
                metadata.shift_remove(&change.key).ok_or_else(|| no_such_key(&change.key))?;
            }
            NewValue::Value(value) => {
                metadata.insert(change.key.clone(), text_of(value).into());
            }
            NewValue::Literal(text) => {
                metadata.insert(change.key.clone(), text.as_str().into());
            }
        }
    }
    let tensors = std::mem::take(&mut header);
    header.insert("__metadata__".to_owned(), metadata.into());
    header.extend(tensors);
    let mut text = serde_json::to_vec(&header)
        .map_err(|cause| Error::malformed("the header cannot be written").with_cause(cause))?;
    let needed = text.len() as u64;
    let padded = match needed <= length {
        true => length,
        false => length + (needed - length).next_multiple_of(BLOCK),
    };
    if padded > LONGEST_HEADER {
        return Err(Error::argument(format!(
            "the header would be longer than the {LONGEST_HEADER} bytes that other readers accept"
        )));
    }
    text.resize(padded as usize, b' ');
    Ok(Front { bytes: [&padded.to_le_bytes(), &text[..]].concat(), rest: 8 + length })
}
