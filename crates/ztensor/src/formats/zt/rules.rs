//! The rules an object must keep, whatever generation of the container it comes from: the size equations of each layout, and blobs that are identical or
//! disjoint.

use crate::error::{Error, Result};
use crate::index::{Component, Data, Object, Span};
use crate::tensor::Layout;

/// Checks the size equations of an object.
pub(crate) fn check_object(object: &Object) -> Result<()> {
    object.shape.check()?;
    for (role, component) in &object.components {
        check_component(component).map_err(|error| error.with_context(&format!("component \"{role}\"")))?;
    }
    let count = |role: &str| -> Result<Option<u64>> {
        let component = object.component(role);
        component
            .ok_or_else(|| Error::malformed(format!("a {} tensor without \"{role}\"", object.layout)))
            .map(Component::elements)
    };
    let elements = object
        .shape
        .elements()
        .ok_or_else(|| Error::malformed(format!("the product of shape {} overflows", object.shape)))?;
    match &object.layout {
        Layout::Dense => {
            let data = object
                .component("data")
                .ok_or_else(|| Error::malformed("a dense tensor without \"data\""))?;
            let expected = data.element.byte_length(elements);
            if data.element.bits().is_some() && expected != Some(data.length) {
                return Err(Error::malformed(format!(
                    "shape {} of {} takes {} bytes, but the data has {}",
                    object.shape,
                    data.element,
                    expected.map_or("too many".to_owned(), |bytes| bytes.to_string()),
                    data.length
                )));
            }
        }
        Layout::SparseCsr => {
            let &[rows, _] = &*object.shape else {
                return Err(Error::malformed("a sparse_csr tensor needs two dimensions"));
            };
            require_elements(object, "values", count("indices")?)?;
            require_elements(object, "indptr", rows.checked_add(1))?;
        }
        Layout::SparseCoo => {
            let rank = object.shape.len() as u64;
            let coordinates = count("coords")?;
            let values = coordinates.and_then(|count| count.checked_div(rank));
            if coordinates
                .is_some_and(|count| values.and_then(|values| values.checked_mul(rank)) != Some(count))
            {
                return Err(Error::malformed(format!("the coordinates are not {rank} for each value")));
            }
            require_elements(object, "values", values)?;
        }
        Layout::QuantizedGroup | Layout::Other(_) => {}
    }
    Ok(())
}

fn check_component(component: &Component) -> Result<()> {
    if !component.length.is_multiple_of(component.element.storage.width() as u64) {
        return Err(Error::malformed(format!(
            "{} bytes are not a whole number of {} elements",
            component.length, component.element.storage
        )));
    }
    Ok(())
}

/// Checks that a component has this many elements, as far as its type and the number are known. The number follows from the indices: that of
/// packed values is not certain from their bytes.
fn require_elements(object: &Object, role: &str, count: Option<u64>) -> Result<()> {
    let component = object
        .component(role)
        .ok_or_else(|| Error::malformed(format!("a {} tensor without \"{role}\"", object.layout)))?;
    match (component.element.bits(), count) {
        (Some(_), Some(count)) if component.element.byte_length(count) != Some(component.length) => {
            Err(Error::malformed(format!(
                "\"{role}\" has {} bytes, which are not {count} elements of {}",
                component.length, component.element
            )))
        }
        _ => Ok(()),
    }
}

/// Where an object's bytes lie in the container.
pub(crate) fn spans(object: &Object) -> impl Iterator<Item = Span> + Clone {
    object.components.iter().filter_map(|(_, component)| match component.data {
        Data::Raw(span) | Data::Zstd(span) | Data::ZstdSeekable(span) | Data::Z4ai(span) => Some(span),
        _ => None,
    })
}

/// The same, each with the name of its tensor.
pub(crate) fn blobs<'a>(name: &'a str, object: &'a Object) -> impl Iterator<Item = (Span, &'a str)> + Clone {
    spans(object).map(move |span| (span, name))
}

/// Checks that the blobs of one file are aligned, lie in its data part, and are identical (tied weights) or disjoint. Writers place blobs in the order of
/// their tensors, so that one look at each usually settles it.
pub(crate) fn check_blobs<'a>(
    blobs: impl Iterator<Item = (Span, &'a str)> + Clone,
    data: std::ops::Range<u64>,
    alignment: u64,
) -> Result<()> {
    let (mut position, mut ascending) = (0, true);
    for (span, name) in blobs.clone() {
        let end = span.offset.checked_add(span.length).filter(|end| *end <= data.end);
        match end.filter(|_| span.offset >= data.start && span.offset.is_multiple_of(alignment)) {
            Some(end) => {
                ascending &= span.offset >= position;
                position = end;
            }
            None => return Err(misplaced(span, name, alignment)),
        }
    }
    if ascending { Ok(()) } else { check_disjoint(blobs.filter(|(span, _)| span.length > 0).collect()) }
}

fn misplaced(span: Span, name: &str, alignment: u64) -> Error {
    let rule = if span.offset.is_multiple_of(alignment) {
        format!("its {} bytes at offset {} do not lie in the data part of the file", span.length, span.offset)
    } else {
        format!("its offset {} is not a multiple of {alignment}", span.offset)
    };
    Error::malformed(rule).with_tensor(name).with_offset(span.offset)
}

fn check_disjoint(mut blobs: Vec<(Span, &str)>) -> Result<()> {
    blobs.sort_unstable();
    for pair in blobs.windows(2) {
        let [(span, name), (next, other)] = pair else { continue };
        if span != next && span.offset + span.length > next.offset {
            return Err(Error::malformed(format!("its bytes overlap those of \"{name}\""))
                .with_tensor(other)
                .with_offset(next.offset));
        }
    }
    Ok(())
}
