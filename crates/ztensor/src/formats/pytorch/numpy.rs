//! NumPy arrays inside a pickle, whose elements stand in the pickle itself: as bytes since protocol 3, as Latin-1 text before.

use std::sync::Arc;

use super::globals::Known;
use super::pickle::{Call, Id, Node};
use super::rebuild::{Reading, Rebuilder, skipped};
use super::storage::Storage;
use super::types::{self, Scalar};
use super::view::{self, View};
use crate::error::Error;
use crate::index::{Data, Object};
use crate::tensor::Value;

/// Bytes of the widest element.
const LONGEST_SCALAR: usize = 16;

/// The array that `_reconstruct` makes once it is given its state (version, shape, dtype, whether it is in Fortran order, elements), or
/// that `_frombuffer` makes of its arguments (elements, dtype, shape, order).
pub(super) fn object(rebuilder: &Rebuilder<'_, '_>, call: &Call) -> Reading<Object> {
    let wrong = || Error::malformed("the state of a NumPy array is not of the known form");
    let part =
        if rebuilder.known(call.callable) == Known::NumpyBuffer { Some(call.arguments) } else { call.state };
    let parts = part.and_then(|part| rebuilder.arena.items(part)).ok_or_else(wrong)?;
    let (shape, dtype, order, elements) = match parts {
        [_version, shape, dtype, fortran, elements] => (shape, dtype, fortran, elements),
        [elements, dtype, shape, order] => (shape, dtype, order, elements),
        _ => return Err(wrong().into()),
    };
    let fortran = matches!(rebuilder.arena.get(*order), Node::Bool(true) | Node::Text("F"));
    let (scalar, big_endian) = element_type(rebuilder, *dtype)?;
    let shape = rebuilder.dimensions(*shape)?;
    let strides = strides(&shape, fortran).ok_or_else(wrong)?;
    let (data, length) = bytes(rebuilder, *elements)?;
    let count = shape.iter().try_fold(1u64, |count, dimension| count.checked_mul(*dimension));
    if count.and_then(|count| count.checked_mul(scalar.width)) != Some(length) {
        return Err(Error::malformed(format!(
            "{length} bytes are not the elements of a NumPy array of shape {shape:?}"
        ))
        .into());
    }
    let storage = Storage { data: Ok(data), buffer_length: length, start: 0, length, scalar };
    let view = View { offset: 0, shape, strides, conjugated: false, negated: false };
    let dense = view::dense(&storage, scalar, view, big_endian)?;
    Ok(Object::dense(dense.shape, dense.component))
}

/// The type and the little-endian bytes of a NumPy scalar, `scalar(dtype, bytes)`.
pub(super) fn typed(rebuilder: &Rebuilder<'_, '_>, call: &Call) -> Option<(&'static str, Vec<u8>)> {
    let [dtype, bytes] = rebuilder.arena.items(call.arguments)? else { return None };
    let (scalar, big_endian) = element_type(rebuilder, *dtype).ok()?;
    let encoded =
        rebuilder.arena.call(*bytes).and_then(|call| rebuilder.arena.items(call.arguments)?.first().copied());
    if rebuilder.arena.text(encoded.unwrap_or(*bytes)).is_some_and(|text| text.len() > 2 * LONGEST_SCALAR) {
        return None;
    }
    let mut bytes = raw_bytes(rebuilder, *bytes).filter(|bytes| bytes.len() <= LONGEST_SCALAR)?.into_owned();
    if big_endian {
        bytes.chunks_mut(usize::from(scalar.swap_width())).for_each(<[u8]>::reverse);
    }
    (bytes.len() as u64 == scalar.width).then_some((scalar.name, bytes))
}

/// The value of a NumPy scalar.
pub(super) fn scalar(rebuilder: &Rebuilder<'_, '_>, call: &Call) -> Option<Value> {
    let (name, bytes) = typed(rebuilder, call)?;
    Value::of_number(name, &bytes)
}

