//! From any readable file to `.zt` or `.safetensors`: tensors in file order, a window of them decoded side by side, bytes that several tensors share
//! written once, metadata carried over.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use rayon::prelude::*;

use crate::error::Result;
use crate::index::{Component, Object, Span};
use crate::reader::Reader;
use crate::tensor::{Layout, Value};
use crate::zt::{Checksum, Compression, TensorInput, Version, Writer};

/// Decoded bytes held in memory at a time.
const WINDOW: u64 = 256 << 20;

/// How tensors are stored in a `.zt` file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storage {
    /// How the bytes are stored.
    pub compression: Compression,
    /// Which checksum is stored with them.
    pub checksum: Checksum,
}

/// Adds every tensor of a file to a writer. `progress` is told the bytes of each tensor that is done.
pub fn copy_into(
    writer: &mut Writer,
    reader: &Reader,
    storage: Storage,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    for (key, value) in reader.attributes() {
        writer.set_attribute(key.clone(), value.clone());
    }
    let mut tied: HashMap<TieKey, String> = HashMap::new();
    let mut order = file_order(reader);
    if writer.version() == Version::Two {
        // Canonical files are sorted by name.
        order.sort_by_key(|(name, _)| *name);
    }
    let mut rest = &order[..];
    while !rest.is_empty() {
        let (window, later) = rest.split_at(window_length(rest));
        let decoded: Vec<_> =
            window.par_iter().map(|(name, _)| reader.read_object(name)).collect::<Result<_>>()?;
        let mut batch: Vec<(&str, TensorInput<'_>)> = Vec::new();
        let mut links: Vec<(&str, String)> = Vec::new();
        for ((name, object), data) in window.iter().zip(&decoded) {
            if let Some(key) = tie_key(object) {
                if let Some(first) = tied.get(&key) {
                    links.push((name, first.clone()));
                    continue;
                }
                tied.insert(key, (*name).to_owned());
            }
            let components = data.components.iter();
            batch.push((
                name,
                TensorInput {
                    shape: data.shape.clone(),
                    layout: data.layout.clone(),
                    attributes: data.attributes.clone(),
                    components: components
                        .map(|(role, c)| (Cow::Borrowed(role.as_str()), c.element.clone(), &*c.bytes))
                        .collect(),
                },
            ));
        }
        writer.write_batch(&batch, storage.compression, storage.checksum)?;
        links.iter().try_for_each(|(name, first)| writer.add_tied(name, first))?;
        window.iter().for_each(|(_, object)| progress(object.decoded_length()));
        rest = later;
    }
    Ok(())
}

/// Writes a file as safetensors. Layouts it cannot hold are refused by name.
#[cfg(feature = "safetensors")]
pub fn to_safetensors(
    reader: &Reader,
    names: &[&str],
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    use crate::formats::safetensors::{WriteEntry, check_layout, write};

    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let object = reader.object(name)?;
        check_layout(name, &object.layout)?;
        let Some(component) = object.component("data") else { continue };
        entries.push(WriteEntry {
            name,
            element: component.element.clone(),
            shape: object.shape.clone(),
            length: component.length,
        });
    }
    let metadata: Vec<(String, String)> =
        reader.attributes().iter().map(|(key, value)| (key.clone(), text_of(value))).collect();
    write(path, entries, &metadata, |name| {
        let bytes = reader.bytes(name)?;
        progress(bytes.len() as u64);
        Ok(bytes)
    })
}

/// The names of all tensors in the order of their bytes, so that a file is read from front to back.
pub fn file_order(reader: &Reader) -> Vec<(&str, &Object)> {
    let mut order: Vec<_> = reader.objects().collect();
    order.sort_by_key(|(_, object)| object.principal().and_then(|component| component.data.first_span()));
    order
}

/// A metadata value as text, for formats whose metadata is text only.
pub fn text_of(value: &Value) -> String {
    let quoted = |text: &str| format!("{text:?}");
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::List(values) => {
            let items: Vec<String> =
                values.iter().map(|v| v.as_text().map_or_else(|| text_of(v), quoted)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{}: {}", quoted(k), v.as_text().map_or_else(|| text_of(v), quoted)))
                .collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

fn window_length(objects: &[(&str, &Object)]) -> usize {
    let mut total = 0;
    let fits = |(_, object): &&(&str, &Object)| {
        total += object.decoded_length();
        total <= WINDOW
    };
    objects.iter().take_while(fits).count().max(1)
}

/// Two tensors with equal keys have the same bytes, type, shape and attributes-free layout.
type TieKey = (Layout, Vec<u64>, Vec<(String, String, Span)>);

fn tie_key(object: &Object) -> Option<TieKey> {
    let part = |(role, component): &(Cow<'static, str>, Component)| {
        let plain = matches!(component.data.encoding_name(), "raw" | "zstd" | "z4ai" | "deflate");
        let span = component.data.only_span().filter(|span| plain && span.length > 0)?;
        Some((role.to_string(), component.element.to_string(), span))
    };
    if !object.attributes.is_empty() {
        return None;
    }
    let parts = object.components.iter().map(part).collect::<Option<Vec<_>>>()?;
    Some((object.layout.clone(), object.shape.to_vec(), parts))
}
