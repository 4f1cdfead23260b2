//! The values of a tree as a pickle.

use std::borrow::Cow;

use super::super::pickle::opcode::*;
use super::pickler::{BATCH, Pickler};
use super::tensors::{Form, Tensors};
use super::{WriteEntry, WritePart};
use crate::error::{Error, Hints, Result};
use crate::tree::{DEEPEST, Leaf, Tree, too_deep};

/// Gives the bytes of a part.
pub(super) type Bytes<'f, 'a> = dyn FnMut(&WriteEntry<'_>, &WritePart<'_>) -> Result<Cow<'a, [u8]>> + 'f;

/// The pickle of a tree.
pub(super) fn pickle(tree: &Tree, tensors: &mut Tensors<'_>, bytes: &mut Bytes<'_, '_>) -> Result<Vec<u8>> {
    if let Some((place, what)) = tree.unread().first() {
        return Err(Error::unsupported(format!(
            "the tree has something at {place} that was not read and cannot be written: {what}"
        ))
        .with_hints(Hints::new(
            "Write a .zt file, or replace it in the tree.",
            "Replace or remove it in the tree, or name the file .zt.",
            "Name the output .zt.",
        )));
    }
    let mut pickler = Pickler::new();
    value(&mut pickler, tree, tensors, bytes, 0)?;
    Ok(pickler.finish())
}

fn value(
    pickler: &mut Pickler,
    tree: &Tree,
    tensors: &mut Tensors<'_>,
    bytes: &mut Bytes<'_, '_>,
    depth: usize,
) -> Result<()> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    match tree {
        Tree::None => pickler.op(NONE),
        Tree::Bool(value) => pickler.boolean(*value),
        Tree::Integer(digits) => pickler.digits(digits)?,
        Tree::Float(value) => pickler.float(*value),
        Tree::Complex(real, imaginary) => {
            pickler.global("__builtin__", "complex");
            pickler.float(*real);
            pickler.float(*imaginary);
            pickler.op(TUPLE2);
            pickler.op(REDUCE);
        }
        Tree::Text(text) => pickler.text(text)?,
        Tree::Bytes(bytes) => pickler.bytes(bytes)?,
        Tree::ByteArray(bytes) => {
            pickler.global("__builtin__", "bytearray");
            pickler.bytes(bytes)?;
            pickler.op(TUPLE1);
            pickler.op(REDUCE);
        }
        Tree::List(items) => list(pickler, items, tensors, bytes, depth)?,
        Tree::Tuple(items) => tuple(pickler, items, tensors, bytes, depth)?,
        Tree::Set(items) => {
            pickler.global("__builtin__", "set");
            list(pickler, items, tensors, bytes, depth)?;
            pickler.op(TUPLE1);
            pickler.op(REDUCE);
        }
        Tree::FrozenSet(items) => {
            pickler.global("__builtin__", "frozenset");
            list(pickler, items, tensors, bytes, depth)?;
            pickler.op(TUPLE1);
            pickler.op(REDUCE);
        }
        Tree::Size(items) => {
            pickler.global("torch", "Size");
            tuple(pickler, items, tensors, bytes, depth)?;
            pickler.op(TUPLE1);
            pickler.op(REDUCE);
        }
        Tree::Dict(pairs) => {
            pickler.op(EMPTY_DICT);
            entries(pickler, pairs, tensors, bytes, depth)?;
        }
        Tree::Ordered(pairs, attributes) => {
            pickler.no_hooks();
            entries(pickler, pairs, tensors, bytes, depth)?;
            if let Some(attributes) = attributes {
                value(pickler, attributes, tensors, bytes, depth + 1)?;
                pickler.op(BUILD);
            }
        }
        Tree::Tensor(Leaf::Tensor, name) => tensors.tensor(pickler, name)?,
        Tree::Tensor(Leaf::Parameter { trained }, name) => tensors.parameter(pickler, name, *trained)?,
        Tree::Tensor(Leaf::Numpy, name) => tensors.array(pickler, name, bytes)?,
        Tree::Tensor(Leaf::Scalar, name) => tensors.scalar(pickler, name, bytes)?,
        Tree::Attributed(tensor, attributes) => {
            let text = tree.text();
            if !tensors.recall(pickler, &text) {
                attributed(pickler, tensor, attributes, tensors, bytes, depth)?;
                tensors.remember(pickler, text);
            }
        }
        Tree::Typed(dtype, bytes) => tensors.typed(pickler, dtype, bytes)?,
        Tree::Dtype(name) => {
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if super::super::types::dtype(name).is_none() || !is_name {
                return Err(Error::unsupported(format!(
                    "\"{name}\" is no dtype that PyTorch is known to have"
                )));
            }
            pickler.global("torch", name);
        }
        Tree::Device(name) => {
            pickler.global("torch", "device");
            match name.split_once(':').map(|(kind, number)| (kind, number.parse())) {
                Some((kind, Ok(number))) => {
                    pickler.text(kind)?;
                    pickler.integer(number);
                    pickler.op(TUPLE2);
                }
                _ => {
                    pickler.text(name)?;
                    pickler.op(TUPLE1);
                }
            }
            pickler.op(REDUCE);
        }
        // Found before.
        Tree::Unread(what) => return Err(Error::unsupported(what.clone())),
    }
    Ok(())
}

