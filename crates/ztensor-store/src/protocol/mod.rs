//! The protocol by which any number of writers, removers, readers and collectors work on one store without locks. `spec/store.md` has the rules,
//! which the comments here cite by number, and the argument why they are safe. All effects go through a [`Backend`], so that the simulation in
//! `tests/` drives this very code.

mod add;
mod create;
mod gc;
mod pin;
mod proposals;
mod read;
mod remove;
mod roots;

pub use add::{Commit, Slot};
pub use gc::{Damage, GcOptions, GcReport};
pub use pin::Pin;
pub use proposals::Proposals;
pub use read::Current;

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, Reach};
use crate::id::{Id, Surroundings};
use crate::name::Name;
use crate::record::{LONGEST, Record, Stamp};
use ztensor::{Error, Kind, Result};

/// One store, as the protocol sees it.
#[derive(Clone)]
pub struct Protocol {
    backend: Arc<dyn Backend>,
    surroundings: Arc<dyn Surroundings>,
    store: Id,
    grace: Duration,
}

impl Protocol {
    /// The protocol over a store's storage.
    pub fn new(
        backend: Arc<dyn Backend>,
        surroundings: Arc<dyn Surroundings>,
        store: Id,
        grace: Duration,
    ) -> Self {
        Protocol { backend, surroundings, store, grace }
    }

    /// The storage.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The store's id.
    pub fn store(&self) -> Id {
        self.store
    }

    /// How long what was removed stays readable.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// A fresh random id.
    pub fn id(&self) -> Result<Id> {
        self.surroundings.id()
    }

    /// Refuses storage on which commits could be lost.
    pub(crate) fn check_honesty(&self) -> Result<()> {
        crate::backend::check_honesty(self.backend.as_ref(), self.surroundings.as_ref())
    }

    /// The stamp of a new add: its own origin.
    pub fn stamp(&self, slot: &Slot) -> Result<Stamp> {
        let write = self.id()?;
        Ok(Stamp {
            name: slot.name.clone(),
            generation: slot.generation,
            write,
            origin: slot.origin.unwrap_or(write),
            time: self.surroundings.time(),
        })
    }

    /// The generations of a name that exist, ascending.
    fn generations(&self, name: &Name) -> Result<Vec<u64>> {
        let listed = self.backend.list(&name.folder(), Reach::Folder)?;
        let own = listed.iter().filter_map(|object| Name::of_key(&object.key));
        let mut generations: Vec<u64> =
            own.filter(|(found, _)| found == name).map(|(_, generation)| generation).collect();
        generations.sort_unstable();
        Ok(generations)
    }

    /// One generation of a name; `None` where there is none.
    fn generation(&self, name: &Name, generation: u64) -> Result<Option<(Record, Vec<u8>)>> {
        let key = name.key(generation);
        let Some(bytes) = self.backend.read(&key, LONGEST)? else { return Ok(None) };
        self.record(name, generation, &bytes).map(|record| Some((record, bytes)))
    }

    /// What the bytes of a generation say, which has to be what their key says.
    fn record(&self, name: &Name, generation: u64, bytes: &[u8]) -> Result<Record> {
        let record = Record::decode(bytes, self.store).and_then(|record| match &record {
            Record::Manifest(manifest) if is(&manifest.stamp, name, generation) => Ok(record),
            Record::Tombstone(stamp) if is(stamp, name, generation) => Ok(record),
            _ => Err(Error::malformed("it is not what its key says")),
        });
        record.map_err(|error| error.with_context(&format!("\"{}\"", name.key(generation))))
    }

    /// The highest generation of a name: what the name means now.
    fn highest(&self, name: &Name) -> Result<Option<(u64, Record, Vec<u8>)>> {
        for _ in 0..PATIENCE {
            let Some(&top) = self.generations(name)?.last() else { return Ok(None) };
            // Only a generation that is no longer the highest can have vanished.
            if let Some((record, bytes)) = self.generation(name, top)? {
                return Ok(Some((top, record, bytes)));
            }
        }
        Err(busy(name))
    }

    /// The storage's clock now (14).
    fn storage_time(&self) -> Result<Duration> {
        let key = format!("probes/{}", self.id()?);
        self.backend.put(&key)?.finish()?;
        let stat = self.backend.stat(&key)?;
        self.backend.delete(&key)?;
        let stat =
            stat.ok_or_else(|| Error::new(Kind::Io, "an object that was just written is not there"))?;
        Ok(stat.written)
    }
}

/// How often something is tried again because somebody else was faster.
const PATIENCE: usize = 32;

fn busy(name: &Name) -> Error {
    Error::new(Kind::Conflict, format!("\"{name}\" is being changed by others all the time"))
        .with_hint("Try again.")
}

fn is(stamp: &Stamp, name: &Name, generation: u64) -> bool {
    stamp.name == *name && stamp.generation == generation
}
