//! The one attribute that makes a `.zt` file an archive: what the original was, and for a delta, what its base was.

use std::collections::HashSet;

pub(super) use crate::formats::zt::archived::{ATTRIBUTE, RESTORE_FIRST};

use super::digest::hexadecimal;
use crate::error::{Error, Result};
use crate::folder::is_plain;
use crate::index::Index;
use crate::tensor::{Attributes, Value};

/// The object with the stored bytes of all pieces.
pub(super) const PIECES: &str = "z4ai.archive/pieces";
/// The object with all bytes of the original that belong to no piece.
pub(super) const SKELETON: &str = "z4ai.archive/skeleton";
/// The object that says how pieces and skeleton make the original.
pub(super) const TABLE: &str = "z4ai.archive/table";
/// The version of the attribute where original and base are one file each.
const ONE_FILE: u64 = 1;
/// The version where one of them is several.
const SEVERAL_FILES: u64 = 2;
/// The version where pieces are computed by recipes.
const RECIPES: u64 = 3;
/// The version where a delta has several bases.
const SEVERAL_BASES: u64 = 4;
/// Bases of one delta.
pub(crate) const MOST_BASES: usize = 16;
/// Files of one model.
const MOST_FILES: usize = 100_000;

/// What the attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// The original's format.
    pub format: String,
    /// The original: its file, or all of its files one after the other.
    pub original: FileIdentity,
    /// The files of an original in several, the one that is opened first; empty for an original in one.
    pub files: Vec<NamedFile>,
    /// What a delta was made against; empty in an archive that stands by itself.
    pub bases: Vec<BaseDescription>,
    /// Whether pieces are computed by recipes.
    pub has_recipes: bool,
}

/// What a delta says of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseDescription {
    /// The name it had; empty if it had none.
    pub name: String,
    /// The file, or all files one after the other.
    pub identity: FileIdentity,
    /// The files of a base in several; empty for a base in one.
    pub files: Vec<NamedFile>,
}

/// A file by its name, length and digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// Relative to the folder of the model, with slashes.
    pub name: String,
    pub identity: FileIdentity,
}

/// A file, by its length and digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    pub length: u64,
    pub sha256: [u8; 32],
}

impl FileIdentity {
    /// The digest as people read it.
    pub(crate) fn digest(&self) -> String {
        hexadecimal(&self.sha256)
    }
}

impl BaseDescription {
    /// Every file that is needed.
    pub(crate) fn needed(&self) -> Vec<NamedFile> {
        match self.files.is_empty() {
            true => vec![NamedFile { name: self.name.clone(), identity: self.identity }],
            false => self.files.clone(),
        }
    }
}

impl Description {
    /// The description in an index, if the file is an archive.
    pub(crate) fn find(index: &Index) -> Option<Result<Description>> {
        match index.attributes.get(ATTRIBUTE)? {
            Value::Map(map) => Some(parse(map)),
            _ => Some(Err(damaged("it is not a map"))),
        }
    }

    /// The description as an attribute.
    pub(super) fn to_value(&self) -> Value {
        let mut map = Attributes::new();
        let several = !self.files.is_empty() || self.bases.iter().any(|base| !base.files.is_empty());
        let version = match (self.has_recipes, several) {
            _ if self.bases.len() > 1 => SEVERAL_BASES,
            (true, _) => RECIPES,
            (false, true) => SEVERAL_FILES,
            (false, false) => ONE_FILE,
        };
        map.insert("version".into(), version.into());
        map.insert("format".into(), Value::from(self.format.as_str()));
        put_identity(&mut map, &self.original);
        put_files(&mut map, &self.files);
        let mut bases = self.bases.iter().map(|base| {
            let mut entry = Attributes::new();
            entry.insert("name".into(), Value::from(base.name.as_str()));
            put_identity(&mut entry, &base.identity);
            put_files(&mut entry, &base.files);
            Value::Map(entry)
        });
        if self.bases.len() > 1 {
            map.insert("bases".into(), Value::List(bases.collect()));
        } else if let Some(base) = bases.next() {
            map.insert("base".into(), base);
        }
        Value::Map(map)
    }
}

