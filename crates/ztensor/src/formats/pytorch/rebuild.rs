//! From a noted call to a tensor: what `torch._utils._rebuild_*` would make of its arguments, as an index entry over the storages.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::globals::Known;
use super::pickle::{Arena, Id, Node};
use super::storage::{self, Storage, Storages};
use super::types::Scalar;
use super::view::{self, View};
use super::{numpy, quantized, sparse};
use crate::error::{Error, Kind};
use crate::index::{Component, FileId, Object, Span};
use crate::tensor::Shape;

/// Wrappers around wrappers: parameters, subclasses, type tags.
const MOST_WRAPPERS: usize = 16;

/// Why a value does not become a tensor.
pub(super) enum Unread {
    /// It is legal, but not read here.
    Skipped(String),
    /// The file breaks a rule.
    Malformed(Error),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Unsupported => Unread::Skipped(error.message().to_owned()),
            _ => Unread::Malformed(error),
        }
    }
}

pub(super) type Reading<T> = Result<T, Unread>;

/// A skip, for `?` and `ok_or_else`.
pub(super) fn skipped(reason: impl Into<String>) -> Unread {
    Unread::Skipped(reason.into())
}

/// Where a pickle lies, if it lies in the file as it is.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub bytes: &'p [u8],
    pub origin: Option<(FileId, u64)>,
}

impl Place<'_> {
    /// The range of the file that a part of the pickle takes.
    pub(super) fn span_of(&self, part: &[u8]) -> Option<Span> {
        let (file, origin) = self.origin?;
        let start = part.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        let inside = start.checked_add(part.len())? <= self.bytes.len();
        inside.then_some(Span { file, offset: origin.checked_add(start as u64)?, length: part.len() as u64 })
    }
}

/// The values of a pickle together with what is needed to read tensors from them.
pub(super) struct Rebuilder<'p, 'a> {
    pub arena: &'p Arena<'a>,
    /// What each distinct global stands for.
    pub known: &'p [Known],
    pub storages: &'p Storages<'p>,
    pub place: Place<'p>,
    /// Elements that had to be decoded from the pickle; arrays can share them.
    pub decoded: RefCell<HashMap<Id, Arc<[u8]>>>,
}

/// A tensor of the plain kind, before it becomes an object or a component of one.
pub(super) struct Dense {
    pub shape: Shape,
    pub scalar: Scalar,
    pub component: Component,
}

/// What a program gave to a tensor besides its elements.
#[derive(Default)]
pub(super) struct Extras {
    /// Its attributes.
    pub states: Vec<Id>,
    /// Its class, if that is not the framework's own.
    pub class: Option<String>,
    /// Whether gradients are kept for it.
    pub trained: bool,
    /// Whether there are functions that are called with its gradient.
    pub hooked: bool,
}

impl<'p, 'a> Rebuilder<'p, 'a> {
    pub(super) fn new(
        arena: &'p Arena<'a>,
        known: &'p [Known],
        storages: &'p Storages<'p>,
        place: Place<'p>,
    ) -> Self {
        Rebuilder { arena, known, storages, place, decoded: RefCell::default() }
    }

    /// The tensor that a value stands for; `None` if it is no tensor at all.
    pub(super) fn object(&self, id: Id) -> Reading<Option<Object>> {
        if let Some(storage) = self.storage(id)? {
            return self.bare_storage(&storage).map(Some);
        }
        if let Some(call) = self.arena.call(id)
            && matches!(self.known(call.callable), Known::NumpyArray | Known::NumpyBuffer)
        {
            return numpy::object(self, call).map(Some);
        }
        let Some((known, arguments)) = self.resolve(id)? else { return Ok(None) };
        match known {
            Known::Tensor | Known::TypedTensor => {
                let dense = self.dense_from(known, arguments)?;
                Ok(Some(Object::dense(dense.shape, dense.component)))
            }
            Known::SparseTensor => sparse::object(self, arguments).map(Some),
            Known::QuantizedTensor => quantized::object(self, arguments).map(Some),
            Known::Unread(reason) => Err(skipped(reason)),
            _ => Ok(None),
        }
    }

