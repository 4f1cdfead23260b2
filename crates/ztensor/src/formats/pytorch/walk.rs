//! Finds the tensors in a pickle's values and names them: the keys and positions that lead to a tensor, joined by dots. A module that was
//! pickled whole gives the names of its `state_dict()`, because the dicts that hold its parameters and children add nothing to a name.
//! Plain values met on the way become metadata. The walk keeps its own stack, follows no cycle, and stops where sharing would multiply.

use std::collections::{HashMap, HashSet};

use super::attributes::Collected;
use super::globals::Known;
use super::numpy;
use super::pickle::{Call, Id, Node};
use super::rebuild::{Rebuilder, Unread};
use crate::error::{Error, Kind, Result};
use crate::index::Index;
use crate::limits::Budget;

/// The name of a tensor that is the whole content of a file.
const BARE: &str = "tensor";

/// Parts of a pickled module's state that stand for the module itself.
const MODULE_PARTS: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// Longer keys are not names: one text can be the key of any number of entries, so it has to be bounded.
const LONGEST_KEY: usize = 1024;

/// Name collisions that are reported one by one.
const MOST_COLLISIONS: usize = 64;

/// Containers inside a container, before its children are looked at.
enum Children<'p> {
    Entries(&'p [(Id, Id)]),
    Items(&'p [Id]),
    /// Lists of a key and a value each, as Python 2 gave them to a dict.
    Pairs(&'p [Id]),
    /// The attributes of an object.
    State(&'p [(Id, Id)]),
    /// One value in the place of the thing that holds it.
    Same(Id),
}

struct Frame<'p> {
    children: Children<'p>,
    next: usize,
    /// The length of the path and the number of its parts, without the children's own.
    path: usize,
    depth: usize,
    /// Whether plain values here are metadata.
    keeps_values: bool,
    /// The container to leave when this frame is done.
    leaves: Option<Id>,
}

pub(super) struct Walk<'p, 'a, 'i> {
    rebuilder: Rebuilder<'p, 'a>,
    index: &'i mut Index,
    budget: &'i mut Budget,
    collected: Collected,
    path: String,
    frames: Vec<Frame<'p>>,
    /// The containers between the root and here.
    inside: HashSet<Id>,
    /// How much there is in the pickle, as a measure for the next two.
    size: u64,
    visits: u64,
    name_bytes: u64,
    collisions: usize,
    /// What became of the values that stand for tensors: a name, or the reason why they are not read.
    tensors: Tensors,
    names_tensors: bool,
}

/// What became of the values of a pickle that stand for tensors: a name in the index, or the reason why they are not read.
pub(super) type Tensors = HashMap<Id, Result<String, String>>;

impl<'p, 'a, 'i> Walk<'p, 'a, 'i> {
    pub(super) fn new(rebuilder: Rebuilder<'p, 'a>, index: &'i mut Index, budget: &'i mut Budget) -> Self {
        Walk {
            size: rebuilder.arena.size(),
            rebuilder,
            index,
            budget,
            collected: Collected::default(),
            path: String::new(),
            frames: Vec::new(),
            inside: HashSet::new(),
            visits: 0,
            name_bytes: 0,
            collisions: 0,
            tensors: Tensors::new(),
            names_tensors: false,
        }
    }

    /// Notes under which name each tensor is, for whoever needs the values as well.
    pub(super) fn noting_tensors(mut self, wanted: bool) -> Self {
        self.names_tensors = wanted;
        self
    }

    /// Adds every tensor beneath `root` to the index, under names that start with `prefix`.
    pub(super) fn add(&mut self, root: Id, prefix: &str) -> Result<()> {
        self.path.clear();
        self.path.push_str(prefix);
        let depth = usize::from(!prefix.is_empty());
        self.visit(root, depth, true)?;
        while let Some(frame) = self.frames.last_mut() {
            let position = frame.next;
            frame.next += 1;
            let (path, depth, keeps_values) = (frame.path, frame.depth, frame.keeps_values);
            self.path.truncate(path);
            let child = match &frame.children {
                Children::Entries(entries) => entries.get(position).map(|(key, value)| (Some(*key), *value)),
                Children::State(entries) => entries.get(position).map(|(key, value)| {
                    let stands_for_itself =
                        self.rebuilder.arena.text(*key).is_some_and(|key| MODULE_PARTS.contains(&key));
                    ((!stands_for_itself).then_some(*key), *value)
                }),
                Children::Items(items) => match items.get(position) {
                    Some(item) => {
                        let item = *item;
                        self.push_segment(depth, &position.to_string());
                        self.visit(item, depth + 1, keeps_values)?;
                        continue;
                    }
                    None => None,
                },
                Children::Pairs(pairs) => {
                    pairs.get(position).map(|pair| match self.rebuilder.arena.items(*pair) {
                        Some([key, value]) => (Some(*key), *value),
                        _ => (None, *pair),
                    })
                }
                Children::Same(id) => (position == 0).then_some((None, *id)),
            };
            match child {
                Some((Some(key), value)) => {
                    self.push_key(depth, key, position);
                    self.visit(value, depth + 1, keeps_values)?;
                }
                Some((None, value)) => self.visit(value, depth, keeps_values)?,
                None => {
                    if let Some(id) = self.frames.pop().and_then(|frame| frame.leaves) {
                        self.inside.remove(&id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the plain values that were met to the metadata of the file.
    pub(super) fn finish(self) -> (Rebuilder<'p, 'a>, Tensors) {
        self.collected.finish(self.index);
        (self.rebuilder, self.tensors)
    }

    /// Looks at one value, whose name is the current path.
    fn visit(&mut self, id: Id, depth: usize, keeps_values: bool) -> Result<()> {
        self.count(1)?;
        match self.rebuilder.arena.get(id) {
            Node::Call(_) if keeps_values && self.keep_scalar(id) => Ok(()),
            Node::Call(_) | Node::Persistent(_) => match self.rebuilder.object(id) {
                Ok(Some(object)) => {
                    let mut name = self.name(depth)?;
                    self.budget.charge_object()?;
                    if self.index.objects.contains_key(&name) {
                        name = self.free_name(name)?;
                    }
                    if self.names_tensors {
                        self.tensors.entry(id).or_insert_with(|| Ok(name.clone()));
                    }
                    self.index.objects.insert(name, object);
                    self.enter_attributes(id, depth)
                }
                Ok(None) => self.enter(id, depth, keeps_values),
                Err(Unread::Skipped(reason)) => {
                    let name = self.name(depth)?;
                    if self.names_tensors {
                        self.tensors.entry(id).or_insert_with(|| Err(reason.clone()));
                    }
                    self.index.skip(name, reason);
                    self.enter(id, depth, false)
                }
                Err(Unread::Malformed(error)) => Err(error.with_tensor(&self.name(depth)?)),
            },
            Node::Dict(_) | Node::List(_) | Node::Tuple { .. } | Node::Set(_) | Node::FrozenSet(_) => {
                if keeps_values {
                    self.count(self.rebuilder.arena.items(id).map_or(0, <[Id]>::len) as u64)?;
                    if self.collected.list(self.rebuilder.arena, &self.path, id) {
                        return Ok(());
                    }
                }
                self.enter(id, depth, keeps_values)
            }
            node => {
                if keeps_values && depth > 0 {
                    self.collected.value(&self.path, node);
                }
                Ok(())
            }
        }
    }

    /// Accounts for values that are looked at. Each can be reached in several ways, but not in any number of them.
    fn count(&mut self, values: u64) -> Result<()> {
        self.visits += values;
        if self.visits > 16 * self.size + 4096 {
            return Err(Error::new(
                Kind::Limit,
                "the same containers occur in so many places of the pickle that their contents cannot be listed",
            ));
        }
        Ok(())
    }

    /// Keeps a NumPy scalar as metadata; says whether it was one.
    fn keep_scalar(&mut self, id: Id) -> bool {
        let call = self.rebuilder.arena.call(id);
        let call = call.filter(|call| self.rebuilder.known(call.callable) == Known::NumpyScalar);
        let Some(value) = call.and_then(|call| numpy::scalar(&self.rebuilder, call)) else { return false };
        self.collected.keep(&self.path, value);
        true
    }

    /// Puts a container's children up for a visit, unless the walk is inside it already.
    fn enter(&mut self, id: Id, depth: usize, keeps_values: bool) -> Result<()> {
        let arena = self.rebuilder.arena;
        let deepest = self.budget.limits().depth;
        if depth > deepest || self.frames.len() > 8 * deepest {
            let name = self.name(depth)?;
            self.index.skip(name, format!("what is nested more than {deepest} levels deep is not looked at"));
            return Ok(());
        }
        if !self.inside.insert(id) {
            return Ok(());
        }
        let path = self.path.len();
        let frame =
            |children, keeps_values, leaves| Frame { children, next: 0, path, depth, keeps_values, leaves };
        if let Some(entries) = arena.entries(id) {
            self.frames.push(frame(Children::Entries(entries), keeps_values, Some(id)));
        } else if let Some(items) = arena.items(id) {
            self.frames.push(frame(Children::Items(items), keeps_values, Some(id)));
        } else if let Some(call) = arena.call(id) {
            let children = self.arguments(call);
            let keeps_pairs = keeps_values && matches!(children, Children::Pairs(_));
            self.frames.push(frame(children, keeps_pairs, Some(id)));
            if let Some(state) = call.state {
                self.push_state(state, depth);
            }
            self.frames.push(frame(Children::Items(&call.items), keeps_values, None));
            self.frames.push(frame(Children::Entries(&call.entries), keeps_values, None));
        } else {
            self.inside.remove(&id);
        }
        Ok(())
    }

    /// Puts the attributes of a tensor up for a visit: there may be tensors among them.
    fn enter_attributes(&mut self, id: Id, depth: usize) -> Result<()> {
        let states = self.rebuilder.extras(id).states;
        let deepest = self.budget.limits().depth;
        if states.is_empty() || depth > deepest || self.frames.len() > 8 * deepest || !self.inside.insert(id)
        {
            return Ok(());
        }
        self.push_segment(depth, "__dict__");
        let path = self.path.len();
        let children = Children::Items(&[]);
        self.frames.push(Frame { children, next: 0, path, depth, keeps_values: false, leaves: Some(id) });
        states.into_iter().for_each(|state| self.push_state(state, depth + 1));
        Ok(())
    }

    /// Where the arguments of a call may hold tensors.
    fn arguments(&self, call: &'p Call) -> Children<'p> {
        let arguments = self.rebuilder.arena.items(call.arguments).unwrap_or_default();
        match (self.rebuilder.known(call.callable), arguments) {
            (Known::First, [first, ..]) => Children::Same(*first),
            (Known::SparseTensor, [_layout, parts]) => Children::Same(*parts),
            // The storage of a tensor that is not read is not a tensor of its own.
            (
                Known::Tensor
                | Known::TypedTensor
                | Known::QuantizedTensor
                | Known::NumpyArray
                | Known::NumpyBuffer
                | Known::Encode,
                _,
            ) => Children::Items(&[]),
            (Known::OrderedDict, [pairs]) => {
                Children::Pairs(self.rebuilder.arena.items(*pairs).unwrap_or_default())
            }
            // Function and type say nothing; the arguments and the state do.
            (Known::FromType, [_, _, rest @ ..]) => Children::Items(rest),
            _ => Children::Items(arguments),
        }
    }

    /// An object's state is its attributes, or a pair of those in its dict and those in its slots.
    fn push_state(&mut self, state: Id, depth: usize) {
        let arena = self.rebuilder.arena;
        let path = self.path.len();
        let mut push = |children| {
            self.frames.push(Frame { children, next: 0, path, depth, keeps_values: false, leaves: None });
        };
        let attributes = |id: Id| arena.entries(id).map(Children::State);
        match (attributes(state), arena.items(state)) {
            (Some(attributes), _) => push(attributes),
            (None, Some([dict, slots])) if attributes(*dict).is_some() || attributes(*slots).is_some() => {
                [slots, dict]
                    .into_iter()
                    .for_each(|part| push(attributes(*part).unwrap_or(Children::Same(*part))));
            }
            _ => push(Children::Same(state)),
        }
    }

    fn push_segment(&mut self, depth: usize, segment: &str) {
        if depth > 0 {
            self.path.push('.');
        }
        self.path.push_str(segment);
    }

    fn push_key(&mut self, depth: usize, key: Id, position: usize) {
        let arena = self.rebuilder.arena;
        match arena.get(key) {
            Node::Text(text) if text.len() <= LONGEST_KEY => self.push_segment(depth, text),
            Node::OwnedText(text) if text.len() <= LONGEST_KEY => self.push_segment(depth, text),
            Node::Integer(number) => self.push_segment(depth, &number.to_string()),
            Node::Bool(true) => self.push_segment(depth, "True"),
            Node::Bool(false) => self.push_segment(depth, "False"),
            Node::None => self.push_segment(depth, "None"),
            Node::Float(number) => self.push_segment(depth, &number.to_string()),
            Node::Bytes(bytes) if bytes.len() <= LONGEST_KEY => {
                self.push_segment(depth, &String::from_utf8_lossy(bytes))
            }
            // Tuples, objects and whole documents as keys have no short name; their place in the dict has.
            _ => self.push_segment(depth, &format!("#{position}")),
        }
    }

    /// The current path as a name. The bytes of all names are bounded by the pickle that spells their parts.
    fn name(&mut self, depth: usize) -> Result<String> {
        let name = if depth == 0 { BARE } else { &self.path };
        self.name_bytes += name.len() as u64;
        if self.name_bytes > 128 * self.size + (1 << 20) {
            return Err(Error::new(
                Kind::Limit,
                "the names of the tensors are out of proportion to the file",
            ));
        }
        self.budget.charge(name.len() as u64 + 128)?;
        Ok(name.to_owned())
    }

    /// Another name for a tensor whose path gives one that is taken: there may be a key with a dot in it, or 1 beside "1". A key set twice in one dict is
    /// an error.
    fn free_name(&mut self, name: String) -> Result<String> {
        self.collisions += 1;
        let arena = self.rebuilder.arena;
        let twice = match self.frames.last() {
            Some(Frame { children: Children::Entries(entries) | Children::State(entries), next, .. }) => {
                let (before, rest) = entries.split_at((*next).saturating_sub(1).min(entries.len()));
                let key = rest.first().and_then(|(key, _)| arena.text(*key));
                key.is_some() && before.iter().any(|(other, _)| arena.text(*other) == key)
            }
            _ => false,
        };
        if twice || self.collisions > MOST_COLLISIONS {
            return Err(Error::new(Kind::Duplicate, "the name occurs twice in the file").with_tensor(&name));
        }
        let free = (2..).map(|number| format!("{name}#{number}"));
        let mut free = free.filter(|name| !self.index.objects.contains_key(name));
        Ok(free.next().unwrap_or(name))
    }
}
