//! From a header and the place of the bytes to an object: the size equation, byte order and Fortran order.

use super::header::Header;
use crate::error::{Error, Result};
use crate::index::{Component, Data, Object, PackedMember, Span, Strided};
use crate::tensor::Shape;

/// Where a whole array lies, header included.
pub(super) enum Storage {
    Plain(Span),
    /// A compressed member and its length once decoded.
    Packed(PackedMember, u64),
}

/// The object that a header describes; its elements start at `data` in the array.
pub(super) fn object(header: Header, data: u64, storage: Storage) -> Result<Object> {
    let kind = header.kind.map_err(Error::unsupported)?;
    let shape = header.shape;
    let length = shape.elements().and_then(|count| kind.element.byte_length(count));
    let length = length.ok_or_else(|| Error::malformed(format!("the shape {shape} overflows")))?;
    let available = match &storage {
        Storage::Plain(span) => span.length,
        Storage::Packed(_, decoded) => *decoded,
    };
    check_size(data, length, available)?;
    let mut data = match storage {
        Storage::Plain(Span { file, offset, .. }) => Data::Raw(Span { file, offset: offset + data, length }),
        Storage::Packed(member, _) => Data::PackedMember(Box::new(member)),
    };
    if let Some(width) = kind.swapped {
        data = Data::Swapped { width, inner: Box::new(data) };
    }
    if header.fortran_order && shape.iter().filter(|&&dimension| dimension != 1).count() > 1 && length > 0 {
        let width = kind.element.byte_length(1).unwrap_or(0);
        let strides = column_major(&shape, width)
            .ok_or_else(|| Error::malformed(format!("the shape {shape} overflows")))?;
        let view = Strided { inner: data, inner_length: length, offset: 0, shape: shape.clone(), strides };
        data = Data::Strided(Box::new(view));
    }
    Ok(Object::dense(shape, Component::encoded(kind.element, data, length)))
}

/// Header and elements must take all of the bytes there are.
fn check_size(data: u64, length: u64, available: u64) -> Result<()> {
    let needed = data.checked_add(length);
    match needed {
        Some(needed) if needed == available => Ok(()),
        Some(needed) if needed < available => Err(Error::malformed(format!(
            "{} bytes stand behind the elements that the header announces",
            available - needed
        ))),
        _ => Err(Error::truncated(format!(
            "the header announces {length} bytes of elements, but {} are there",
            available.saturating_sub(data)
        ))),
    }
}

/// Byte strides of an array whose first dimension varies fastest.
fn column_major(shape: &Shape, width: u64) -> Option<Vec<i64>> {
    let mut stride = i64::try_from(width).ok()?;
    let mut strides = Vec::with_capacity(shape.len());
    for &dimension in shape.iter() {
        strides.push(stride);
        stride = stride.checked_mul(i64::try_from(dimension).ok()?)?;
    }
    Some(strides)
}
