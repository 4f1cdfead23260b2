//! What a store needs of the storage it lives in: five operations, on a directory, a bucket or memory alike. Nothing is ever overwritten or
//! renamed, and the storage's own clock is the only one that is looked at.

#[cfg(feature = "remote")]
mod bucket;
mod directory;
mod memory;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "remote")]
pub use bucket::Bucket;
pub use directory::Directory;
pub use memory::Memory;

use crate::id::Surroundings;
use ztensor::{Error, Hints, Kind, Result};

/// Length and time of writing of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number of bytes.
    pub length: u64,
    /// When it was written, by the storage's own clock, since some fixed moment.
    pub written: Duration,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: String,
    /// Its length and time of writing.
    pub stat: Stat,
}

/// What came of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The object was made.
    Created,
    /// The key is taken, perhaps by an earlier try of the same create.
    Exists,
}

/// How deep a list goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Objects directly in the folder.
    Folder,
    /// All objects below it.
    Tree,
}

/// Storage for objects under keys, which are relative paths with `/` between their segments. An error leaves open whether the operation took place.
pub trait Backend: Send + Sync {
    /// The storage, as messages name it.
    fn describe(&self) -> String;

    /// Whether ranges of objects are at hand: many small ones take no longer than one large one.
    fn is_at_hand(&self) -> bool {
        false
    }

    /// Starts an object under a fresh key that nobody else writes. It exists once it is finished.
    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>>;

    /// Creates an object if the key is free. Of several at once exactly one succeeds, and nobody ever sees a part of the object.
    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation>;

    /// Reads a range of an object: as many bytes as the buffer takes. The kind of the error is `NotFound` where there is no such object.
    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Reads a whole object of at most `most` bytes; `None` where there is none.
    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>>;

    /// Reads many whole objects; in the order of the keys. Storage far away is asked for several at once.
    fn read_all(&self, keys: &[String], most: u64) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.read(key, most)).collect()
    }

    /// Length and time of writing of many objects; in the order of the keys.
    fn stat_all(&self, keys: &[String]) -> Result<Vec<Option<Stat>>> {
        keys.iter().map(|key| self.stat(key)).collect()
    }

    /// Length and time of writing of an object; `None` where there is none.
    fn stat(&self, key: &str) -> Result<Option<Stat>>;

    /// The objects below a prefix that ends with `/`, or all of them. What exists from before the call until after it is listed.
    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>>;

    /// Deletes an object. That there is none is no error.
    fn delete(&self, key: &str) -> Result<()>;
}

/// An object on its way. Dropped before it is finished, nothing is left under its key.
pub trait Upload: Send + Sync {
    /// Takes the next bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes the object exist; its bytes are durable then.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// The storage at a path: a directory, or a bucket by its URL.
pub fn at(path: &Path) -> Result<Arc<dyn Backend>> {
    match path.to_str().and_then(|text| text.split_once("://")) {
        Some(("file", folder)) => Ok(Arc::new(Directory::new(folder))),
        Some(_) => by_url(path),
        None => Ok(Arc::new(Directory::new(path))),
    }
}

#[cfg(feature = "remote")]
fn by_url(path: &Path) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(Bucket::open(&path.to_string_lossy(), &ztensor_remote::current_options())?))
}

#[cfg(not(feature = "remote"))]
fn by_url(path: &Path) -> Result<Arc<dyn Backend>> {
    Err(Error::unsupported("stores in buckets are not part of this build")
        .with_path(path)
        .with_hint("Build with the feature \"remote\"."))
}

/// Refuses storage that accepts a create under a taken key: commits would be lost there.
pub fn check_honesty(backend: &dyn Backend, surroundings: &dyn Surroundings) -> Result<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        let key = format!("probes/{}", surroundings.id()?);
        match probe(backend, &key) {
            Ok(true) => return Ok(()),
            Ok(false) => break,
            // A create whose answer was lost tells nothing; the next has a key of its own.
            Err(error) if error.kind() == Kind::Io && tries < PROBES => {
                surroundings.pause(tries);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(
        Kind::Unsupported,
        format!("{} accepts a conditional create and ignores the condition, so commits could be lost", backend.describe()),
    )
    .with_hints(Hints::new("Use another server, or make the store for a single writer and let only one process change it at a time.", "Use another server, or make the store with single_writer=True and let only one process change it at a time.", "Use another server, or make the store with --single-writer and let only one process change it at a time.")))
}

/// Probes whose answers were lost before the storage counts as unreachable.
const PROBES: u32 = 4;

/// Creates a key twice; whether the second try was refused.
fn probe(backend: &dyn Backend, key: &str) -> Result<bool> {
    let first = backend.create(key, b"first")?;
    let second = backend.create(key, b"second")?;
    let kept = backend.read(key, 16)?;
    backend.delete(key)?;
    Ok(first == Creation::Created && second == Creation::Exists && kept.as_deref() == Some(b"first"))
}
