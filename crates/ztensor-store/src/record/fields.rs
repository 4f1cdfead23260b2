//! Taking a record's values apart: each has to be there, be of its kind, and be the last of what is known.

use crate::id::Id;
use ztensor::{Attributes, Error, Result, Value};

pub(super) fn put(map: &mut Attributes, key: &str, value: impl Into<Value>) {
    map.insert(key.to_owned(), value.into());
}

/// The fields of a map that have not been taken yet.
pub(super) struct Fields(Attributes);

impl Fields {
    pub(super) fn new(map: Attributes) -> Fields {
        Fields(map)
    }

    pub(super) fn take(&mut self, key: &str) -> Result<Value> {
        self.0.swap_remove(key).ok_or_else(|| Error::malformed(format!("the record has no \"{key}\"")))
    }

    pub(super) fn number(&mut self, key: &str) -> Result<u64> {
        as_number(self.take(key)?)
    }

    pub(super) fn text(&mut self, key: &str) -> Result<String> {
        as_text(self.take(key)?)
    }

    pub(super) fn id(&mut self, key: &str) -> Result<Id> {
        as_id(self.take(key)?)
    }

    pub(super) fn list(&mut self, key: &str) -> Result<Vec<Value>> {
        as_list(self.take(key)?)
    }

    pub(super) fn finish(self) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => {
                Err(Error::unsupported(format!("the record has an unknown field \"{}\"", key.escape_debug()))
                    .with_hint("Update ztensor."))
            }
        }
    }
}

/// The items of a list that has a fixed meaning for each place.
pub(super) struct Items(std::vec::IntoIter<Value>);

impl Items {
    pub(super) fn new(value: Value) -> Result<Items> {
        Ok(Items(as_list(value)?.into_iter()))
    }

    pub(super) fn next(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(|| Error::malformed("a list of the record is too short"))
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        as_number(self.next()?)
    }

    pub(super) fn optional(&mut self) -> Option<Value> {
        self.0.next()
    }

    pub(super) fn finish(mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(_) => Err(Error::malformed("a list of the record is too long")),
        }
    }
}

pub(super) fn as_number(value: Value) -> Result<u64> {
    value.as_u64().ok_or_else(|| wrong("a number"))
}

pub(super) fn as_text(value: Value) -> Result<String> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(wrong("a text")),
    }
}

pub(super) fn as_list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(wrong("a list")),
    }
}

pub(super) fn as_bytes<const N: usize>(value: Value) -> Result<[u8; N]> {
    match value {
        Value::Bytes(bytes) => bytes.try_into().map_err(|_| wrong("so many bytes")),
        _ => Err(wrong("bytes")),
    }
}

pub(super) fn as_bytes_of(value: Value, most: usize) -> Result<Vec<u8>> {
    match value {
        Value::Bytes(bytes) if bytes.len() <= most => Ok(bytes),
        Value::Bytes(_) => Err(wrong("so few bytes")),
        _ => Err(wrong("bytes")),
    }
}

pub(super) fn as_id(value: Value) -> Result<Id> {
    as_bytes(value).map(Id)
}

fn wrong(expected: &str) -> Error {
    Error::malformed(format!("a field of the record is not {expected}"))
}
