//! Tensors in boxes of other files: a `.zt` file whose attribute says of each tensor which parts of which files beside it make it up, as several writers wrote
//! them. `spec/zt.md` has the attribute.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::formats::Input;
use crate::index::{Boxes, Component, Data, FileId, Index, Object, StoredBox};
use crate::tensor::{Attributes, ElementType, Shape, Value};

/// The attribute's name.
pub(crate) const ATTRIBUTE: &str = "ztensor.boxes";
/// The name of the file in a folder that has one.
pub(crate) const FILE: &str = "boxes.zt";
/// The attribute's version.
const VERSION: u64 = 1;
/// Memory that a box takes in the index.
const BOX_BYTES: u64 = size_of::<StoredBox>() as u64;

/// The files that the attribute names; `None` where there is no such attribute.
pub(crate) fn files(attributes: &Attributes) -> Option<Vec<String>> {
    let Some(Value::Map(about)) = attributes.get(ATTRIBUTE) else { return None };
    let Some(Value::List(files)) = about.get("files") else { return None };
    files.iter().map(|file| file.as_text().map(str::to_owned)).collect()
}

/// Puts the tensors that the attribute describes in its place.
pub(super) fn take(input: &mut Input, index: &mut Index) -> Result<()> {
    let Some(Value::Map(about)) = index.attributes.get(ATTRIBUTE) else { return Ok(()) };
    if about.get("version").and_then(Value::as_u64) != Some(VERSION) {
        return Err(Error::unsupported("the boxes of this file were written by a later release")
            .with_hint("Update ztensor."));
    }
    let names = files(&index.attributes).ok_or_else(damaged)?;
    let Some(Value::Map(mut about)) = index.attributes.shift_remove(ATTRIBUTE) else { return Ok(()) };
    let Some(Value::List(tensors)) = about.shift_remove("tensors") else { return Err(damaged()) };
    let files: Vec<FileId> = names.iter().map(|name| input.sibling(name)).collect::<Result<_>>()?;
    for tensor in tensors {
        let Value::List(fields) = tensor else { return Err(damaged()) };
        let [Value::Text(name), Value::Text(element), Value::List(shape), Value::List(boxes)] = &fields[..]
        else {
            return Err(damaged());
        };
        input.budget.charge_object()?;
        input.budget.charge(BOX_BYTES.saturating_mul(boxes.len() as u64))?;
        let object = object(input, &files, element, shape, boxes).map_err(|error| error.with_tensor(name))?;
        index.insert(name.clone(), object)?;
    }
    Ok(())
}

fn object(
    input: &Input,
    files: &[FileId],
    element: &str,
    shape: &[Value],
    boxes: &[Value],
) -> Result<Object> {
    let element = ElementType::parse(element);
    let shape = Shape::new(numbers(shape)?);
    shape.check()?;
    let rank = shape.len();
    let stored = |value: &Value| {
        let Value::List(fields) = value else { return Err(damaged()) };
        let fields = numbers(fields)?;
        let [file, offset, place @ ..] = &fields[..] else { return Err(damaged()) };
        if place.len() != 2 * rank {
            return Err(Error::malformed("a box does not have the dimensions of the tensor"));
        }
        let file = usize::try_from(*file).ok().and_then(|file| files.get(file)).ok_or_else(damaged)?;
        let (offsets, sizes) = (Shape::from(&place[..rank]), Shape::from(&place[rank..]));
        let length = sizes.elements().and_then(|count| element.byte_length(count));
        let length = length.ok_or_else(|| Error::malformed("a box is too large"))?;
        let span = input.span(*file, *offset, length)?;
        Ok(StoredBox { offsets, sizes, component: Component::raw(element.clone(), span) })
    };
    let boxes = boxes.iter().map(stored).collect::<Result<_>>()?;
    let boxes = Boxes::new(shape.clone(), &element, boxes)?;
    let length = boxes.length();
    Ok(Object::dense(shape, Component::encoded(element, Data::Boxes(Arc::new(boxes)), length)))
}

fn numbers(values: &[Value]) -> Result<Vec<u64>> {
    values.iter().map(|value| value.as_u64().ok_or_else(damaged)).collect()
}

fn damaged() -> Error {
    Error::malformed(format!("the attribute \"{ATTRIBUTE}\" is damaged"))
}
