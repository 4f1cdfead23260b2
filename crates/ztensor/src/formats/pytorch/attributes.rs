//! Plain values of a checkpoint (epoch, learning rate, configuration) as the file's metadata, up to a bound.

use super::pickle::{Arena, Id, Node};
use crate::index::Index;
use crate::tensor::{Attributes, Value};

/// Metadata beyond this many bytes is not kept.
const MOST_BYTES: usize = 4 << 20;
/// What an entry takes besides its texts.
const ENTRY_BYTES: usize = 64;

#[derive(Default)]
pub(super) struct Collected {
    attributes: Attributes,
    bytes: usize,
    left_out: bool,
}

impl Collected {
    /// Keeps one value, if it is plain.
    pub(super) fn value(&mut self, path: &str, node: &Node<'_>) {
        if let Some(length) = plain_length(node)
            && self.fits(path.len() + length + ENTRY_BYTES)
            && let Some(value) = plain(node)
        {
            self.attributes.insert(path.to_owned(), value);
        }
    }

    /// Keeps a number that is already a value.
    pub(super) fn keep(&mut self, path: &str, value: Value) {
        if self.fits(path.len() + ENTRY_BYTES) {
            self.attributes.insert(path.to_owned(), value);
        }
    }

    /// Keeps a list whose items are all plain; says whether it was one.
    pub(super) fn list(&mut self, arena: &Arena<'_>, path: &str, id: Id) -> bool {
        let Some(items @ [_, ..]) = arena.items(id) else { return false };
        let lengths: Option<usize> =
            items.iter().map(|item| plain_length(arena.get(*item)).map(|length| length + ENTRY_BYTES)).sum();
        let Some(length) = lengths else { return false };
        if self.fits(path.len() + length) {
            let values = items.iter().filter_map(|item| plain(arena.get(*item))).collect();
            self.attributes.insert(path.to_owned(), Value::List(values));
        }
        true
    }

    fn fits(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= MOST_BYTES;
        if fits {
            self.bytes += bytes;
        } else {
            self.left_out = true;
        }
        fits
    }

    pub(super) fn finish(self, index: &mut Index) {
        index.attributes.extend(self.attributes);
        if self.left_out {
            let reason = format!("plain values beyond {} MiB are not kept as metadata", MOST_BYTES >> 20);
            index.skip("(metadata)", reason);
        }
    }
}

/// A value that is plain, or a list of such.
pub(super) fn plain_value(arena: &Arena<'_>, id: Id) -> Option<Value> {
    match arena.items(id) {
        Some(items) => {
            items.iter().map(|item| plain(arena.get(*item))).collect::<Option<_>>().map(Value::List)
        }
        None => plain(arena.get(id)),
    }
}

fn plain_length(node: &Node<'_>) -> Option<usize> {
    match node {
        Node::None | Node::Bool(_) | Node::Integer(_) | Node::WideInteger(_) | Node::Float(_) => Some(0),
        Node::Text(text) => Some(text.len()),
        Node::OwnedText(text) => Some(text.len()),
        Node::Bytes(bytes) | Node::ByteArray(bytes) => Some(bytes.len()),
        Node::OwnedBytes(bytes) => Some(bytes.len()),
        _ => None,
    }
}

fn plain(node: &Node<'_>) -> Option<Value> {
    Some(match node {
        Node::None => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Integer(value) => Value::Integer((*value).into()),
        Node::WideInteger(value) => Value::Integer(**value),
        Node::Float(value) => Value::Float(*value),
        Node::Text(text) => Value::from(*text),
        Node::OwnedText(text) => Value::from(text.as_ref()),
        Node::Bytes(bytes) | Node::ByteArray(bytes) => Value::Bytes(bytes.to_vec()),
        Node::OwnedBytes(bytes) => Value::Bytes(bytes.to_vec()),
        _ => return None,
    })
}
