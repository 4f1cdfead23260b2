//! From the messages of a dataset to a tensor of the index: element type, shape, and where the bytes are.

use std::sync::Arc;

use super::chunks::{self, Grid};
use super::header::{Message, ObjectHeader, kind};
use super::image::Image;
use super::message::dataspace::Dataspace;
use super::message::datatype::{Class, Datatype, Elements};
use super::message::layout::{ChunkedLayout, Layout};
use super::message::{fill, filters};
use crate::error::{Error, Result};
use crate::index::{Chunked, Component, Data, Object};
use crate::limits::Budget;
use crate::tensor::{Attributes, Known, Shape, Value};

/// The most that the densest filter, deflate, can make of one stored byte.
const EXPANSION: u64 = 1032;
/// What a dataset may hold in fill values beyond that, so that a few bytes cannot ask for all memory.
const UNSTORED: u64 = 256 << 20;

/// Whether a header is that of a dataset.
pub(super) fn is_dataset(header: &ObjectHeader<'_>) -> bool {
    header.find(kind::LAYOUT).is_some()
}

/// The tensor that a dataset holds. An error of kind `Unsupported` says why there is none.
pub(super) fn tensor(
    image: &Image<'_>,
    budget: &mut Budget,
    header: &ObjectHeader<'_>,
    attributes: Attributes,
) -> Result<Object> {
    let datatype = datatype(image, header)?;
    let Elements { element, swapped, inner } = elements(&datatype, &attributes)?;
    let message = required(header, kind::DATASPACE, "dataspace")?;
    let dataspace = Dataspace::parse(&mut image.cursor(&message.body, message.address, "dataspace"))?;
    let Dataspace::Simple { dimensions, maximum } = dataspace else {
        return Err(Error::unsupported("it has a type but no elements"));
    };
    if header.find(kind::EXTERNAL_FILES).is_some() {
        return Err(Error::unsupported("its data lies in other files, which are not followed"));
    }
    let rank = dimensions.len();
    let mut shape = dimensions;
    inner.into_iter().try_for_each(|dimension| shape.push(dimension))?;
    let length = shape.elements().and_then(|count| element.byte_length(count));
    let length = length.ok_or_else(|| Error::malformed(format!("the size of shape {shape} overflows")))?;

    let message = required(header, kind::LAYOUT, "layout")?;
    let data = match Layout::parse(&mut image.cursor(&message.body, message.address, "layout"))? {
        _ if length == 0 => Data::Raw(image.span(0, 0)?),
        Layout::Compact { position, length: stored } => {
            same(stored, length)?;
            Data::Raw(image.span(message.address.saturating_add(position as u64), length)?)
        }
        Layout::Contiguous { address: Some(address), length: stored } => {
            same(stored.unwrap_or(length), length)?;
            Data::Raw(image.span(address, length)?)
        }
        Layout::Contiguous { address: None, .. } => {
            bounded(image, length)?;
            Data::Fill(fill_value(image, header, &datatype)?.into())
        }
        Layout::Chunked(layout) => {
            bounded(image, length)?;
            chunked(image, budget, header, &datatype, &layout, (&shape[..rank], &maximum))?
        }
    };
    let data = match swapped {
        Some(width) => Data::Swapped { width, inner: Box::new(data) },
        None => data,
    };
    let mut object = Object::dense(shape, Component::encoded(element, data, length));
    object.attributes = attributes;
    Ok(object)
}

fn required<'b, 'a>(header: &'b ObjectHeader<'a>, kind: u16, what: &str) -> Result<&'b Message<'a>> {
    let message = header.find(kind).ok_or_else(|| Error::malformed(format!("the dataset has no {what}")))?;
    if message.is_shared() {
        return Err(Error::unsupported(format!("its {what} is in the file's table of shared messages")));
    }
    Ok(message)
}

/// The datatype, which may be a named one that lies elsewhere.
fn datatype(image: &Image<'_>, header: &ObjectHeader<'_>) -> Result<Datatype> {
    let Some(message) = header.find(kind::DATATYPE).filter(|message| message.is_shared()) else {
        let message = required(header, kind::DATATYPE, "datatype")?;
        return Datatype::parse(&mut image.cursor(&message.body, message.address, "datatype"));
    };
    let mut cursor = image.cursor(&message.body, message.address, "shared datatype");
    let (version, place) = (cursor.version(1..=3)?, cursor.u8()?);
    cursor.skip(if version == 1 { 6 } else { 0 })?;
    if version == 3 && place != 2 {
        return Err(Error::unsupported("its datatype is in the file's table of shared messages"));
    }
    let named = ObjectHeader::read(image, cursor.place()?)?;
    let message = required(&named, kind::DATATYPE, "datatype")?;
    Datatype::parse(&mut image.cursor(&message.body, message.address, "datatype"))
}