/// A tensor with attributes. Whether gradients are kept for it is one that PyTorch has a place of its own for.
fn attributed(
    pickler: &mut Pickler,
    tensor: &Tree,
    attributes: &[(String, Tree)],
    tensors: &mut Tensors<'_>,
    bytes: &mut Bytes<'_, '_>,
    depth: usize,
) -> Result<()> {
    let gradients = |(name, _): &&(String, Tree)| name == "requires_grad";
    let trained = attributes.iter().find(gradients).is_some_and(|(_, value)| *value == Tree::Bool(true));
    let state = attributes.iter().filter(|attribute| !gradients(attribute));
    let state: Vec<_> = state.map(|(name, value)| (Tree::Text(name.clone()), value.clone())).collect();
    match tensor {
        Tree::Tensor(Leaf::Tensor, name) if state.is_empty() => {
            return tensors.rebuilt(pickler, name, Form { trained, typed: false });
        }
        Tree::Tensor(Leaf::Tensor, name) => {
            pickler.global("torch._tensor", "_rebuild_from_type_v2");
            pickler.op(MARK);
            tensors.rebuilt(pickler, name, Form { trained, typed: true })?;
        }
        Tree::Tensor(Leaf::Parameter { trained }, name) => {
            pickler.global("torch._utils", "_rebuild_parameter_with_state");
            pickler.op(MARK);
            tensors.tensor(pickler, name)?;
            pickler.boolean(*trained);
            pickler.no_hooks();
        }
        other if state.is_empty() => return value(pickler, other, tensors, bytes, depth),
        _ => return Err(Error::unsupported("NumPy's arrays have no attributes, so that a pickle has none")),
    }
    pickler.op(EMPTY_DICT);
    entries(pickler, &state, tensors, bytes, depth)?;
    pickler.op(TUPLE);
    pickler.op(REDUCE);
    Ok(())
}

fn list(
    pickler: &mut Pickler,
    items: &[Tree],
    tensors: &mut Tensors<'_>,
    bytes: &mut Bytes<'_, '_>,
    depth: usize,
) -> Result<()> {
    pickler.op(EMPTY_LIST);
    for batch in items.chunks(BATCH) {
        pickler.op(MARK);
        batch.iter().try_for_each(|item| value(pickler, item, tensors, bytes, depth + 1))?;
        pickler.op(APPENDS);
    }
    Ok(())
}

fn tuple(
    pickler: &mut Pickler,
    items: &[Tree],
    tensors: &mut Tensors<'_>,
    bytes: &mut Bytes<'_, '_>,
    depth: usize,
) -> Result<()> {
    if items.is_empty() {
        pickler.op(EMPTY_TUPLE);
        return Ok(());
    }
    pickler.op(MARK);
    items.iter().try_for_each(|item| value(pickler, item, tensors, bytes, depth + 1))?;
    pickler.op(TUPLE);
    Ok(())
}

fn entries(
    pickler: &mut Pickler,
    entries: &[(Tree, Tree)],
    tensors: &mut Tensors<'_>,
    bytes: &mut Bytes<'_, '_>,
    depth: usize,
) -> Result<()> {
    for batch in entries.chunks(BATCH) {
        pickler.op(MARK);
        for (key, item) in batch {
            value(pickler, key, tensors, bytes, depth + 1)?;
            value(pickler, item, tensors, bytes, depth + 1)?;
        }
        pickler.op(SETITEMS);
    }
    Ok(())
}
