//! Removing a checkpoint: a tombstone above it, and a look that nobody put a further generation of it on top meanwhile.

use super::add::after;
use super::create::Made;
use super::{PATIENCE, Protocol, busy};
use crate::id::Id;
use crate::name::Name;
use crate::record::{Record, Stamp};
use ztensor::{Error, Hints, Kind, Result};

impl Protocol {
    /// Removes the checkpoint that has this name now (8). A checkpoint that somebody adds under the name meanwhile is left alone.
    pub fn remove(&self, name: &Name) -> Result<()> {
        let mut target: Option<Id> = None;
        for _ in 0..PATIENCE {
            let (top, origin) = match (self.highest(name)?, target) {
                (Some((top, Record::Manifest(manifest), _)), None) => (top, manifest.stamp.origin),
                (Some((top, Record::Manifest(manifest), _)), Some(target))
                    if manifest.stamp.origin == target =>
                {
                    (top, target)
                }
                // Ours is covered: by somebody else's tombstone, or by what was added above one.
                (_, Some(_)) => return Ok(()),
                (None, None) => return Err(not_found(name)),
                (Some(_), None) => return Err(removed(name)),
            };
            target = Some(origin);
            let generation = after(name, top)?;
            let stamp = Stamp {
                name: name.clone(),
                generation,
                write: self.id()?,
                origin,
                time: self.surroundings.time(),
            };
            let bytes = Record::Tombstone(stamp).encode(self.store())?;
            if let Made::Conflict(_) = self.create(&name.key(generation), &bytes)? {
                continue;
            }
            match self.highest(name)? {
                Some((found, Record::Manifest(manifest), _))
                    if found > generation && manifest.stamp.origin == origin => {}
                _ => return Ok(()),
            }
        }
        Err(busy(name))
    }
}

pub(super) fn not_found(name: &Name) -> Error {
    Error::new(Kind::NotFound, format!("the store has no checkpoint \"{name}\"")).with_hints(Hints::new(
        "`Store::list` tells what it has.",
        "Store.list() tells what it has.",
        "`ztensor store list` shows what it has.",
    ))
}

pub(super) fn removed(name: &Name) -> Error {
    Error::new(Kind::Gone, format!("the checkpoint \"{name}\" was removed")).with_hints(Hints::new(
        "`Store::list` tells what it has.",
        "Store.list() tells what it has.",
        "`ztensor store list` shows what it has.",
    ))
}
