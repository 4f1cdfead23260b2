//! Trees of dicts, lists, tuples, scalars and tensors, such as training checkpoints: what `.pt` files hold, and what `.zt` and `.safetensors`
//! files hold as a JSON text among their metadata. Tensors are there by name. `spec/tree.md` has the form of the text.

mod base64;
mod integer;
mod parse;
mod text;

pub use integer::{MOST_DIGITS, decimal, two_complement};

use crate::error::{Error, Kind};

/// Under which name the text of the tree is among a file's metadata.
pub const KEY: &str = "ztensor.tree";

/// Levels of nesting. Python's own recursion, and readers in other languages, end not much later.
pub const DEEPEST: usize = 200;

/// A value of a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// `None`
    None,
    /// `True` or `False`
    Bool(bool),
    /// An integer of any size, by its decimal digits.
    Integer(String),
    /// A floating-point number.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Bytes that a program may change.
    ByteArray(Vec<u8>),
    /// A list.
    List(Vec<Tree>),
    /// A tuple.
    Tuple(Vec<Tree>),
    /// A set.
    Set(Vec<Tree>),
    /// A set that does not change.
    FrozenSet(Vec<Tree>),
    /// PyTorch's tuple of dimensions.
    Size(Vec<Tree>),
    /// A dict, in its order.
    Dict(Vec<(Tree, Tree)>),
    /// An `OrderedDict`, and the attributes that a program gave it: a state dict has its versions there.
    Ordered(Vec<(Tree, Tree)>, Option<Box<Tree>>),
    /// The name of a tensor in the file, and what it is to a program.
    Tensor(Leaf, String),
    /// A tensor to which a program gave attributes, and a dict of them.
    Attributed(Box<Tree>, Vec<(String, Tree)>),
    /// A typed number (`numpy.float32(1)`): NumPy's name of the type, and its little-endian bytes.
    Typed(String, Vec<u8>),
    /// A dtype of PyTorch, by its name without `torch.`.
    Dtype(String),
    /// A device of PyTorch.
    Device(String),
    /// Something that a tree does not express, by the name of its class or the reason.
    Unread(String),
}

/// What a tensor in a tree is to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leaf {
    /// A tensor of the framework.
    Tensor,
    /// A parameter of a model, and whether it is trained.
    Parameter {
        /// Whether gradients are kept for it.
        trained: bool,
    },
    /// An array beside a framework's own tensors.
    Numpy,
    /// A tensor without dimensions that stands for a typed number.
    Scalar,
}

