//! What a store writes besides packs: manifests, tombstones, proposals and decrees. One envelope for all, a struct for each, bytes that are hostile
//! until every field was checked. `spec/store.md` has the bytes.

mod encoding;
mod fields;
mod manifest;
mod pack;
mod path;

pub(crate) use encoding::float;
pub use encoding::{Encoding, Operand};
pub use manifest::{Entry, File, FileKind, Manifest, Piece};
pub(crate) use manifest::{depth, needed};
pub(crate) use pack::PackHasher;
pub use pack::{Pack, PackDigest};
pub(crate) use path::{check_paths, check_target};

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use self::fields::{Fields, put};
use crate::id::Id;
use crate::name::Name;
use ztensor::{Attributes, Error, Kind, Result, Value};

/// The longest record that is read, as stored.
pub(crate) const LONGEST: u64 = 64 << 20;
/// The longest content.
const LONGEST_CONTENT: u64 = 64 << 20;
const MAGIC: &[u8; 4] = b"ZTM\x01";
const DIGEST: usize = 32;
/// The lowest format, that of manifests with recipes, and that of manifests whose packs, or some files, have no sha256.
const FORMAT: u64 = 1;
const WITH_RECIPES: u64 = 2;
const LEAN: u64 = 3;
const DEPTH: usize = 32;

/// Which generation of which name a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The checkpoint.
    pub name: Name,
    /// The generation.
    pub generation: u64,
    /// Of this record alone.
    pub write: Id,
    /// The `write` of the add that this generation comes from, or that a tombstone removes.
    pub origin: Id,
    /// Seconds since 1970, for people.
    pub time: u64,
}

/// A record of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A checkpoint.
    Manifest(Manifest),
    /// The end of one.
    Tombstone(Stamp),
    /// Packs that somebody wants to delete.
    Proposal(BTreeSet<Id>),
    /// Packs that may be deleted.
    Decree(BTreeSet<Id>),
}

impl Record {
    /// The record's bytes in a store.
    pub fn encode(&self, store: Id) -> Result<Vec<u8>> {
        let mut map = Attributes::new();
        let format = match self {
            Record::Manifest(manifest) => manifest.format(),
            _ => FORMAT,
        };
        put(&mut map, "format", format);
        put(&mut map, "store", Value::Bytes(store.0.to_vec()));
        let kind = match self {
            Record::Manifest(manifest) => {
                put_stamp(&mut map, &manifest.stamp);
                manifest.put(&mut map);
                "manifest"
            }
            Record::Tombstone(stamp) => {
                put_stamp(&mut map, stamp);
                "tombstone"
            }
            Record::Proposal(packs) => {
                put_packs(&mut map, packs);
                "proposal"
            }
            Record::Decree(packs) => {
                put_packs(&mut map, packs);
                "decree"
            }
        };
        put(&mut map, "kind", kind);
        let content = Value::Map(map).to_cbor();
        if content.len() as u64 > LONGEST_CONTENT {
            return Err(Error::new(Kind::Limit, "the checkpoint has too many tensors for one manifest"));
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(zstd::bulk::compress(&content, 3)?);
        bytes.extend_from_slice(&Sha256::digest(&bytes));
        Ok(bytes)
    }

    /// Reads a record of a store.
    pub fn decode(bytes: &[u8], store: Id) -> Result<Record> {
        let content = open_envelope(bytes)?;
        let Value::Map(map) = Value::from_cbor(&content, DEPTH)? else {
            return Err(Error::malformed("the record is not a map"));
        };
        let mut fields = Fields::new(map);
        let format = fields.number("format")?;
        if !(FORMAT..=LEAN).contains(&format) {
            return Err(Error::unsupported(format!("this is version {format} of a store's records"))
                .with_hint("Update ztensor."));
        }
        if fields.id("store")? != store {
            return Err(Error::malformed("the record belongs to another store"));
        }
        let record = match fields.text("kind")?.as_str() {
            "manifest" => {
                let stamp = take_stamp(&mut fields)?;
                Record::Manifest(Manifest::take(stamp, &mut fields, format)?)
            }
            "tombstone" => Record::Tombstone(take_stamp(&mut fields)?),
            "proposal" => Record::Proposal(take_packs(&mut fields)?),
            "decree" => Record::Decree(take_packs(&mut fields)?),
            other => {
                return Err(Error::malformed(format!("\"{}\" is no kind of record", other.escape_debug())));
            }
        };
        fields.finish()?;
        Ok(record)
    }
}

/// The digest at the end of a record, which names it.
pub fn root_digest(bytes: &[u8]) -> [u8; DIGEST] {
    bytes.last_chunk().copied().unwrap_or_default()
}

fn open_envelope(bytes: &[u8]) -> Result<Vec<u8>> {
    let (body, digest) =
        bytes.split_last_chunk::<DIGEST>().ok_or_else(|| Error::truncated("the record is too short"))?;
    let frame = body.strip_prefix(MAGIC).ok_or_else(|| match body.starts_with(b"ZTM") {
        true => Error::unsupported("this is a record of a later release").with_hint("Update ztensor."),
        false => Error::malformed("this is no record of a store"),
    })?;
    if Sha256::digest(body)[..] != digest[..] {
        return Err(Error::new(
            Kind::Checksum,
            "the record's digest is not that of its bytes: it is damaged",
        ));
    }
    let length = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    let length = length.ok_or_else(|| Error::malformed("the record does not state its length"))?;
    if length > LONGEST_CONTENT {
        return Err(Error::new(Kind::Limit, format!("the record has {length} bytes")));
    }
    let content = zstd::bulk::decompress(frame, length as usize)
        .map_err(|_| Error::malformed("the record cannot be decompressed"))?;
    match content.len() as u64 == length {
        true => Ok(content),
        false => Err(Error::malformed("the record is not as long as it states")),
    }
}

fn put_stamp(map: &mut Attributes, stamp: &Stamp) {
    put(map, "name", stamp.name.as_str());
    put(map, "generation", stamp.generation);
    put(map, "write", Value::Bytes(stamp.write.0.to_vec()));
    put(map, "origin", Value::Bytes(stamp.origin.0.to_vec()));
    put(map, "time", stamp.time);
}

fn take_stamp(fields: &mut Fields) -> Result<Stamp> {
    Ok(Stamp {
        name: Name::stated(&fields.text("name")?)?,
        generation: fields.number("generation")?,
        write: fields.id("write")?,
        origin: fields.id("origin")?,
        time: fields.number("time")?,
    })
}

fn put_packs(map: &mut Attributes, packs: &BTreeSet<Id>) {
    put(map, "packs", Value::List(packs.iter().map(|id| Value::Bytes(id.0.to_vec())).collect()));
}

fn take_packs(fields: &mut Fields) -> Result<BTreeSet<Id>> {
    let list = fields.list("packs")?;
    let ids = list.into_iter().map(fields::as_id).collect::<Result<Vec<Id>>>()?;
    if !ids.is_sorted_by(|a, b| a < b) {
        return Err(Error::malformed("the packs are not in order"));
    }
    Ok(ids.into_iter().collect())
}