/// The type of `dtype('f4', False, True)` and whether its state says big-endian.
fn element_type(rebuilder: &Rebuilder<'_, '_>, id: Id) -> Reading<(Scalar, bool)> {
    let wrong = || Error::malformed("the dtype of a NumPy array is not of the known form");
    let call = rebuilder.arena.call(id).filter(|call| rebuilder.known(call.callable) == Known::NumpyDtype);
    let call = call.ok_or_else(wrong)?;
    let code =
        rebuilder.arena.items(call.arguments).and_then(|arguments| rebuilder.arena.text(*arguments.first()?));
    let code = code.ok_or_else(wrong)?;
    let name = match code {
        "b1" => "bool",
        "i1" => "int8",
        "i2" => "int16",
        "i4" => "int32",
        "i8" => "int64",
        "u1" => "uint8",
        "u2" => "uint16",
        "u4" => "uint32",
        "u8" => "uint64",
        "f2" => "float16",
        "f4" => "float32",
        "f8" => "float64",
        "c8" => "complex64",
        "c16" => "complex128",
        _ => return Err(skipped(format!("it is a NumPy array of type \"{code}\""))),
    };
    let scalar = types::dtype(name).ok_or_else(wrong)?;
    let state = call.state.and_then(|state| rebuilder.arena.items(state)).unwrap_or_default();
    let order = state.get(1).and_then(|order| rebuilder.arena.text(*order));
    Ok((scalar, order == Some(">")))
}

fn strides(shape: &[u64], fortran: bool) -> Option<Vec<u64>> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1u64;
    let mut set = |(stride, dimension): (&mut u64, &u64)| {
        *stride = next;
        next = next.checked_mul(*dimension)?;
        Some(())
    };
    let mut pairs = strides.iter_mut().zip(shape);
    if fortran {
        pairs.try_for_each(&mut set)?
    } else {
        pairs.rev().try_for_each(&mut set)?
    }
    Some(strides)
}

/// The elements: a range of the file where they stand there as they are.
fn bytes(rebuilder: &Rebuilder<'_, '_>, id: Id) -> Reading<(Data, u64)> {
    if let Node::Bytes(bytes) | Node::ByteArray(bytes) = rebuilder.arena.get(id)
        && let Some(span) = rebuilder.place.span_of(bytes)
    {
        return Ok((Data::Raw(span), span.length));
    }
    let mut decoded = rebuilder.decoded.borrow_mut();
    let bytes: &Arc<[u8]> = match decoded.entry(id) {
        std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::hash_map::Entry::Vacant(entry) => {
            let bytes =
                raw_bytes(rebuilder, id).ok_or_else(|| skipped("it is a NumPy array of Python objects"))?;
            entry.insert(bytes.into())
        }
    };
    Ok((Data::Inline(Arc::clone(bytes)), bytes.len() as u64))
}

/// Bytes as pickles of any protocol spell them.
fn raw_bytes<'p>(rebuilder: &Rebuilder<'p, '_>, id: Id) -> Option<std::borrow::Cow<'p, [u8]>> {
    let arena = rebuilder.arena;
    match arena.get(id) {
        Node::Bytes(bytes) | Node::ByteArray(bytes) => Some((*bytes).into()),
        Node::OwnedBytes(bytes) => Some(bytes.as_ref().into()),
        // Python 2 knew no difference.
        Node::Text(text) => Some(text.as_bytes().into()),
        Node::OwnedText(text) => Some(text.as_bytes().into()),
        Node::Call(_) => {
            // `_codecs.encode(text, 'latin1')` stands for bytes before protocol 3, and `bytes()` for none.
            let call = arena.call(id)?;
            match (rebuilder.known(call.callable), arena.items(call.arguments)?) {
                (Known::Encode, [text, ..]) => {
                    let text = arena.text(*text)?;
                    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
                }
                (Known::NoBytes, []) => Some([].as_slice().into()),
                _ => None,
            }
        }
        _ => None,
    }
}
