//! Adding a checkpoint, and giving one a new generation: the manifest's creation, and the look around that follows it.

use std::collections::BTreeSet;

use super::create::Made;
use super::{Protocol, busy};
use crate::id::Id;
use crate::name::Name;
use crate::record::{Manifest, Pack, Record, Stamp};
use ztensor::{Error, Hints, Kind, Result};

/// Tries at a new generation, each of which leaves a manifest behind.
const REANCHORS: usize = 4;

/// Where a manifest is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The checkpoint.
    pub name: Name,
    /// The generation.
    pub generation: u64,
    /// The origin that a new generation of an old checkpoint keeps.
    pub origin: Option<Id>,
}

/// What came of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The checkpoint is there to stay.
    Success,
    /// Somebody else has the name or the generation.
    Conflict,
    /// A pack that the manifest refers to is gone or condemned.
    Doomed(Id),
}

impl Protocol {
    /// Where an add of this name goes (1).
    pub fn slot(&self, name: &Name) -> Result<Slot> {
        let generation = match self.highest(name)? {
            None => 0,
            Some((_, Record::Manifest(_), _)) => {
                return Err(Error::new(Kind::Duplicate, format!("there is a checkpoint \"{name}\" already"))
                    .with_hints(Hints::new(
                        "Choose another name, or remove it first: `Store::remove`.",
                        "Choose another name, or remove it first: Store.remove(name).",
                        "Choose another name, or remove it first: `ztensor store remove`.",
                    )));
            }
            Some((top, _, _)) => after(name, top)?,
        };
        Ok(Slot { name: name.clone(), generation, origin: None })
    }

    /// Whether a pack exists.
    pub fn has_pack(&self, pack: Id) -> Result<bool> {
        Ok(self.backend().stat(&Pack::key(pack))?.is_some())
    }

    /// Creates a manifest, and looks around after that (5 and 6). An error leaves open whether the checkpoint is there; nobody was told that it is.
    pub fn commit(&self, manifest: &Manifest) -> Result<Commit> {
        let Stamp { name, generation, origin, .. } = &manifest.stamp;
        // What cannot be read must not be committed.
        manifest.check()?;
        let packs = manifest.pack_ids();
        let bytes = Record::Manifest(manifest.clone()).encode(self.store())?;
        if let Made::Conflict(_) = self.create(&name.key(*generation), &bytes)? {
            return Ok(Commit::Conflict);
        }
        let unsure = |error: Error| {
            let context =
                format!("the manifest of \"{name}\" was created, but what became of it is not known");
            Error::new(Kind::OutcomeUnknown, format!("{context}: {error}")).with_hints(Hints::new(
                "Look at `Store::verify` when the storage answers again.",
                "Look at Store.verify() when the storage answers again.",
                "Look at `ztensor store verify` when the storage answers again.",
            ))
        };
        self.look_around(name, *generation, *origin, &packs).map_err(unsure)
    }

    fn look_around(&self, name: &Name, generation: u64, origin: Id, packs: &BTreeSet<Id>) -> Result<Commit> {
        let ours = match self.highest(name)? {
            Some((_, Record::Manifest(top), _)) => {
                top.stamp.generation == generation || top.stamp.origin == origin
            }
            _ => false,
        };
        if !ours {
            return Ok(Commit::Conflict);
        }
        if let Some(doomed) = self.protect(packs)? {
            return Ok(Commit::Doomed(doomed));
        }
        Ok(match self.missing(packs.iter().copied())? {
            Some(pack) => Commit::Doomed(pack),
            None => Commit::Success,
        })
    }

    /// Buries an add of ours that is doomed (7). That somebody else has the next generation is left alone. Returns where another try may go.
    pub fn bury(&self, stamp: &Stamp) -> Result<Slot> {
        let next = after(&stamp.name, stamp.generation)?;
        let tombstone = Stamp { generation: next, write: self.id()?, ..stamp.clone() };
        let bytes = Record::Tombstone(tombstone).encode(self.store())?;
        match self.create(&stamp.name.key(next), &bytes)? {
            Made::Ours => {
                Ok(Slot { name: stamp.name.clone(), generation: after(&stamp.name, next)?, origin: None })
            }
            Made::Conflict(_) => self.slot(&stamp.name),
        }
    }

    /// Where a new generation of a checkpoint goes, and what it is now (8). `None` once the checkpoint is not of that origin any more.
    pub fn next_generation(&self, name: &Name, origin: Option<Id>) -> Result<Option<(Slot, Manifest)>> {
        match self.highest(name)? {
            Some((top, Record::Manifest(manifest), _)) => {
                let same = origin.is_none_or(|origin| origin == manifest.stamp.origin);
                let slot = Slot {
                    name: name.clone(),
                    generation: after(name, top)?,
                    origin: Some(manifest.stamp.origin),
                };
                Ok(same.then_some((slot, manifest)))
            }
            _ => Ok(None),
        }
    }

    /// Gives a checkpoint a new generation that `rewrite` makes from its highest that is whole (8). On conflict or doom the try is abandoned, and made anew as long as
    /// the checkpoint is there. `false` if it is not there any more.
    pub fn reanchor(
        &self,
        name: &Name,
        rewrite: &mut dyn FnMut(&Slot, &Manifest) -> Result<Manifest>,
    ) -> Result<bool> {
        let mut origin = None;
        for _ in 0..REANCHORS {
            let Some((slot, highest)) = self.next_generation(name, origin)? else { return Ok(false) };
            origin = slot.origin;
            // An abandoned try may be the highest, with packs that are gone.
            let manifest = match self.missing_pack(&highest)? {
                None => highest,
                Some(_) => self.other_generation(name, highest.stamp.origin, highest.stamp.generation)?,
            };
            if self.commit(&rewrite(&slot, &manifest)?)? == Commit::Success {
                return Ok(true);
            }
        }
        Err(busy(name))
    }
}

/// The generation after another.
pub(super) fn after(name: &Name, generation: u64) -> Result<u64> {
    generation.checked_add(1).ok_or_else(|| {
        Error::new(Kind::Limit, format!("\"{name}\" has had as many generations as there are"))
    })
}