    /// A plain tensor, where one is needed as a component of another.
    pub(super) fn dense(&self, id: Id) -> Reading<Dense> {
        match self.resolve(id)? {
            Some((known @ (Known::Tensor | Known::TypedTensor), arguments)) => {
                self.dense_from(known, arguments)
            }
            _ => Err(skipped("one of its parts is not a plain tensor")),
        }
    }

    /// The function that makes a tensor and its arguments, with parameters and other wrappers taken off.
    fn resolve(&self, id: Id) -> Reading<Option<(Known, &'p [Id])>> {
        let mut id = id;
        for _ in 0..MOST_WRAPPERS {
            let Some(call) = self.arena.call(id) else { return Ok(None) };
            let arguments = self.arena.items(call.arguments).unwrap_or_default();
            match self.known(call.callable) {
                Known::First => match arguments.first() {
                    Some(first) => id = *first,
                    None => return Ok(None),
                },
                Known::FromType => {
                    let [function, _type, arguments, ..] = arguments else {
                        return Err(Error::malformed("a tensor of a subclass lacks arguments").into());
                    };
                    let arguments = self.arena.items(*arguments).unwrap_or_default();
                    match (self.known(*function), arguments.first()) {
                        (Known::First, Some(first)) => id = *first,
                        (known, _) => return Ok(Some((known, arguments))),
                    }
                }
                known => return Ok(Some((known, arguments))),
            }
        }
        Err(skipped("it is wrapped too many times"))
    }

    /// What belongs to a tensor besides its elements.
    pub(super) fn extras(&self, id: Id) -> Extras {
        let (mut id, mut extras) = (id, Extras::default());
        let class = |id: Id| self.arena.global(id).map(|(module, name)| format!("{module}.{name}"));
        for _ in 0..MOST_WRAPPERS {
            let Some(call) = self.arena.call(id) else {
                if let Node::Persistent(_) = self.arena.get(id) {
                    extras.class = Some("torch.TypedStorage".to_owned());
                }
                break;
            };
            let mut arguments = self.arena.items(call.arguments).unwrap_or_default();
            let mut known = self.known(call.callable);
            if known == Known::NumpyArray {
                let array = arguments.first().filter(|id| self.known(**id) != Known::OwnClass);
                extras.class = array.and_then(|id| class(*id));
                break;
            }
            extras.states.extend(call.state);
            if known == Known::FromType {
                let [function, wrapped, inner, state @ ..] = arguments else { break };
                if self.known(*wrapped) != Known::OwnClass {
                    extras.class = class(*wrapped).or(extras.class);
                }
                extras.states.extend(state.first());
                known = self.known(*function);
                arguments = self.arena.items(*inner).unwrap_or_default();
            }
            let hooks = match known {
                Known::First => {
                    // Parameters have hooks and attributes behind whether they are trained.
                    extras.states.extend(arguments.get(3).filter(|id| self.arena.entries(**id).is_some()));
                    arguments.get(2)
                }
                Known::Tensor | Known::TypedTensor => {
                    let trained = arguments.get(4).map(|id| self.arena.get(*id));
                    extras.trained |= matches!(trained, Some(Node::Bool(true)));
                    arguments.get(5)
                }
                _ => None,
            };
            let hooks = hooks.and_then(|id| self.arena.call(*id)).filter(|call| !call.entries.is_empty());
            extras.hooked |= hooks.is_some();
            match (known, arguments.first()) {
                (Known::First, Some(first)) => id = *first,
                _ => break,
            }
        }
        extras.states.retain(|state| !matches!(self.arena.get(*state), Node::None));
        extras
    }

    /// What a value stands for, if it is a global.
    pub(super) fn known(&self, id: Id) -> Known {
        self.arena.global_slot(id).and_then(|slot| self.known.get(slot)).copied().unwrap_or(Known::Other)
    }

