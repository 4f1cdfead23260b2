//! The values of a pickle as a tree: what an unpickler would return, without unpickling. What a tree does not express keeps its place and is
//! named there; what contains itself, or multiplies by sharing, is an error.

use super::globals::Known;
use super::numpy;
use super::pickle::{Call, Id, Node};
use super::rebuild::Rebuilder;
use super::walk::Tensors;
use crate::error::{Error, Kind, Result};
use crate::limits::Budget;
use crate::tree::{DEEPEST, Leaf, MOST_DIGITS, Tree, decimal, too_deep};

/// What a value of a tree takes besides its texts.
const VALUE_BYTES: u64 = 64;

/// The tree beneath `root`; `tensors` has the names of its tensors.
pub(super) fn tree(
    rebuilder: &Rebuilder<'_, '_>,
    tensors: &Tensors,
    root: Id,
    budget: &mut Budget,
) -> Result<Tree> {
    let most = 16 * rebuilder.arena.size() + 4096;
    Builder { rebuilder, tensors, budget, visits: 0, most }.value(root, 0)
}

struct Builder<'r, 'p, 'a> {
    rebuilder: &'r Rebuilder<'p, 'a>,
    tensors: &'r Tensors,
    budget: &'r mut Budget,
    visits: u64,
    /// Values that may be looked at: each can be reached in several ways, but not in any number of them.
    most: u64,
}

