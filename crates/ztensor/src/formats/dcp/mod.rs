//! Folders of `torch.distributed.checkpoint`: `.metadata`, a pickle that says which boxes of which files make up each tensor, and the files of the ranks
//! (`__0_0.distcp`), in which each box is a small `torch.save` archive. The pickle is read, never run (`metadata`), and each archive by its own parser.

mod metadata;
mod part;

use std::collections::HashMap;
use std::sync::Arc;

use super::Input;
use super::pytorch;
use crate::error::{Error, Kind, Result};
use crate::index::{Boxes, Component, Data, FileId, Format, Index, Object, Span, StoredBox};
use crate::source::Source;
use crate::tensor::{Layout, Value};
use metadata::{Metadata, Place, Stored, Tensor};

/// The name of the file that describes the others.
pub(crate) const FILE: &str = ".metadata";
/// The module of the classes in it.
pub(super) const MODULE: &str = "torch.distributed.checkpoint.metadata";
/// Longer objects are not looked into for plain values.
const LONGEST_VALUE: u64 = 64 << 10;
/// Memory that a box takes in the index.
const BOX_BYTES: u64 = size_of::<StoredBox>() as u64;

/// A pickle that begins with the class of such files.
pub(crate) fn matches(head: &[u8], _input: &Input) -> bool {
    let begins = &head[..head.len().min(128)];
    matches!(head, [0x80, 2..=5, ..])
        && begins.windows(MODULE.len()).any(|window| window == MODULE.as_bytes())
        && begins.windows(8).any(|window| window == b"Metadata")
}

/// Indexes the tensors that the file describes. The files of the ranks are opened as siblings.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    input.budget.check_header(source.len())?;
    let bytes = source.bytes(0, source.len())?.into_owned();
    let metadata = Metadata::read(&bytes, &mut input.budget)?;
    let mut index = Index::new(Format::Dcp, metadata.version.clone());
    let mut files: HashMap<&str, FileId> = HashMap::new();
    for name in metadata.files() {
        files.insert(name, input.sibling(name)?);
    }
    for (name, stored) in &metadata.state {
        let added = match stored {
            Stored::Tensor(tensor) => tensor_object(input, &files, &metadata, name, tensor)
                .and_then(|object| index.insert(name.clone(), object)),
            Stored::Bytes => {
                let place = metadata.place(name, &[])?;
                plain_value(input, &files, place).map(|value| match value {
                    Some(value) => drop(index.attributes.insert(name.clone(), value)),
                    None => index.skip(name.clone(), "an object that only torch.load reads"),
                })
            }
        };
        match added {
            Err(error) if error.kind() == Kind::Unsupported => index.skip(name.clone(), error.message()),
            added => added.map_err(|error| error.with_tensor(name))?,
        }
    }
    Ok(index)
}

fn tensor_object(
    input: &mut Input,
    files: &HashMap<&str, FileId>,
    metadata: &Metadata,
    name: &str,
    tensor: &Tensor,
) -> Result<Object> {
    input.budget.charge_object()?;
    let element = pytorch::element(&tensor.dtype)
        .ok_or_else(|| Error::unsupported(format!("elements of the type torch.{}", tensor.dtype)))?;
    let mut boxes = Vec::new();
    for chunk in &tensor.chunks {
        input.budget.charge(BOX_BYTES)?;
        let component = match chunk.sizes.contains(&0) {
            true => Component::encoded(element.clone(), Data::Inline(Arc::new([])), 0),
            false => {
                let place = metadata.place(name, &chunk.offsets)?;
                let object = saved_tensor(input, files, place)?;
                if object.shape != chunk.sizes {
                    return Err(Error::malformed(format!(
                        "a box should be {}, but what is stored for it is {}",
                        chunk.sizes, object.shape
                    )));
                }
                only_component(object)?
            }
        };
        boxes.push(StoredBox { offsets: chunk.offsets.clone(), sizes: chunk.sizes.clone(), component });
    }
    let boxes = Boxes::new(tensor.size.clone(), &element, boxes)?;
    let length = boxes.length();
    Ok(Object::dense(tensor.size.clone(), Component::encoded(element, Data::Boxes(Arc::new(boxes)), length)))
}

fn only_component(object: Object) -> Result<Component> {
    let layout = object.layout.clone();
    let mut components = object.components.into_iter();
    match (layout, components.next(), components.next()) {
        (Layout::Dense, Some((_, component)), None) => Ok(component),
        (layout, ..) => Err(Error::unsupported(format!("a {layout} tensor in boxes"))),
    }
}

/// The tensor that `torch.save` wrote to a place, with its byte ranges in the file.
fn saved_tensor(input: &mut Input, files: &HashMap<&str, FileId>, place: &Place) -> Result<Object> {
    let (file, part) = open_part(input, files, place)?;
    let mut inner =
        Input::of_files(vec![("part".to_owned(), Arc::new(part))], input.budget.limits().clone())?;
    std::mem::swap(&mut input.budget, &mut inner.budget);
    let head = inner.source().head(4096)?.into_owned();
    let found = match pytorch::matches(&head, &inner) {
        true => pytorch::index(&mut inner),
        false => Err(Error::unsupported("what is stored for it is no archive of torch.save")),
    };
    std::mem::swap(&mut input.budget, &mut inner.budget);
    let mut found = found?;
    let (Some((_, mut object)), true) = (found.objects.pop(), found.objects.is_empty()) else {
        let reason = found.skipped.first().map_or("it is not one tensor", |skipped| &skipped.reason);
        return Err(Error::unsupported(format!("what is stored for it: {reason}")));
    };
    let moved = |span: Span| Span { file, offset: span.offset + place.offset, length: span.length };
    object.components.iter_mut().for_each(|(_, component)| component.data.move_spans(&moved));
    Ok(object)
}

/// The plain value that `torch.save` wrote to a place; `None` if it is anything else.
fn plain_value(input: &mut Input, files: &HashMap<&str, FileId>, place: &Place) -> Result<Option<Value>> {
    if place.length > LONGEST_VALUE {
        return Ok(None);
    }
    let (_, part) = open_part(input, files, place)?;
    pytorch::plain_value(&part, &mut input.budget)
}

fn open_part(input: &Input, files: &HashMap<&str, FileId>, place: &Place) -> Result<(FileId, Source)> {
    if let Some(transform) = &place.transform {
        return Err(Error::unsupported(format!(
            "it was written through the extension \"{transform}\" of torch.distributed.checkpoint, which is not read here"
        )));
    }
    let file = files.get(place.file.as_str()).ok_or_else(|| Error::malformed("a file is not open"))?;
    let span = input.span(*file, place.offset, place.length)?;
    Ok((*file, part::source(input.file(*file)?, span)?))
}
