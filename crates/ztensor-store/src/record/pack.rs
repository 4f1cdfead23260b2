//! Packs as manifests name them: by a random id, with a digest that finds damage. What is in them is named by sha256, piece by piece, so that this
//! digest need not withstand anybody who makes packs on purpose: whoever does is found out where pieces are decoded.

use sha2::{Digest as _, Sha256};
use twox_hash::XxHash3_128;

use super::fields::{Items, as_id};
use crate::id::Id;
use ztensor::{Error, Result, Value};

/// A pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// Its key.
    pub id: Id,
    /// Its length.
    pub length: u64,
    /// The digest of all of it.
    pub digest: PackDigest,
}

impl Pack {
    /// The key of a pack.
    pub fn key(id: Id) -> String {
        let digits = id.to_string();
        format!("packs/{}/{digits}.zt", &digits[..2])
    }

    /// The pack of a key.
    pub fn of_key(key: &str) -> Option<Id> {
        let (_, file) = key.rsplit_once('/')?;
        Id::parse(file.strip_suffix(".zt")?).filter(|id| Pack::key(*id) == key)
    }
}

/// The digest of a pack, which its length in a manifest tells from the other kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackDigest {
    /// XXH3-128, most significant byte first.
    Xxh3([u8; 16]),
    /// sha256, of packs in manifests of the formats 1 and 2.
    Sha256([u8; 32]),
}

/// A digest on its way.
pub(crate) enum PackHasher {
    Xxh3(Box<XxHash3_128>),
    Sha256(Box<Sha256>),
}

impl PackHasher {
    /// For a new pack.
    pub(crate) fn new() -> PackHasher {
        PackHasher::Xxh3(Box::new(XxHash3_128::new()))
    }

    /// For a pack that has this digest.
    pub(crate) fn like(digest: PackDigest) -> PackHasher {
        match digest {
            PackDigest::Xxh3(_) => PackHasher::new(),
            PackDigest::Sha256(_) => PackHasher::Sha256(Box::default()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            PackHasher::Xxh3(hasher) => hasher.write(bytes),
            PackHasher::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> PackDigest {
        match self {
            PackHasher::Xxh3(hasher) => PackDigest::Xxh3(hasher.finish_128().to_be_bytes()),
            PackHasher::Sha256(hasher) => PackDigest::Sha256(hasher.finalize().into()),
        }
    }
}

pub(super) fn pack_value(pack: &Pack) -> Value {
    let digest = match &pack.digest {
        PackDigest::Xxh3(digest) => digest.to_vec(),
        PackDigest::Sha256(digest) => digest.to_vec(),
    };
    Value::List(vec![Value::Bytes(pack.id.0.to_vec()), Value::from(pack.length), Value::Bytes(digest)])
}

/// Reads a pack. Records before `lean` ones know sha256 only.
pub(super) fn take_pack(value: Value, lean: bool) -> Result<Pack> {
    let mut items = Items::new(value)?;
    let (id, length) = (as_id(items.next()?)?, items.number()?);
    let Value::Bytes(bytes) = items.next()? else {
        return Err(Error::malformed("the digest of a pack is not bytes"));
    };
    let digest = match bytes.len() {
        16 if lean => bytes.try_into().map(PackDigest::Xxh3),
        _ => bytes.try_into().map(PackDigest::Sha256),
    };
    items.finish()?;
    let digest = digest.map_err(|_| Error::malformed("the digest of a pack is of no known kind"))?;
    Ok(Pack { id, length, digest })
}