impl Builder<'_, '_, '_> {
    fn value(&mut self, id: Id, depth: usize) -> Result<Tree> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        self.visits += 1;
        if self.visits > self.most {
            return Err(Error::new(
                Kind::Limit,
                "the same containers occur in so many places of the pickle that it cannot be written as a tree",
            ));
        }
        let arena = self.rebuilder.arena;
        let node = arena.get(id);
        self.budget.charge(VALUE_BYTES + 2 * text_length(node))?;
        let unread = |what: String| Ok(Tree::Unread(what));
        Ok(match node {
            Node::None => Tree::None,
            Node::Bool(value) => Tree::Bool(*value),
            Node::Integer(value) => Tree::Integer(value.to_string()),
            Node::WideInteger(value) => Tree::Integer(value.to_string()),
            Node::HugeInteger(bytes) => decimal(bytes).map_or_else(too_long, Tree::Integer),
            Node::HugeDecimal(digits) if digits.len() <= MOST_DIGITS => huge(digits),
            Node::HugeDecimal(_) => too_long(),
            Node::Float(value) => Tree::Float(*value),
            Node::Text(text) => Tree::Text((*text).to_owned()),
            // Only texts that had to be changed on the way can have halves of surrogate pairs replaced.
            Node::OwnedText(text) if text.contains(char::REPLACEMENT_CHARACTER) => {
                return unread("a text with half of a surrogate pair".to_owned());
            }
            Node::OwnedText(text) => Tree::Text(text.to_string()),
            Node::Bytes(bytes) => Tree::Bytes(bytes.to_vec()),
            Node::OwnedBytes(bytes) => Tree::Bytes(bytes.to_vec()),
            Node::ByteArray(bytes) => Tree::ByteArray(bytes.to_vec()),
            Node::List(_) => Tree::List(self.items(id, depth)?),
            Node::Tuple { .. } => Tree::Tuple(self.items(id, depth)?),
            Node::Set(_) => keys_only(self.items(id, depth)?, Tree::Set),
            Node::FrozenSet(_) => keys_only(self.items(id, depth)?, Tree::FrozenSet),
            Node::Dict(_) => {
                let entries = self.entries(arena.entries(id).unwrap_or_default(), depth)?;
                dict(entries, Tree::Dict)
            }
            Node::Global(_) => match self.rebuilder.known(id) {
                Known::Dtype(scalar) => Tree::Dtype(scalar.name.to_owned()),
                _ => return unread(self.name(id)),
            },
            Node::Call(_) | Node::Persistent(_) => match (self.tensors.get(&id), arena.call(id)) {
                (Some(Ok(name)), _) => {
                    self.budget.charge(name.len() as u64)?;
                    self.attributed(id, self.leaf(id), name, depth)?
                }
                (Some(Err(reason)), _) => return unread(reason.clone()),
                (None, Some(call)) => self.call(call, depth)?,
                (None, None) => return unread("a reference to something outside the pickle".to_owned()),
            },
        })
    }

    fn items(&mut self, id: Id, depth: usize) -> Result<Vec<Tree>> {
        let items = self.rebuilder.arena.items(id).unwrap_or_default();
        items.iter().map(|item| self.value(*item, depth + 1)).collect()
    }

    fn entries(&mut self, entries: &[(Id, Id)], depth: usize) -> Result<Vec<(Tree, Tree)>> {
        let entry =
            |(key, value): &(Id, Id)| Ok((self.value(*key, depth + 1)?, self.value(*value, depth + 1)?));
        entries.iter().map(entry).collect()
    }

    /// What a tensor is to a program.
    fn leaf(&self, id: Id) -> Leaf {
        let Some(call) = self.rebuilder.arena.call(id) else { return Leaf::Tensor };
        match (self.rebuilder.known(call.callable), self.rebuilder.arena.global(call.callable)) {
            (Known::NumpyArray | Known::NumpyBuffer, _) => Leaf::Numpy,
            (
                Known::First,
                Some((_, "_rebuild_parameter" | "_rebuild_parameter_with_state" | "Parameter")),
            ) => {
                let arguments = self.rebuilder.arena.items(call.arguments).unwrap_or_default();
                let trained = arguments.get(1).map(|id| self.rebuilder.arena.get(*id));
                Leaf::Parameter { trained: !matches!(trained, Some(Node::Bool(false))) }
            }
            _ => Leaf::Tensor,
        }
    }

    /// A tensor with the attributes that a program gave it. What is no value of a tree is named among them.
    fn attributed(&mut self, id: Id, leaf: Leaf, name: &str, depth: usize) -> Result<Tree> {
        let extras = self.rebuilder.extras(id);
        let mut attributes = Vec::new();
        let mut add = |name: &str, value| attributes.push((name.to_owned(), value));
        if let Some(class) = extras.class {
            add("__class__", Tree::Unread(class));
        }
        if extras.trained && leaf == Leaf::Tensor {
            add("requires_grad", Tree::Bool(true));
        }
        if extras.hooked {
            add("_backward_hooks", Tree::Unread("functions that are called with its gradient".to_owned()));
        }
        for state in extras.states {
            match self.value(state, depth + 1)? {
                Tree::Dict(entries) if entries.iter().all(|(key, _)| matches!(key, Tree::Text(_))) => {
                    attributes.extend(entries.into_iter().filter_map(|(key, value)| match key {
                        Tree::Text(name) => Some((name, value)),
                        _ => None,
                    }));
                }
                _ => {
                    attributes.push(("__dict__".to_owned(), Tree::Unread("state that is no dict".to_owned())))
                }
            }
        }
        let tensor = Tree::Tensor(leaf, name.to_owned());
        Ok(if attributes.is_empty() { tensor } else { Tree::Attributed(Box::new(tensor), attributes) })
    }

    /// The value that a call makes.
    fn call(&mut self, call: &Call, depth: usize) -> Result<Tree> {
        let rebuilder = self.rebuilder;
        let arena = rebuilder.arena;
        let arguments = arena.items(call.arguments).unwrap_or_default();
        let unread = Tree::Unread(self.name(call.callable));
        let known = rebuilder.known(call.callable);
        if known == Known::OrderedDict {
            return self.ordered(call, depth);
        }
        // Nothing is ever added to the others, or told to them.
        if call.state.is_some() || !call.items.is_empty() || !call.entries.is_empty() {
            return Ok(unread);
        }
        Ok(match (known, arena.global(call.callable), arguments) {
            (Known::Size, _, [dimensions]) => match self.items(*dimensions, depth)? {
                items if items.iter().all(|item| matches!(item, Tree::Integer(_))) => Tree::Size(items),
                _ => unread,
            },
            (Known::Encode | Known::NoBytes, ..) => match self.bytes(call)? {
                Some(bytes) => Tree::Bytes(bytes),
                None => unread,
            },
            (Known::NumpyScalar, ..) => match numpy::typed(rebuilder, call) {
                Some((dtype, bytes)) => Tree::Typed(dtype.to_owned(), bytes),
                None => unread,
            },
            (_, Some(("builtins" | "__builtin__", "set")), [items]) => {
                keys_only(self.items(*items, depth)?, Tree::Set)
            }
            (_, Some(("builtins" | "__builtin__", "frozenset")), [items]) => {
                keys_only(self.items(*items, depth)?, Tree::FrozenSet)
            }
            (_, Some(("builtins" | "__builtin__", "bytearray")), []) => Tree::ByteArray(Vec::new()),
            (_, Some(("builtins" | "__builtin__", "bytearray")), [bytes, ..]) => {
                match (self.value(*bytes, depth + 1)?, arguments.len()) {
                    (Tree::Bytes(bytes), 1) => Tree::ByteArray(bytes),
                    // Python 2 gives the bytes as a text and the name of an encoding.
                    (Tree::Text(text), 2) => latin(&text).map_or(unread, Tree::ByteArray),
                    _ => unread,
                }
            }
            (_, Some(("builtins" | "__builtin__", "complex")), [real, imaginary]) => {
                match (arena.get(*real), arena.get(*imaginary)) {
                    (Node::Float(real), Node::Float(imaginary)) => Tree::Complex(*real, *imaginary),
                    _ => unread,
                }
            }
            (_, Some(("torch", "device")), [kind, rest @ ..]) => {
                match (arena.text(*kind), rest.first().map(|number| arena.integer(*number))) {
                    (Some(kind), None) => Tree::Device(kind.to_owned()),
                    (Some(kind), Some(Some(number))) => Tree::Device(format!("{kind}:{number}")),
                    _ => unread,
                }
            }
            _ => unread,
        })
    }

    /// An `OrderedDict`: what it was made with, what was set, and its attributes.
    fn ordered(&mut self, call: &Call, depth: usize) -> Result<Tree> {
        let arena = self.rebuilder.arena;
        let mut entries = Vec::new();
        if let Some(first) = arena.items(call.arguments).unwrap_or_default().first() {
            for pair in arena.items(*first).unwrap_or_default() {
                if let Some([key, value]) = arena.items(*pair) {
                    entries.extend(self.entries(&[(*key, *value)], depth)?);
                }
            }
        }
        entries.extend(self.entries(&call.entries, depth)?);
        let attributes = match call.state {
            Some(state) => match self.value(state, depth + 1)? {
                Tree::Dict(entries) if entries.is_empty() => None,
                state @ Tree::Dict(_) if text_keys(&state) => Some(Box::new(state)),
                _ => return Ok(Tree::Unread(self.name(call.callable))),
            },
            None => None,
        };
        Ok(dict(entries, |entries| Tree::Ordered(entries, attributes)))
    }

    /// The bytes that `_codecs.encode(text, 'latin1')` stands for, and `bytes()`.
    fn bytes(&mut self, call: &Call) -> Result<Option<Vec<u8>>> {
        let arena = self.rebuilder.arena;
        let arguments = arena.items(call.arguments).unwrap_or_default();
        Ok(match (self.rebuilder.known(call.callable), arguments) {
            (Known::NoBytes, []) => Some(Vec::new()),
            (Known::Encode, [text, encoding])
                if matches!(arena.text(*encoding), Some("latin1" | "latin-1")) =>
            {
                let Some(text) = arena.text(*text) else { return Ok(None) };
                self.budget.charge(2 * text.len() as u64)?;
                latin(text)
            }
            _ => None,
        })
    }

    /// The name of what would be called, as Python spells it.
    fn name(&self, id: Id) -> String {
        match self.rebuilder.arena.global(id) {
            Some((module, name)) => format!("{module}.{name}"),
            None => "an object whose class the pickle computes".to_owned(),
        }
    }
}