    fn storage(&self, id: Id) -> Reading<Option<Storage>> {
        match storage::reference(self.arena, self.known, id)? {
            Some(reference) => Ok(Some(self.storages.resolve(&reference)?)),
            None => Ok(None),
        }
    }

    fn bare_storage(&self, storage: &Storage) -> Reading<Object> {
        let count = storage.length / storage.scalar.width;
        let view =
            View { offset: 0, shape: vec![count], strides: vec![1], conjugated: false, negated: false };
        let dense = view::dense(storage, storage.scalar, view, self.storages.big_endian)?;
        Ok(Object::dense(dense.shape, dense.component))
    }

    fn dense_from(&self, known: Known, arguments: &[Id]) -> Reading<Dense> {
        let [storage, offset, shape, strides, rest @ ..] = arguments else {
            return Err(Error::malformed("a tensor in the pickle lacks arguments").into());
        };
        let (dtype, metadata) = match known {
            Known::TypedTensor => (rest.get(2), rest.get(3)),
            _ => (None, rest.get(2)),
        };
        let mut view = self.view(*offset, *shape, *strides)?;
        if let Some(metadata) = metadata {
            view.conjugated = self.flag(*metadata, "conj");
            view.negated = self.flag(*metadata, "neg");
        }
        let storage = self.required_storage(*storage)?;
        let scalar = match (known, dtype.map(|id| self.known(*id))) {
            (Known::TypedTensor, Some(Known::Dtype(scalar))) => scalar,
            (Known::TypedTensor, _) => return Err(skipped("its dtype is not known here")),
            _ => storage.scalar,
        };
        view::dense(&storage, scalar, view, self.storages.big_endian)
    }

    pub(super) fn required_storage(&self, id: Id) -> Reading<Storage> {
        if let Some(storage) = self.storage(id)? {
            return Ok(storage);
        }
        match self.resolve(id)? {
            Some((Known::Unread(reason), _)) => Err(skipped(reason)),
            _ => Err(Error::malformed("a tensor in the pickle has no storage").into()),
        }
    }

    /// Offset, dimensions and strides, counted in elements.
    pub(super) fn view(&self, offset: Id, shape: Id, strides: Id) -> Reading<View> {
        let wrong =
            |what: &str| Error::malformed(format!("the {what} of a tensor is not a number of elements"));
        let offset = self.arena.integer(offset).and_then(|value| u64::try_from(value).ok());
        Ok(View {
            offset: offset.ok_or_else(|| wrong("offset"))?,
            shape: self.dimensions(shape)?,
            strides: self.numbers(strides, "strides")?,
            conjugated: false,
            negated: false,
        })
    }

    /// The dimensions of a tensor: a tuple, or a `torch.Size` around one.
    pub(super) fn dimensions(&self, id: Id) -> Reading<Vec<u64>> {
        let inner = match self.arena.call(id) {
            Some(call) if self.known(call.callable) == Known::Size => {
                self.arena.items(call.arguments).and_then(|arguments| arguments.first().copied())
            }
            _ => Some(id),
        };
        self.numbers(inner.unwrap_or(id), "shape")
    }

    fn numbers(&self, id: Id, what: &str) -> Reading<Vec<u64>> {
        let wrong = || Error::malformed(format!("the {what} of a tensor is not a tuple of numbers"));
        let items = self.arena.items(id).ok_or_else(wrong)?;
        if items.len() > Shape::MOST_DIMENSIONS {
            return Err(skipped(format!("it has more than {} dimensions", Shape::MOST_DIMENSIONS)));
        }
        let number =
            |id: &Id| self.arena.integer(*id).and_then(|value| u64::try_from(value).ok()).ok_or_else(wrong);
        Ok(items.iter().map(number).collect::<Result<_, _>>()?)
    }

    fn flag(&self, metadata: Id, name: &str) -> bool {
        let entries = self.arena.entries(metadata).unwrap_or_default();
        entries.iter().any(|(key, value)| {
            self.arena.text(*key) == Some(name) && matches!(self.arena.get(*value), Node::Bool(true))
        })
    }
}
