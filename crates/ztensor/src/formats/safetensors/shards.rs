//! `model.safetensors.index.json`, and `pytorch_model.bin.index.json`, which is the same over PyTorch's files: a map from tensor names to the shard files beside it.

use std::collections::HashMap;

use indexmap::IndexSet;
use serde::Deserialize;

use super::{Input, add_file};
use crate::error::{Error, Kind, Result};
use crate::formats::few;
#[cfg(feature = "pytorch")]
use crate::formats::{in_folder, pytorch};
use crate::index::{FileId, Format, Index};
#[cfg(feature = "pytorch")]
use crate::source::Io;
use crate::tensor::{Attributes, Value};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    metadata: serde_json::Map<String, serde_json::Value>,
    weight_map: serde_json::Map<String, serde_json::Value>,
}

/// A JSON object that has the keys of a shard index near its start.
pub(super) fn matches(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    text.first() == Some(&b'{')
        && [&b"\"weight_map\""[..], b"\"metadata\""].iter().any(|key| contains(text, key))
}

fn contains(text: &[u8], key: &[u8]) -> bool {
    text.windows(key.len()).any(|window| window == key)
}

/// Opens every shard and checks that it holds what the map says.
pub(super) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    input.budget.check_header(source.len())?;
    let json = source.bytes(0, source.len())?;
    let document: Document = serde_json::from_slice(&json).map_err(|cause| {
        Error::malformed(format!("the shard index is not valid: {cause}")).with_cause(cause)
    })?;

    let mut shards: IndexSet<String> = IndexSet::new();
    let mut home: HashMap<String, usize> = HashMap::new();
    for (tensor, shard) in document.weight_map {
        let serde_json::Value::String(shard) = shard else {
            return Err(Error::malformed("the shard of this tensor is not a file name").with_tensor(&tensor));
        };
        home.insert(tensor, shards.insert_full(shard).0);
    }

    let mut index = Index::new(Format::Safetensors, "");
    let mut missing = Vec::new();
    let mut files = Vec::new();
    for shard in &shards {
        match input.shard(shard) {
            Ok(file) => files.push(file),
            Err(error) if error.kind() == Kind::NotFound => missing.push(format!("\"{shard}\"")),
            Err(error) => return Err(error),
        }
    }
    if !missing.is_empty() {
        return Err(Error::new(
            Kind::NotFound,
            format!("{} of {} shards are missing: {}", missing.len(), shards.len(), few(&missing)),
        )
        .with_hint("Download the missing files into the same folder."));
    }
    for (number, (&file, shard)) in files.iter().zip(&shards).enumerate() {
        let before = index.objects.len();
        add_shard(input, file, &mut index).map_err(|error| {
            match input.file(file).map(|f| f.path().map(|p| p.to_path_buf())) {
                Ok(Some(path)) => error.with_path(&path),
                _ => error,
            }
        })?;
        for name in index.objects.keys().skip(before) {
            home.get(name).filter(|&&wanted| wanted == number).ok_or_else(|| {
                Error::malformed(format!(
                    "shard \"{shard}\" holds this tensor, but the index does not place it there"
                ))
                .with_tensor(name)
            })?;
        }
    }
    if let Some(name) = home.keys().filter(|name| !index.objects.contains_key(*name)).min() {
        return Err(Error::malformed("the index lists this tensor, but no shard holds it").with_tensor(name));
    }
    let own: Attributes = document.metadata.into_iter().map(|(key, value)| (key, value_of(value))).collect();
    index.attributes.extend(own);
    Ok(index)
}

/// Adds the tensors of a shard, of PyTorch's formats too.
fn add_shard(input: &mut Input, file: FileId, index: &mut Index) -> Result<()> {
    #[cfg(feature = "pytorch")]
    {
        let source = std::sync::Arc::clone(input.file(file)?);
        let limits = input.budget.limits().clone();
        let mut shard = Input::with_resolver(source, limits, in_folder(None, Io::Auto));
        let head = shard.source().head(4096)?.into_owned();
        if pytorch::matches(&head, &shard) {
            // All shards together are one file's worth.
            std::mem::swap(&mut input.budget, &mut shard.budget);
            let part = pytorch::index(&mut shard)?;
            std::mem::swap(&mut input.budget, &mut shard.budget);
            index.format = part.format;
            index.version = part.version;
            for (name, mut object) in part.objects {
                object.components.iter_mut().for_each(|(_, part)| part.data.shift_files(file.0));
                index.insert(name, object)?;
            }
            index.skipped.extend(part.skipped);
            index.attributes.extend(part.attributes);
            return Ok(());
        }
    }
    add_file(input, file, index)
}

/// Indexes shards that have no index: each tensor may be in one of them only.
pub(super) fn index_parts(input: &mut Input, names: &[String]) -> Result<Index> {
    let mut index = Index::new(Format::Safetensors, "");
    add_file(input, FileId(0), &mut index)?;
    for name in names {
        let file = input.shard(name)?;
        add_file(input, file, &mut index).map_err(|error| {
            match input.file(file).map(|f| f.path().map(|p| p.to_path_buf())) {
                Ok(Some(path)) => error.with_path(&path),
                _ => error,
            }
        })?;
    }
    Ok(index)
}

/// A JSON value as metadata. serde_json bounds the depth.
fn value_of(value: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Integer(value.into()),
            (None, Some(value)) => Value::Integer(value.into()),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text),
        Json::Array(values) => Value::List(values.into_iter().map(value_of).collect()),
        Json::Object(map) => Value::Map(map.into_iter().map(|(key, value)| (key, value_of(value))).collect()),
    }
}