impl Tree {
    /// A dict of all tensors under their own names, which is what a file without a tree is.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Tree {
        let entry = |name: &str| (Tree::Text(name.to_owned()), Tree::Tensor(Leaf::Tensor, name.to_owned()));
        Tree::Dict(names.into_iter().map(entry).collect())
    }

    /// Whether it is a dict of nothing but tensors, as a state dict is.
    pub fn is_flat(&self) -> bool {
        match self {
            Tree::Dict(entries) | Tree::Ordered(entries, _) => entries.iter().all(|(key, value)| {
                matches!(
                    (key, value),
                    (Tree::Text(_), Tree::Tensor(Leaf::Tensor | Leaf::Parameter { .. }, _))
                )
            }),
            _ => false,
        }
    }

    /// Calls a function with every value, and the place where it is, written as Python would: `['optimizer']['state'][0]`.
    pub fn visit<'t>(&'t self, each: &mut dyn FnMut(&str, &'t Tree)) {
        self.visit_at(&mut String::new(), each);
    }

    fn visit_at<'t>(&'t self, place: &mut String, each: &mut dyn FnMut(&str, &'t Tree)) {
        each(place, self);
        let length = place.len();
        match self {
            Tree::List(items)
            | Tree::Tuple(items)
            | Tree::Set(items)
            | Tree::FrozenSet(items)
            | Tree::Size(items) => {
                for (position, item) in items.iter().enumerate() {
                    place.push_str(&format!("[{position}]"));
                    item.visit_at(place, each);
                    place.truncate(length);
                }
            }
            Tree::Dict(entries) | Tree::Ordered(entries, _) => {
                for (key, value) in entries {
                    match key {
                        Tree::Text(text) => place.push_str(&format!("['{text}']")),
                        Tree::Integer(digits) => place.push_str(&format!("[{digits}]")),
                        other => place.push_str(&format!("[{}]", other.text())),
                    }
                    value.visit_at(place, each);
                    place.truncate(length);
                }
                if let Tree::Ordered(_, Some(attributes)) = self {
                    place.push_str(".__dict__");
                    attributes.visit_at(place, each);
                    place.truncate(length);
                }
            }
            Tree::Attributed(tensor, attributes) => {
                tensor.visit_at(place, each);
                for (name, value) in attributes {
                    place.push('.');
                    place.push_str(name);
                    value.visit_at(place, each);
                    place.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// What the tree does not express: where, and what it is.
    pub fn unread(&self) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        self.visit(&mut |place, value| {
            if let Tree::Unread(what) = value {
                found.push((place.to_owned(), what.as_str()));
            }
        });
        found
    }

    /// Where the first of NumPy's values is.
    pub fn numpy(&self) -> Option<String> {
        let mut found = None;
        self.visit(&mut |place, value| {
            let is_numpy = matches!(value, Tree::Typed(..) | Tree::Tensor(Leaf::Numpy | Leaf::Scalar, _));
            if is_numpy && found.is_none() {
                found = Some(place.to_owned());
            }
        });
        found
    }

    /// The names of its tensors, in its order; one that occurs twice is named twice.
    pub fn tensors(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut |_, value| {
            if let Tree::Tensor(_, name) = value {
                names.push(name.as_str());
            }
        });
        names
    }

    /// Gives the tensors other names; the first that has none is returned.
    pub fn rename<'n>(&mut self, new: &dyn Fn(&str) -> Option<&'n str>) -> Result<(), String> {
        match self {
            Tree::Tensor(_, name) => match new(name) {
                Some(new) => *name = new.to_owned(),
                None => return Err(name.clone()),
            },
            Tree::List(items)
            | Tree::Tuple(items)
            | Tree::Set(items)
            | Tree::FrozenSet(items)
            | Tree::Size(items) => items.iter_mut().try_for_each(|item| item.rename(new))?,
            Tree::Dict(entries) => entries.iter_mut().try_for_each(|(_, value)| value.rename(new))?,
            Tree::Ordered(entries, attributes) => {
                entries.iter_mut().try_for_each(|(_, value)| value.rename(new))?;
                attributes.iter_mut().try_for_each(|attributes| attributes.rename(new))?;
            }
            Tree::Attributed(tensor, attributes) => {
                tensor.rename(new)?;
                attributes.iter_mut().try_for_each(|(_, value)| value.rename(new))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether it can be the key of a dict or a member of a set.
    pub fn is_key(&self) -> bool {
        match self {
            Tree::Tuple(items) | Tree::FrozenSet(items) => items.iter().all(Tree::is_key),
            Tree::None
            | Tree::Bool(_)
            | Tree::Integer(_)
            | Tree::Float(_)
            | Tree::Complex(..)
            | Tree::Text(_)
            | Tree::Bytes(_)
            | Tree::Size(_)
            | Tree::Typed(..)
            | Tree::Dtype(_)
            | Tree::Device(_) => true,
            _ => false,
        }
    }
}

/// The error for a tree that goes too deep.
pub fn too_deep() -> Error {
    Error::new(Kind::Limit, format!("the tree is nested more than {DEEPEST} levels deep, or contains itself"))
}

fn malformed(what: impl std::fmt::Display) -> Error {
    Error::malformed(format!("the tree cannot be read: {what}"))
}