fn put_identity(map: &mut Attributes, identity: &FileIdentity) {
    map.insert("length".into(), identity.length.into());
    map.insert("sha256".into(), Value::Bytes(identity.sha256.to_vec()));
}

fn put_files(map: &mut Attributes, files: &[NamedFile]) {
    let entry = |file: &NamedFile| {
        let mut entry = Attributes::new();
        entry.insert("name".into(), Value::from(file.name.as_str()));
        put_identity(&mut entry, &file.identity);
        Value::Map(entry)
    };
    if !files.is_empty() {
        map.insert("files".into(), Value::List(files.iter().map(entry).collect()));
    }
}

fn parse(map: &Attributes) -> Result<Description> {
    let version = map.get("version").and_then(Value::as_u64);
    let has_recipes = match version {
        Some(ONE_FILE | SEVERAL_FILES) => false,
        Some(RECIPES | SEVERAL_BASES) => true,
        Some(other) => {
            return Err(
                Error::unsupported(format!("version {other} of archives")).with_hint("Update ztensor.")
            );
        }
        None => return Err(damaged("it has no version")),
    };
    let base = |value: &Value| match value {
        Value::Map(base) => {
            let (name, identity) = (text(base, "name")?, identity(base)?);
            Ok(BaseDescription { name, identity, files: files(base, identity.length)? })
        }
        _ => Err(damaged("its base is not a map")),
    };
    let bases = match (version, map.get("base"), map.get("bases")) {
        (Some(SEVERAL_BASES), None, Some(Value::List(bases))) if (2..=MOST_BASES).contains(&bases.len()) => {
            bases.iter().map(base).collect::<Result<Vec<_>>>()?
        }
        (Some(SEVERAL_BASES), ..) => return Err(damaged("its bases are not a list of 2 to 16")),
        (_, one, _) => one.map(base).transpose()?.into_iter().collect(),
    };
    let original = identity(map)?;
    let format = text(map, "format")?;
    Ok(Description { format, original, files: files(map, original.length)?, bases, has_recipes })
}

/// The files of a model in several, whose lengths add up to `total`.
fn files(map: &Attributes, total: u64) -> Result<Vec<NamedFile>> {
    let entries = match map.get("files") {
        None => return Ok(Vec::new()),
        Some(Value::List(entries)) if (1..=MOST_FILES).contains(&entries.len()) => entries,
        Some(_) => return Err(damaged("its files are not a list")),
    };
    let mut files = Vec::with_capacity(entries.len());
    let mut names = HashSet::with_capacity(entries.len());
    let mut sum = Some(0u64);
    for entry in entries {
        let Value::Map(entry) = entry else { return Err(damaged("a file is not a map")) };
        let file = NamedFile { name: text(entry, "name")?, identity: identity(entry)? };
        if !is_plain(&file.name) || !names.insert(file.name.clone()) {
            return Err(damaged(&format!("\"{}\" is no name for one of its files", file.name)));
        }
        sum = sum.and_then(|sum| sum.checked_add(file.identity.length));
        files.push(file);
    }
    match sum {
        Some(sum) if sum == total => Ok(files),
        _ => Err(damaged("its files do not make up its length")),
    }
}

fn identity(map: &Attributes) -> Result<FileIdentity> {
    let length = map.get("length").and_then(Value::as_u64).ok_or_else(|| damaged("it has no length"))?;
    match map.get("sha256") {
        Some(Value::Bytes(digest)) => match digest.first_chunk() {
            Some(sha256) if digest.len() == sha256.len() => Ok(FileIdentity { length, sha256: *sha256 }),
            _ => Err(damaged("its digest has not 32 bytes")),
        },
        _ => Err(damaged("it has no digest")),
    }
}

fn text(map: &Attributes, key: &str) -> Result<String> {
    map.get(key)
        .and_then(Value::as_text)
        .map(str::to_owned)
        .ok_or_else(|| damaged(&format!("it has no {key}")))
}

pub(super) fn damaged(what: &str) -> Error {
    Error::malformed(format!("the description of the archive is damaged: {what}"))
}
