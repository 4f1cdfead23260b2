//! `.metadata`: dataclasses of `torch.distributed.checkpoint.metadata` in a pickle. Of all that a pickle may hold only these classes are looked at, as plain
//! data.

use std::collections::{BTreeSet, HashMap};

use super::MODULE;
use crate::error::{Error, Result};
use crate::formats::pytorch::pickle::{Arena, Id, Machine, Node};
use crate::limits::Budget;
use crate::tensor::Shape;

/// What the file says.
pub(super) struct Metadata {
    pub version: String,
    /// What is stored, by name, in the file's order.
    pub state: Vec<(String, Stored)>,
    /// Places by name and offsets.
    places: HashMap<(String, Option<Vec<u64>>), Place>,
}

pub(super) enum Stored {
    Tensor(Tensor),
    Bytes,
}

pub(super) struct Tensor {
    /// The name of a dtype of torch.
    pub dtype: String,
    pub size: Shape,
    pub chunks: Vec<Chunk>,
}

pub(super) struct Chunk {
    pub offsets: Shape,
    pub sizes: Shape,
}

/// Where an item lies.
pub(super) struct Place {
    pub file: String,
    pub offset: u64,
    pub length: u64,
    /// What its bytes went through.
    pub transform: Option<String>,
}

impl Metadata {
    pub(super) fn read(bytes: &[u8], budget: &mut Budget) -> Result<Metadata> {
        let pickle = Machine::new(bytes).finish(0, budget)?;
        let values = Values { arena: &pickle.arena };
        let fields = values.fields(pickle.root, "Metadata")?;
        let version = fields.get("version").and_then(|id| values.arena.text(*id)).unwrap_or_default();
        let mut state = Vec::new();
        for (key, value) in values.dict(&fields, "state_dict_metadata")? {
            let name = values.text(*key)?;
            budget.charge((size_of::<(String, Stored)>() + name.len()) as u64)?;
            let stored = match values.class(*value) {
                Some("TensorStorageMetadata") => Stored::Tensor(values.tensor(*value, budget)?),
                Some("BytesStorageMetadata") => Stored::Bytes,
                _ => return Err(wrong("an entry is neither a tensor nor bytes").with_tensor(&name)),
            };
            state.push((name, stored));
        }
        let mut places = HashMap::new();
        for (key, value) in values.dict(&fields, "storage_data")? {
            let key = values.fields(*key, "MetadataIndex")?;
            let name = values.text(values.field(&key, "fqn")?)?;
            let offsets = match key.get("offset") {
                Some(id) if !matches!(values.arena.get(*id), Node::None) => Some(values.numbers(*id)?),
                _ => None,
            };
            budget.charge((size_of::<Place>() + 2 * name.len() + 64) as u64)?;
            let place = values.place(*value).map_err(|error| error.with_tensor(&name))?;
            places.insert((name, offsets), place);
        }
        Ok(Metadata { version: version.to_owned(), state, places })
    }

    /// Where the box of a tensor at these offsets lies, or an object, which has none.
    pub(super) fn place(&self, name: &str, offsets: &[u64]) -> Result<&Place> {
        let place = self.places.get(&(name.to_owned(), Some(offsets.to_vec())));
        // The only box of a tensor may go by its name alone.
        let place = place.or_else(|| {
            let alone = offsets.iter().all(|offset| *offset == 0);
            alone.then(|| self.places.get(&(name.to_owned(), None))).flatten()
        });
        place.ok_or_else(|| {
            wrong(&format!("it does not say where the box at {offsets:?} is stored")).with_tensor(name)
        })
    }

    /// The files of the ranks.
    pub(super) fn files(&self) -> BTreeSet<&str> {
        self.places.values().map(|place| place.file.as_str()).collect()
    }
}

type Fields<'p> = HashMap<&'p str, Id>;

struct Values<'p, 'a> {
    arena: &'p Arena<'a>,
}

