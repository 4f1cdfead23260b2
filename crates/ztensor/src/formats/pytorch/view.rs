//! A view into a storage as the index describes it: a plain byte range where the elements lie contiguously, strides over one otherwise,
//! wrapped in what else has to be done to the bytes.

use super::rebuild::{Dense, Reading, skipped};
use super::storage::Storage;
use super::types::Scalar;
use crate::error::Error;
use crate::index::{Component, Data, Span, Strided};
use crate::tensor::Shape;

/// A view that repeats elements (`expand`) may announce any size over a tiny storage. Up to this many bytes it is always read, …
const EXPANDED_BYTES: u64 = 1 << 30;
/// … and beyond them only up to this many times its storage.
const EXPANDED_RATIO: u64 = 256;

/// Which elements of a storage make up a tensor, counted in elements.
pub(super) struct View {
    pub offset: u64,
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
    pub conjugated: bool,
    pub negated: bool,
}

/// The tensor that a view makes of a storage.
pub(super) fn dense(storage: &Storage, scalar: Scalar, view: View, big_endian: bool) -> Reading<Dense> {
    let overflow = || Error::malformed("the shape of a tensor overflows");
    let element = scalar
        .element()
        .ok_or_else(|| skipped(format!("elements of dtype torch.{} are not read", scalar.name)))?;
    let View { offset, shape, strides, conjugated, negated } = view;
    if shape.len() != strides.len() {
        return Err(Error::malformed("shape and strides of a tensor differ in length").into());
    }
    let shape = Shape::from(shape);
    let count = shape.elements().ok_or_else(overflow)?;
    let length = count.checked_mul(scalar.width).ok_or_else(overflow)?;

    let mut data = if count == 0 {
        empty(storage)
    } else {
        let extent = extent(offset, &shape, &strides).filter(|end| {
            end.checked_mul(i128::from(scalar.width)).is_some_and(|end| end <= i128::from(storage.length))
        });
        // The extent is inside the storage, so the products below cannot overflow.
        let Some(extent) = extent.and_then(|end| u64::try_from(end).ok()) else {
            return Err(Error::malformed("the view of a tensor reaches outside its storage").into());
        };
        if length > EXPANDED_BYTES.max(storage.length.saturating_mul(EXPANDED_RATIO)) {
            return Err(skipped(format!(
                "it is an expanded view of {length} bytes over a storage of {}",
                storage.length
            )));
        }
        let stored = storage.data.clone().map_err(skipped)?;
        let start = storage.start + offset * scalar.width;
        let reach = (extent - offset) * scalar.width;
        if is_contiguous(&shape, &strides) {
            contiguous(stored, storage, start, length)
        } else if scalar.packed() > 1 {
            return Err(skipped(format!("it is a strided view of the packed dtype torch.{}", scalar.name)));
        } else {
            strided(stored, storage, (start, reach), &shape, byte_strides(&shape, &strides, scalar.width))
        }
    };
    let width = scalar.swap_width();
    if big_endian && width > 1 {
        data = Data::Swapped { width, inner: Box::new(data) };
    }
    if conjugated {
        data = Data::Negated { imaginary_only: true, inner: Box::new(data) };
    }
    if negated {
        data = Data::Negated { imaginary_only: false, inner: Box::new(data) };
    }
    let shape = if scalar.packed() > 1 { unpacked(&shape, scalar)? } else { shape };
    Ok(Dense { shape, scalar, component: Component::encoded(element, data, length) })
}

/// The shape in logical elements, where PyTorch counts several as one.
fn unpacked(shape: &[u64], scalar: Scalar) -> Reading<Shape> {
    let mut shape = shape.to_vec();
    let last = shape
        .last_mut()
        .ok_or_else(|| skipped(format!("it is a scalar of the packed dtype torch.{}", scalar.name)))?;
    *last = last
        .checked_mul(scalar.packed())
        .ok_or_else(|| Error::malformed("the shape of a tensor overflows"))?;
    Ok(Shape::from(shape))
}

fn empty(storage: &Storage) -> Data {
    match &storage.data {
        Ok(Data::Raw(span)) => Data::Raw(Span { length: 0, ..*span }),
        _ => Data::Inline([].as_slice().into()),
    }
}

/// One past the last element that the view reaches.
fn extent(offset: u64, shape: &[u64], strides: &[u64]) -> Option<i128> {
    shape.iter().zip(strides).try_fold(i128::from(offset) + 1, |end, (dimension, stride)| {
        end.checked_add(i128::from(dimension.saturating_sub(1)).checked_mul(i128::from(*stride))?)
    })
}

fn is_contiguous(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1u64;
    shape.iter().zip(strides).rev().all(|(dimension, stride)| {
        let fits = *dimension == 1 || *stride == expected;
        expected = expected.saturating_mul(*dimension);
        fits
    })
}

fn contiguous(stored: Data, storage: &Storage, start: u64, length: u64) -> Data {
    match stored {
        Data::Raw(span) => Data::Raw(Span { offset: span.offset + start, length, ..span }),
        whole if start == 0 && length == storage.buffer_length => whole,
        inner => Data::Strided(Box::new(Strided {
            inner,
            inner_length: storage.buffer_length,
            offset: start,
            shape: Shape::from([length]),
            strides: vec![1],
        })),
    }
}

fn strided(
    stored: Data,
    storage: &Storage,
    (start, reach): (u64, u64),
    shape: &[u64],
    strides: Vec<i64>,
) -> Data {
    // Plain bytes are narrowed to what the view reaches; others have to be decoded whole.
    let (inner, inner_length, offset) = match stored {
        Data::Raw(span) => (Data::Raw(Span { offset: span.offset + start, length: reach, ..span }), reach, 0),
        other => (other, storage.buffer_length, start),
    };
    Data::Strided(Box::new(Strided { inner, inner_length, offset, shape: Shape::from(shape), strides }))
}

/// Strides in bytes. Those of dimensions that are never stepped over may be anything in the file; here they continue the dimension
/// inside them, so that runs are seen as runs.
fn byte_strides(shape: &[u64], strides: &[u64], width: u64) -> Vec<i64> {
    let mut continuing = width;
    let mut bytes: Vec<i64> = shape
        .iter()
        .zip(strides)
        .rev()
        .map(|(dimension, stride)| {
            let stride = if *dimension == 1 { continuing } else { stride.saturating_mul(width) };
            continuing = stride.saturating_mul(*dimension);
            i64::try_from(stride).unwrap_or(i64::MAX)
        })
        .collect();
    bytes.reverse();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_of_one_do_not_break_contiguity() {
        assert!(is_contiguous(&[2, 1, 3], &[3, 77, 1]));
        assert!(is_contiguous(&[], &[]));
        assert!(!is_contiguous(&[2, 3], &[1, 2]));
        assert!(!is_contiguous(&[2, 3], &[0, 1]));
    }

    #[test]
    fn the_extent_of_absurd_views_does_not_wrap() {
        assert_eq!(extent(1, &[2, 3], &[3, 1]), Some(7));
        assert_eq!(extent(u64::MAX, &[], &[]), Some(1 << 64));
        assert!(extent(0, &[u64::MAX; 3], &[u64::MAX; 3]).is_none_or(|end| end > i128::from(u64::MAX)));
    }
}
