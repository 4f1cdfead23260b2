//! Storages: the flat buffers that tensors are views of. A pickle refers to them by key; where their bytes lie depends on the container
//! (zip member or stretch of the legacy stream), which fills the table here.

use std::collections::HashMap;

use super::globals::Known;
use super::pickle::{Arena, Id, Node};
use super::types::Scalar;
use crate::error::{Error, Result};
use crate::index::Data;

/// Where a storage's bytes lie.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The bytes, or why they are not read.
    pub data: Result<Data, String>,
    /// Bytes once decoded.
    pub length: u64,
}

/// The storages of a file.
#[derive(Debug, Default)]
pub(super) struct Storages<'k> {
    pub by_key: HashMap<&'k str, Stored>,
    pub big_endian: bool,
}

/// A reference to a storage as the pickle spells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference<'a> {
    pub key: &'a str,
    pub scalar: Scalar,
    /// Elements in the storage.
    pub count: u64,
    /// Old files refer to a part of another storage: its first element and its number of elements.
    pub part: Option<(u64, u64)>,
}

/// A stretch of bytes that tensors are views of.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub data: Result<Data, String>,
    /// Bytes of the whole buffer once decoded.
    pub buffer_length: u64,
    /// Where the storage begins in the buffer.
    pub start: u64,
    /// Bytes of the storage.
    pub length: u64,
    pub scalar: Scalar,
}

/// Reads `('storage', class, key, location, count[, part])`; `None` if the value is something else.
pub(super) fn reference<'p>(arena: &'p Arena<'_>, known: &[Known], id: Id) -> Result<Option<Reference<'p>>> {
    let Node::Persistent(inner) = arena.get(id) else { return Ok(None) };
    let wrong = || Error::malformed("a storage reference in the pickle is not of the known form");
    let items = arena.items(*inner).ok_or_else(wrong)?;
    let [kind, class, key, _location, count, rest @ ..] = items else { return Ok(None) };
    if arena.text(*kind) != Some("storage") {
        return Ok(None);
    }
    let scalar = match arena.global_slot(*class).and_then(|slot| known.get(slot)) {
        Some(Known::StorageClass(scalar)) => *scalar,
        _ => return Err(wrong()),
    };
    let unsigned = |id: Id| arena.integer(id).and_then(|value| u64::try_from(value).ok()).ok_or_else(wrong);
    let part = match rest.first().map(|id| (arena.items(*id), arena.get(*id))) {
        None | Some((_, Node::None)) => None,
        Some((Some([_key, start, count]), _)) => Some((unsigned(*start)?, unsigned(*count)?)),
        Some(_) => return Err(wrong()),
    };
    Ok(Some(Reference { key: arena.text(*key).ok_or_else(wrong)?, scalar, count: unsigned(*count)?, part }))
}

impl Storages<'_> {
    /// The storage behind a reference, checked against the bytes that are there.
    pub(super) fn resolve(&self, reference: &Reference<'_>) -> Result<Storage> {
        let Reference { key, scalar, .. } = reference;
        let stored = self
            .by_key
            .get(*key)
            .ok_or_else(|| Error::malformed(format!("the storage \"{key}\" is not in the file")))?;
        let bytes = |count: u64| {
            count
                .checked_mul(scalar.width)
                .ok_or_else(|| Error::malformed(format!("storage \"{key}\" overflows")))
        };
        let whole = bytes(reference.count)?;
        if whole > stored.length {
            return Err(Error::truncated(format!(
                "storage \"{key}\" should have {whole} bytes, but the file holds {}",
                stored.length
            )));
        }
        let (start, length) = match reference.part {
            Some((start, count)) => (bytes(start)?, bytes(count)?),
            None => (0, whole),
        };
        if start.checked_add(length).is_none_or(|end| end > whole) {
            return Err(Error::malformed(format!("a part of storage \"{key}\" lies outside of it")));
        }
        Ok(Storage {
            data: stored.data.clone(),
            buffer_length: stored.length,
            start,
            length,
            scalar: *scalar,
        })
    }
}