fn text_length(node: &Node<'_>) -> u64 {
    match node {
        Node::Text(text) => text.len() as u64,
        Node::OwnedText(text) => text.len() as u64,
        Node::Bytes(bytes) | Node::ByteArray(bytes) | Node::HugeInteger(bytes) => bytes.len() as u64,
        Node::OwnedBytes(bytes) => bytes.len() as u64,
        Node::HugeDecimal(digits) => digits.len() as u64,
        _ => 0,
    }
}

fn latin(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}

fn too_long() -> Tree {
    Tree::Unread(format!("an integer of more than {MOST_DIGITS} digits"))
}

/// Digits as a text of a tree has them: without a plus sign and leading zeros.
fn huge(digits: &str) -> Tree {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.strip_prefix('+').unwrap_or(digits)),
    };
    let digits = digits.trim_start_matches('0');
    Tree::Integer(if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") })
}

fn text_keys(tree: &Tree) -> bool {
    matches!(tree, Tree::Dict(entries) if entries.iter().all(|(key, _)| matches!(key, Tree::Text(_))))
}

fn keys_only(items: Vec<Tree>, make: impl FnOnce(Vec<Tree>) -> Tree) -> Tree {
    match items.iter().all(Tree::is_key) {
        true => make(items),
        false => Tree::Unread("a set of things that are no plain values".to_owned()),
    }
}

fn dict(entries: Vec<(Tree, Tree)>, make: impl FnOnce(Vec<(Tree, Tree)>) -> Tree) -> Tree {
    match entries.iter().all(|(key, _)| key.is_key()) {
        true => make(entries),
        false => Tree::Unread("a dict with keys that are no plain values".to_owned()),
    }
}
