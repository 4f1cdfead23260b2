//! `.keras` archives: a zip with the weights as an HDF5 file inside. A stored member is read where it lies, so its tensors stay zero-copy; a
//! deflated one is unpacked into memory first.

use super::index_within;
use crate::error::{Error, Result};
use crate::formats::{Input, zip};
use crate::index::{FileId, Index};
use crate::source::Source;
use crate::tensor::Value;

/// The member with the weights.
const WEIGHTS: &str = "model.weights.h5";
/// The members that describe the model; they become metadata under their own names.
const DESCRIPTIONS: [&str; 2] = ["config.json", "metadata.json"];

/// Whether a zip archive is one of Keras'.
pub(super) fn matches(source: &Source) -> bool {
    zip::any_name(source, |name| name == WEIGHTS.as_bytes())
}

/// Indexes the weights of an archive.
pub(super) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let members = zip::members(&source, &mut input.budget)?;
    let weights = members.iter().find(|member| member.name == WEIGHTS);
    let weights = weights.ok_or_else(|| Error::malformed(format!("the archive has no \"{WEIGHTS}\"")))?;
    let mut index = match weights.method {
        zip::Method::Stored => {
            let end = weights.offset.saturating_add(weights.length);
            index_within(input, FileId(0), weights.offset, end)?
        }
        _ => {
            let bytes = weights.read(&source, &mut input.budget)?.into_owned();
            let length = bytes.len() as u64;
            let file = input.add(Source::from_bytes(bytes));
            index_within(input, file, 0, length)?
        }
    };
    for member in members.iter().filter(|member| member.name != WEIGHTS) {
        if !DESCRIPTIONS.contains(&member.name.as_str()) {
            index.skip(&member.name, "a member of the archive beside the weights");
            continue;
        }
        let bytes = member.read(&source, &mut input.budget)?;
        input.budget.charge(bytes.len() as u64)?;
        let text = String::from_utf8(bytes.into_owned()).map_err(|cause| {
            Error::malformed(format!("\"{}\" is not UTF-8", member.name))
                .with_offset(member.offset)
                .with_cause(cause)
        })?;
        index.attributes.insert(member.name.clone(), Value::Text(text));
    }
    Ok(index)
}
