//! The values of a pickle, held by number in flat vectors: sharing and cycles cost nothing, and neither dropping nor walking them recurses.

use std::borrow::Cow;
use std::num::NonZeroU32;

use indexmap::IndexSet;

/// A value's number in its [`Arena`], counted from one so that "no value" takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(NonZeroU32);

impl Id {
    /// The number of the value at a position.
    pub(super) const fn at(position: u32) -> Self {
        Id(NonZeroU32::MIN.saturating_add(position))
    }

    /// The number, for tables beside the arena.
    pub(crate) fn position(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// One value. Texts and bytes are borrowed from the pickle wherever they stand there as they are.
#[derive(Clone, Debug)]
pub(crate) enum Node<'a> {
    None,
    Bool(bool),
    Integer(i64),
    /// An integer of more than 64 bits.
    WideInteger(Box<i128>),
    /// An integer of more than 128 bits, in two's complement, little-endian.
    HugeInteger(&'a [u8]),
    /// An integer of more than 128 bits, by its digits.
    HugeDecimal(&'a str),
    Float(f64),
    Text(&'a str),
    OwnedText(Box<str>),
    Bytes(&'a [u8]),
    OwnedBytes(Box<[u8]>),
    /// Bytes that a program may change.
    ByteArray(&'a [u8]),
    /// Positions in the pool of tuple items.
    Tuple {
        start: u32,
        count: u32,
    },
    List(u32),
    Set(u32),
    FrozenSet(u32),
    Dict(u32),
    /// A name that an unpickler would import.
    Global(u32),
    /// Something that an unpickler would call or instantiate.
    Call(u32),
    /// A reference to something outside the pickle, such as a storage.
    Persistent(Id),
}

/// A call or instantiation with what was done to the result.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub callable: Id,
    pub arguments: Id,
    /// The state given to it by BUILD.
    pub state: Option<Id>,
    /// What was appended or added to it.
    pub items: Vec<Id>,
    /// What was set on it by key.
    pub entries: Vec<(Id, Id)>,
}

/// All values of one pickle. Those of no size (None, booleans, small numbers) are there from the beginning, because they are most of a pickle.
#[derive(Debug)]
pub(crate) struct Arena<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) tuple_items: Vec<Id>,
    pub(super) lists: Vec<Vec<Id>>,
    pub(super) dicts: Vec<Vec<(Id, Id)>>,
    pub(super) calls: Vec<Call>,
    pub(super) globals: IndexSet<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Arena<'a> {
    pub(super) const NONE: Id = Id::at(0);
    pub(super) const FALSE: Id = Id::at(1);
    pub(super) const TRUE: Id = Id::at(2);

    /// The number from 0 to 255.
    pub(super) fn small(number: u8) -> Id {
        Id::at(3 + u32::from(number))
    }

    /// An arena with room for the values of a pickle of that length.
    pub(super) fn new(length: usize) -> Self {
        let mut nodes = Vec::with_capacity((length / 8).clamp(512, 1 << 20));
        nodes.extend([Node::None, Node::Bool(false), Node::Bool(true)]);
        nodes.extend((0..=255).map(Node::Integer));
        Arena {
            nodes,
            tuple_items: Vec::new(),
            lists: Vec::new(),
            dicts: Vec::new(),
            calls: Vec::new(),
            globals: IndexSet::new(),
        }
    }

    /// The value of a number that the arena gave out.
    pub(crate) fn get(&self, id: Id) -> &Node<'a> {
        const MISSING: &Node<'static> = &Node::None;
        self.nodes.get(id.position()).unwrap_or(MISSING)
    }

    /// How much there is to walk over: values, and places in containers.
    pub(crate) fn size(&self) -> u64 {
        let lists = self.lists.iter().map(Vec::len);
        let dicts = self.dicts.iter().map(Vec::len);
        let calls = self.calls.iter().map(|call| call.items.len() + call.entries.len());
        let places: usize = lists.chain(dicts).chain(calls).sum();
        (self.nodes.len() + self.tuple_items.len() + places) as u64
    }

    /// Every value's number.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        (0..self.nodes.len() as u32).map(Id::at)
    }

    /// The items of a tuple, list or set.
    pub(crate) fn items(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Node::Tuple { start, count } => {
                let start = *start as usize;
                self.tuple_items.get(start..start + *count as usize)
            }
            Node::List(slot) | Node::Set(slot) | Node::FrozenSet(slot) => {
                self.lists.get(*slot as usize).map(Vec::as_slice)
            }
            _ => None,
        }
    }

    /// The entries of a dict, in the order they were set.
    pub(crate) fn entries(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.get(id) {
            Node::Dict(slot) => self.dicts.get(*slot as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    pub(crate) fn call(&self, id: Id) -> Option<&Call> {
        match self.get(id) {
            Node::Call(slot) => self.calls.get(*slot as usize),
            _ => None,
        }
    }

    /// Every call, in the order in which an unpickler would make them.
    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The module and the name of a global.
    pub(crate) fn global(&self, id: Id) -> Option<(&str, &str)> {
        let (module, name) = self.globals.get_index(self.global_slot(id)?)?;
        Some((module, name))
    }

    pub(crate) fn bytes(&self, id: Id) -> Option<&[u8]> {
        match self.get(id) {
            Node::Bytes(bytes) | Node::ByteArray(bytes) => Some(bytes),
            Node::OwnedBytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The number of a global among the distinct ones, for tables beside the arena.
    pub(crate) fn global_slot(&self, id: Id) -> Option<usize> {
        match self.get(id) {
            Node::Global(slot) => Some(*slot as usize),
            _ => None,
        }
    }

    /// Every distinct global, in the order of appearance.
    pub(crate) fn globals(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.globals.iter().map(|(module, name)| (module.as_ref(), name.as_ref()))
    }

    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Node::Text(text) => Some(text),
            Node::OwnedText(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn integer(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Node::Integer(value) => Some(*value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_small() {
        assert!(size_of::<Node<'static>>() <= 24);
    }
}
