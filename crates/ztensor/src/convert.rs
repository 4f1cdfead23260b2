//! From any readable file to `.zt` or `.safetensors`: tensors in file order, a window of them decoded side by side, bytes that several tensors share
//! written once, metadata carried over.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use rayon::prelude::*;

use crate::error::Result;
use crate::index::{Component, Object, Span};
use crate::reader::{ComponentData, Reader, TensorData};
use crate::tensor::{Attributes, DType, ElementType, Layout, Value};
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
    /// Turn ggml blocks into dense elements on the way.
    pub dequantize: Option<Precision>,
}

/// What dequantised elements become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Precision {
    F32,
    F16,
}

impl Precision {
    /// The element type.
    pub fn dtype(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::F16 => DType::F16,
        }
    }
}

/// Reads a tensor; blocks become dense elements where that is asked for and their type has values.
fn read_as_asked<'a>(
    reader: &'a Reader,
    name: &str,
    dequantize: Option<Precision>,
) -> Result<TensorData<'a>> {
    #[cfg(feature = "gguf")]
    if let Some(precision) = dequantize
        && crate::formats::gguf::BlockType::of(&reader.object(name)?.layout).is_some()
    {
        let bytes = match precision {
            Precision::F32 => bytemuck::allocation::pod_collect_to_vec(&reader.dequantize_as::<f32>(name)?),
            Precision::F16 => {
                bytemuck::allocation::pod_collect_to_vec(&reader.dequantize_as::<half::f16>(name)?)
            }
        };
        let component = ComponentData { element: precision.dtype().into(), bytes: Cow::Owned(bytes) };
        return Ok(TensorData {
            shape: reader.object(name)?.shape.clone(),
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: vec![("data".to_owned(), component)],
        });
    }
    #[cfg(not(feature = "gguf"))]
    let _ = dequantize;
    reader.read_object(name)
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
        let decoded: Vec<_> = window
            .par_iter()
            .map(|(name, _)| read_as_asked(reader, name, storage.dequantize))
            .collect::<Result<_>>()?;
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
    dequantize: Option<Precision>,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    use crate::error::Error;
    use crate::formats::safetensors::{WriteEntry, check_layout, write};

    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let object = reader.object(name)?;
        let (element, length) = match (blocks_of(object), dequantize) {
            (true, Some(precision)) => {
                let element = ElementType::plain(precision.dtype());
                let length = object.shape.elements().and_then(|count| element.byte_length(count));
                (element, length.ok_or_else(|| Error::malformed("the shape overflows").with_tensor(name))?)
            }
            _ => {
                check_layout(name, &object.layout)?;
                let component = object
                    .component("data")
                    .ok_or_else(|| Error::malformed("a dense tensor without data").with_tensor(name))?;
                (component.element.clone(), component.length)
            }
        };
        entries.push(WriteEntry { name, element, shape: object.shape.clone(), length });
    }
    let metadata: Vec<(String, String)> =
        reader.attributes().iter().map(|(key, value)| (key.clone(), text_of(value))).collect();
    let metadata = reader.states_attributes().then_some(metadata.as_slice());
    write(path, entries, metadata, |name| {
        let mut tensor = read_as_asked(reader, name, dequantize)?;
        let bytes = tensor.components.pop().map(|(_, component)| component.bytes).unwrap_or_default();
        progress(bytes.len() as u64);
        Ok(bytes)
    })
}

/// Whether a tensor is made of ggml blocks.
fn blocks_of(object: &Object) -> bool {
    matches!(&object.layout, Layout::Other(name) if name.starts_with("gguf."))
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