/// The element type. Opaque bytes take the type that an attribute `dtype` names, as Keras writes it.
fn elements(datatype: &Datatype, attributes: &Attributes) -> Result<Elements> {
    if let (Class::Opaque { .. }, Some(name)) =
        (&datatype.class, attributes.get("dtype").and_then(Value::as_text))
    {
        let element =
            Known::find(|names| names.numpy.is_some_and(|numpy| numpy.from_ml_dtypes && numpy.name == name));
        let element = element.map(Known::element);
        if let Some(element) = element.filter(|element| element.bits() == Some(u64::from(datatype.size) * 8))
        {
            return Ok(Elements { element, swapped: None, inner: Vec::new() });
        }
    }
    datatype.elements()
}

/// One element of what was never written: the fill value, or zeros.
fn fill_value(image: &Image<'_>, header: &ObjectHeader<'_>, datatype: &Datatype) -> Result<Vec<u8>> {
    let size = datatype.size as usize;
    let stored = match (header.find(kind::FILL), header.find(kind::OLD_FILL)) {
        (Some(message), _) if message.is_shared() => {
            return Err(Error::unsupported("its fill value is in the file's table of shared messages"));
        }
        (Some(message), _) => fill::parse(&mut image.cursor(&message.body, message.address, "fill value"))?,
        (None, Some(message)) => {
            fill::parse_old(&mut image.cursor(&message.body, message.address, "fill value"))?
        }
        (None, None) => &[],
    };
    match stored.len() {
        // The size of an element is not backed by bytes of the file, so it is bounded before it is allocated.
        0 if size <= 1 << 16 => Ok(vec![0; size]),
        0 => Err(Error::unsupported(format!("elements of {size} bytes without a fill value"))),
        length if length == size => Ok(stored.to_vec()),
        length => Err(Error::malformed(format!("the fill value has {length} bytes, an element has {size}"))),
    }
}

fn chunked(
    image: &Image<'_>,
    budget: &mut Budget,
    header: &ObjectHeader<'_>,
    datatype: &Datatype,
    layout: &ChunkedLayout,
    (dimensions, maximum): (&[u64], &[Option<u64>]),
) -> Result<Data> {
    if layout.width != u64::from(datatype.size) {
        return Err(Error::malformed("the chunks have another element size than the dataset"));
    }
    let width = datatype.size as usize;
    let filters = match header.find(kind::FILTERS) {
        Some(message) if message.is_shared() => {
            return Err(Error::unsupported("its filters are in the file's table of shared messages"));
        }
        Some(message) => {
            filters::parse(&mut image.cursor(&message.body, message.address, "filter pipeline"), width)?
        }
        None => Vec::new(),
    };
    let grid = Grid::new(dimensions, maximum, layout)?;
    let chunks = chunks::list(image, budget, layout, &grid, !filters.is_empty())?;
    if chunks.is_empty() {
        return Ok(Data::Fill(fill_value(image, header, datatype)?.into()));
    }
    if let ([chunk], true) = (&*chunks, filters.is_empty() && grid.chunk() == dimensions) {
        return Ok(Data::Raw(chunk.span));
    }
    Ok(Data::Chunked(Arc::new(Chunked {
        shape: Shape::from(dimensions),
        chunk_shape: Shape::from(layout.dimensions.as_slice()),
        width,
        filters,
        chunks,
        fill: fill_value(image, header, datatype)?,
    })))
}

fn same(stored: u64, needed: u64) -> Result<()> {
    if stored == needed {
        return Ok(());
    }
    Err(Error::malformed(format!("{stored} bytes are stored, but the shape and type need {needed}")))
}

/// Refuses datasets that are larger than anything the file could have been made from.
fn bounded(image: &Image<'_>, length: u64) -> Result<()> {
    if length <= image.length().saturating_mul(EXPANSION).saturating_add(UNSTORED) {
        return Ok(());
    }
    Err(Error::unsupported(format!("it announces {length} bytes, far more than the file holds")))
}
