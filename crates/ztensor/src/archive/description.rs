//! The one attribute that makes a `.zt` file an archive: how the original is put together.

use std::sync::Arc;

use super::ArchiveInfo;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::source::Source;
use crate::tensor::{Attributes, Value};

/// The attribute's name.
pub(super) const ATTRIBUTE: &str = "z4ai.archive";
/// The object that holds all bytes that belong to no tensor.
pub(super) const SKELETON: &str = "z4ai.archive/skeleton";
/// The version of the attribute.
const VERSION: u64 = 1;

/// How the original is put together.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// The original's format.
    pub format: String,
    /// The original's length.
    pub length: u64,
    /// The original's sha256, in hexadecimal.
    pub sha256: String,
    /// The tensors' bytes by ascending offset; the skeleton fills the gaps.
    pub pieces: Vec<PieceEntry>,
}

/// A run of the original's bytes and the object of the archive that holds them.
#[derive(Clone, Debug)]
pub(crate) struct PieceEntry {
    pub offset: u64,
    pub length: u64,
    pub object: String,
}

impl Description {
    /// The description in an index, if the file is an archive.
    pub(crate) fn find(index: &Index) -> Option<Result<Description>> {
        match index.attributes.get(ATTRIBUTE)? {
            Value::Map(map) => Some(parse(map)),
            _ => Some(Err(damaged("it is not a map"))),
        }
    }

    /// What users are told.
    pub(crate) fn info(&self, files: &[Arc<Source>]) -> ArchiveInfo {
        ArchiveInfo {
            format: self.format.clone(),
            length: self.length,
            sha256: self.sha256.clone(),
            stored: files.iter().map(|file| file.len()).sum(),
        }
    }

    /// The description as an attribute.
    pub(super) fn to_value(&self) -> Value {
        let mut map = Attributes::new();
        map.insert("version".into(), VERSION.into());
        map.insert("format".into(), Value::from(self.format.as_str()));
        map.insert("length".into(), self.length.into());
        map.insert("sha256".into(), Value::from(self.sha256.as_str()));
        map.insert("pieces".into(), Value::List(self.pieces.iter().map(piece_value).collect()));
        Value::Map(map)
    }
}

fn piece_value(piece: &PieceEntry) -> Value {
    Value::List(vec![piece.offset.into(), piece.length.into(), Value::from(piece.object.as_str())])
}

fn parse(map: &Attributes) -> Result<Description> {
    match map.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(
                Error::unsupported(format!("version {other} of archives")).with_hint("Update ztensor.")
            );
        }
        None => return Err(damaged("it has no version")),
    }
    let Some(Value::List(list)) = map.get("pieces") else { return Err(damaged("it has no pieces")) };
    let pieces = list.iter().map(parse_piece).collect::<Result<Vec<_>>>()?;
    let description = Description {
        format: text(map, "format")?,
        length: number(map, "length")?,
        sha256: text(map, "sha256")?,
        pieces,
    };
    let mut position = 0;
    for piece in &description.pieces {
        if piece.offset < position {
            return Err(damaged("its pieces overlap"));
        }
        position = piece
            .offset
            .checked_add(piece.length)
            .filter(|end| *end <= description.length)
            .ok_or_else(|| damaged("a piece lies outside"))?;
    }
    Ok(description)
}

fn parse_piece(value: &Value) -> Result<PieceEntry> {
    let Value::List(items) = value else { return Err(damaged("a piece is not a list")) };
    let [offset, length, object] = &items[..] else { return Err(damaged("a piece has not three parts")) };
    match (offset.as_u64(), length.as_u64(), object.as_text()) {
        (Some(offset), Some(length), Some(object)) => {
            Ok(PieceEntry { offset, length, object: object.to_owned() })
        }
        _ => Err(damaged("a piece has no place or no object")),
    }
}

fn text(map: &Attributes, key: &str) -> Result<String> {
    map.get(key)
        .and_then(Value::as_text)
        .map(str::to_owned)
        .ok_or_else(|| damaged(&format!("it has no {key}")))
}

fn number(map: &Attributes, key: &str) -> Result<u64> {
    map.get(key).and_then(Value::as_u64).ok_or_else(|| damaged(&format!("it has no {key}")))
}

fn damaged(what: &str) -> Error {
    Error::malformed(format!("the description of the archive is damaged: {what}"))
}
