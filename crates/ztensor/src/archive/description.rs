//! The one attribute that makes a `.zt` file an archive: what the original was, and for a delta, what its base was.

use super::digest::hexadecimal;
use crate::error::{Error, Hints, Result};
use crate::index::Index;
use crate::tensor::{Attributes, Value};

/// What to do with an archive where its original is needed.
pub(super) const RESTORE_FIRST: Hints = Hints::new(
    "Restore its original first: `ztensor::archive::restore`, or `ztensor::delta::apply`.",
    "Restore its original first: z4ai.safetensors.decompress_file, or z4ai.model_delta.decompress_file.",
    "Restore its original first: `ztensor restore`, or `ztensor delta apply`.",
);

/// The attribute's name.
pub(super) const ATTRIBUTE: &str = "z4ai.archive";
/// The object with the stored bytes of all pieces.
pub(super) const PIECES: &str = "z4ai.archive/pieces";
/// The object with all bytes of the original that belong to no piece.
pub(super) const SKELETON: &str = "z4ai.archive/skeleton";
/// The object that says how pieces and skeleton make the original.
pub(super) const TABLE: &str = "z4ai.archive/table";
/// The version of the attribute.
const VERSION: u64 = 1;

/// What the attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// The original's format.
    pub format: String,
    /// The original.
    pub original: FileIdentity,
    /// What a delta was made against, with the name it had; `None` in an archive that stands by itself.
    pub base: Option<(String, FileIdentity)>,
}

/// A file, by its length and digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Description {
    /// The description in an index, if the file is an archive.
    pub(crate) fn find(index: &Index) -> Option<Result<Description>> {
        match index.attributes.get(ATTRIBUTE)? {
            Value::Map(map) => Some(parse(map)),
            _ => Some(Err(damaged("it is not a map"))),
        }
    }

    /// Refuses to change a file that is an archive: what it holds is described once, and nothing that is added would be seen.
    pub(crate) fn refuse_change(attributes: &Attributes) -> Result<()> {
        match attributes.contains_key(ATTRIBUTE) {
            true => Err(Error::argument("this is an archive, whose tensors cannot be changed in place")
                .with_hints(RESTORE_FIRST)),
            false => Ok(()),
        }
    }

    /// The description as an attribute.
    pub(super) fn to_value(&self) -> Value {
        let mut map = Attributes::new();
        map.insert("version".into(), VERSION.into());
        map.insert("format".into(), Value::from(self.format.as_str()));
        put_identity(&mut map, &self.original);
        if let Some((name, identity)) = &self.base {
            let mut base = Attributes::new();
            base.insert("name".into(), Value::from(name.as_str()));
            put_identity(&mut base, identity);
            map.insert("base".into(), Value::Map(base));
        }
        Value::Map(map)
    }
}

fn put_identity(map: &mut Attributes, identity: &FileIdentity) {
    map.insert("length".into(), identity.length.into());
    map.insert("sha256".into(), Value::Bytes(identity.sha256.to_vec()));
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
    let base = match map.get("base") {
        None => None,
        Some(Value::Map(base)) => Some((text(base, "name")?, identity(base)?)),
        Some(_) => return Err(damaged("its base is not a map")),
    };
    Ok(Description { format: text(map, "format")?, original: identity(map)?, base })
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
