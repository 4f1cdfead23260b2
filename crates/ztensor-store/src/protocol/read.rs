//! What a name means now, and what to read when a collector was faster.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::remove::{not_found, removed};
use super::{PATIENCE, Protocol};
use crate::backend::Reach;
use crate::id::Id;
use crate::name::Name;
use crate::record::{LONGEST, Manifest, Pack, Record, root_digest};
use ztensor::{Error, Hints, Kind, Result};

/// What a name means now.
#[derive(Clone, Debug)]
pub struct Current {
    /// The manifest.
    pub manifest: Manifest,
    /// Its root digest.
    pub root: [u8; 32],
    /// Bytes of the manifest itself.
    pub length: u64,
}

impl Protocol {
    /// Reads the manifest of a checkpoint (10).
    pub fn current(&self, name: &Name) -> Result<Current> {
        self.current_unless_known(name, |_| None).map(Arc::unwrap_or_clone)
    }

    /// The manifest of a checkpoint (10), which is read unless `known` has that generation. Records never change, and a generation that was deleted and
    /// created again is not the highest.
    pub(crate) fn current_unless_known(
        &self,
        name: &Name,
        known: impl Fn(u64) -> Option<Arc<Current>>,
    ) -> Result<Arc<Current>> {
        for _ in 0..PATIENCE {
            let Some(&top) = self.generations(name)?.last() else { return Err(not_found(name)) };
            if let Some(current) = known(top) {
                return Ok(current);
            }
            match self.generation(name, top)? {
                Some((Record::Manifest(manifest), bytes)) => {
                    let (root, length) = (root_digest(&bytes), bytes.len() as u64);
                    return Ok(Arc::new(Current { manifest, root, length }));
                }
                Some(_) => return Err(removed(name)),
                // Only a generation that is no longer the highest can have vanished.
                None => {}
            }
        }
        Err(super::busy(name))
    }

    /// Another generation of the same origin whose packs are all there, for a reader that misses a pack of the one it has (10).
    pub fn other_generation(&self, name: &Name, origin: Id, except: u64) -> Result<Manifest> {
        for generation in self.generations(name)?.into_iter().rev().filter(|generation| *generation != except)
        {
            let Some((Record::Manifest(manifest), _)) = self.generation(name, generation)? else { continue };
            if manifest.stamp.origin == origin && self.missing_pack(&manifest)?.is_none() {
                return Ok(manifest);
            }
        }
        Err(Error::new(Kind::Gone, format!("the checkpoint \"{name}\" is gone: its packs were deleted"))
            .with_hints(Hints::new(
                "`Store::verify` says more.",
                "Store.verify() says more.",
                "`ztensor store verify` says more.",
            )))
    }

    /// A pack of a manifest that is not there.
    pub fn missing_pack(&self, manifest: &Manifest) -> Result<Option<Id>> {
        self.missing(manifest.packs.iter().map(|pack| pack.id))
    }

    /// One of these packs that is not there.
    pub(super) fn missing(&self, packs: impl Iterator<Item = Id>) -> Result<Option<Id>> {
        let packs: Vec<Id> = packs.collect();
        let keys: Vec<String> = packs.iter().map(|pack| Pack::key(*pack)).collect();
        let there = self.backend().stat_all(&keys)?;
        Ok(packs.into_iter().zip(there).find(|(_, stat)| stat.is_none()).map(|(pack, _)| pack))
    }

    /// All names that were ever used, with their highest generation. Checkpoints that were removed and hidden names are among them.
    pub fn names(&self) -> Result<BTreeMap<Name, u64>> {
        let mut names = BTreeMap::new();
        for object in self.backend().list("checkpoints/", Reach::Tree)? {
            if let Some((name, generation)) = Name::of_key(&object.key) {
                let highest = names.entry(name).or_insert(generation);
                *highest = generation.max(*highest);
            }
        }
        Ok(names)
    }

    /// What many names mean now, each listed with its highest generation; in their order. The manifests are read side by side.
    pub fn listed_all(&self, names: &[(Name, u64)]) -> Result<Vec<Option<Current>>> {
        let keys: Vec<String> = names.iter().map(|(name, generation)| name.key(*generation)).collect();
        let read = self.backend().read_all(&keys, LONGEST)?;
        let decode = |((name, generation), bytes): (&(Name, u64), Option<Vec<u8>>)| match bytes {
            None => self.listed(name, *generation),
            Some(bytes) => match self.record(name, *generation, &bytes)? {
                Record::Manifest(manifest) => {
                    Ok(Some(Current { manifest, root: root_digest(&bytes), length: bytes.len() as u64 }))
                }
                _ => Ok(None),
            },
        };
        names.par_iter().zip(read).map(decode).collect()
    }

    /// The checkpoint that has this name now, which was listed with this highest generation; `None` if it was removed.
    pub fn listed(&self, name: &Name, generation: u64) -> Result<Option<Current>> {
        let mut generation = Some(generation);
        for _ in 0..PATIENCE {
            let Some(top) = generation else { return Ok(None) };
            match self.generation(name, top)? {
                Some((Record::Manifest(manifest), bytes)) => {
                    let (root, length) = (root_digest(&bytes), bytes.len() as u64);
                    return Ok(Some(Current { manifest, root, length }));
                }
                Some(_) => return Ok(None),
                None => generation = self.generations(name)?.last().copied(),
            }
        }
        Err(super::busy(name))
    }
}