impl<'p> Values<'p, '_> {
    /// The class of an object, if it is one of the known module.
    fn class(&self, id: Id) -> Option<&'p str> {
        let (module, name) = self.arena.global(self.arena.call(id)?.callable)?;
        let known = module == MODULE || module == "torch.distributed.checkpoint.filesystem";
        known.then_some(name)
    }

    /// The attributes of an object of a class.
    fn fields(&self, id: Id, class: &str) -> Result<Fields<'p>> {
        let missing = || wrong(&format!("a {class} is missing"));
        if self.class(id) != Some(class) {
            return Err(missing());
        }
        let state = self.arena.call(id).and_then(|call| call.state).ok_or_else(missing)?;
        let entries = self.arena.entries(state).ok_or_else(missing)?;
        Ok(entries.iter().filter_map(|(key, value)| Some((self.arena.text(*key)?, *value))).collect())
    }

    fn field(&self, fields: &Fields<'p>, name: &str) -> Result<Id> {
        fields.get(name).copied().ok_or_else(|| wrong(&format!("\"{name}\" is missing")))
    }

    fn dict(&self, fields: &Fields<'p>, name: &str) -> Result<&'p [(Id, Id)]> {
        let entries = self.arena.entries(self.field(fields, name)?);
        entries.ok_or_else(|| wrong(&format!("\"{name}\" is not a dict")))
    }

    fn text(&self, id: Id) -> Result<String> {
        self.arena.text(id).map(str::to_owned).ok_or_else(|| wrong("a name is not a text"))
    }

    fn number(&self, id: Id) -> Result<u64> {
        let number = self.arena.integer(id).and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| wrong("a number is missing or below zero"))
    }

    /// A `torch.Size`, a tuple or a list.
    fn numbers(&self, id: Id) -> Result<Vec<u64>> {
        let inner = match self.arena.call(id) {
            Some(call) if self.arena.global(call.callable) == Some(("torch", "Size")) => {
                match self.arena.items(call.arguments) {
                    Some([sizes]) => *sizes,
                    _ => return Err(wrong("a torch.Size is not of the known form")),
                }
            }
            _ => id,
        };
        let items = self.arena.items(inner).ok_or_else(|| wrong("a list of numbers is missing"))?;
        if items.len() > Shape::MOST_DIMENSIONS {
            return Err(wrong("a tensor has too many dimensions"));
        }
        items.iter().map(|item| self.number(*item)).collect()
    }

    fn tensor(&self, id: Id, budget: &mut Budget) -> Result<Tensor> {
        let fields = self.fields(id, "TensorStorageMetadata")?;
        let properties = self.field(&fields, "properties")?;
        let state = self.arena.call(properties).and_then(|call| call.state);
        // A tuple that begins with the dtype.
        let dtype = state.and_then(|state| match self.arena.items(state)? {
            [dtype, ..] => self.arena.global(*dtype),
            [] => None,
        });
        let Some(("torch", dtype)) = dtype else { return Err(wrong("a tensor has no dtype")) };
        let size = Shape::new(self.numbers(self.field(&fields, "size")?)?);
        let items = self.arena.items(self.field(&fields, "chunks")?);
        let items = items.ok_or_else(|| wrong("\"chunks\" is not a list"))?;
        budget.charge((size_of::<Chunk>() as u64).saturating_mul(items.len() as u64))?;
        let chunk = |item: &Id| {
            let fields = self.fields(*item, "ChunkStorageMetadata")?;
            let offsets = Shape::new(self.numbers(self.field(&fields, "offsets")?)?);
            Ok(Chunk { offsets, sizes: Shape::new(self.numbers(self.field(&fields, "sizes")?)?) })
        };
        Ok(Tensor { dtype: dtype.to_owned(), size, chunks: items.iter().map(chunk).collect::<Result<_>>()? })
    }

    fn place(&self, id: Id) -> Result<Place> {
        let fields = self.fields(id, "_StorageInfo")?;
        let transform = fields.get("transform_descriptors").and_then(|id| self.arena.items(*id));
        let transform = transform.and_then(|items| items.first());
        Ok(Place {
            file: self.text(self.field(&fields, "relative_path")?)?,
            offset: self.number(self.field(&fields, "offset")?)?,
            length: self.number(self.field(&fields, "length")?)?,
            transform: transform.map(|first| self.arena.text(*first).unwrap_or("?").to_owned()),
        })
    }
}

fn wrong(what: &str) -> Error {
    Error::malformed(format!("the metadata of this distributed checkpoint is damaged: {what}"))
}
