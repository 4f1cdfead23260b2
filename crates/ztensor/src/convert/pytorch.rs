//! Any readable file as a `.pt` file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use super::{Selection, Storage, blocks_of, cast, is_cast, read_as_asked};
use crate::error::{Error, Result};
use crate::formats::pytorch::{WriteEntry, WritePart, write};
use crate::index::{Component, Object, Span};
use crate::reader::Reader;
use crate::tensor::{Attributes, ElementType, Layout};
use crate::tree::Tree;

/// Writes some tensors of a file as PyTorch does, under other names where asked: as the tree, or as a dict of them. Layouts and types that PyTorch does
/// not have are refused by name. `progress` is told of the bytes of storages.
pub fn selected_to_pytorch(
    reader: &Reader,
    selection: &Selection<'_>,
    tree: Option<&Tree>,
    path: &Path,
    storage: Storage,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut storages = Storages::default();
    let entries = selection
        .iter()
        .map(|(name, new)| {
            entry(reader.object(name)?, new, storage, &mut storages).map_err(|error| error.with_tensor(name))
        })
        .collect::<Result<Vec<_>>>()?;
    let old: HashMap<&str, &str> = selection.iter().map(|(name, new)| (new.as_ref(), *name)).collect();
    write(path, &entries, tree, |entry, part| {
        let name = old.get(entry.name.as_ref()).copied().unwrap_or(&entry.name);
        let bytes = bytes(reader, name, &part.role, storage)?;
        progress(bytes.len() as u64);
        Ok(bytes)
    })
}

/// Storages by what lies in them.
#[derive(Default)]
struct Storages {
    by_place: HashMap<(Span, String), usize>,
    count: usize,
}

impl Storages {
    /// The number of the storage for a component: that of another one with the same bytes, or a new one.
    fn number(&mut self, component: &Component, element: &ElementType) -> usize {
        let plain = matches!(component.data.encoding_name(), "raw" | "zstd" | "z4ai" | "deflate");
        let span = component.data.only_span().filter(|span| plain && span.length > 0);
        let next = self.count;
        let number = match span {
            Some(span) => *self.by_place.entry((span, element.to_string())).or_insert(next),
            None => next,
        };
        self.count += usize::from(number == next);
        number
    }
}

fn entry<'a>(
    object: &'a Object,
    name: &'a str,
    storage: Storage,
    storages: &mut Storages,
) -> Result<WriteEntry<'a>> {
    let (shape, name) = (object.shape.clone(), Cow::Borrowed(name));
    if let (true, Some(precision)) = (blocks_of(object), storage.dequantize) {
        let element = ElementType::plain(storage.dtype.unwrap_or(precision.dtype()));
        let length = shape.elements().and_then(|count| element.byte_length(count));
        let length = length.ok_or_else(|| Error::malformed("the shape overflows"))?;
        let number = match object.principal() {
            Some(component) => storages.number(component, &element),
            None => return Err(Error::malformed("a tensor without data")),
        };
        let part = WritePart { role: Cow::Borrowed("data"), element, length, storage: number };
        let attributes = Attributes::new();
        return Ok(WriteEntry { name, shape, layout: Layout::Dense, attributes, parts: vec![part] });
    }
    let mut parts = Vec::with_capacity(object.components.len());
    for (role, component) in &object.components {
        let (element, length) = match storage.dtype {
            Some(target) if is_cast(&component.element, role, &object.layout, target) => {
                let count = component.length / component.element.storage.width() as u64;
                (ElementType::plain(target), count.saturating_mul(target.width() as u64))
            }
            _ => (component.element.clone(), component.length),
        };
        let number = storages.number(component, &element);
        parts.push(WritePart { role: Cow::Borrowed(role), element, length, storage: number });
    }
    Ok(WriteEntry {
        name,
        shape,
        layout: object.layout.clone(),
        attributes: object.attributes.clone(),
        parts,
    })
}

fn bytes<'r>(reader: &'r Reader, name: &str, role: &str, storage: Storage) -> Result<Cow<'r, [u8]>> {
    let object = reader.object(name)?;
    if blocks_of(object) && storage.dequantize.is_some() {
        let mut tensor = read_as_asked(reader, name, storage)?;
        return Ok(tensor.components.pop().map(|(_, component)| component.bytes).unwrap_or_default());
    }
    let bytes = reader.component_bytes(name, role)?;
    match (storage.dtype, object.component(role)) {
        (Some(target), Some(component)) if is_cast(&component.element, role, &object.layout, target) => {
            Ok(Cow::Owned(cast(&bytes, component.element.storage, target)?))
        }
        _ => Ok(bytes),
    }
}
