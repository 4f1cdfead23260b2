//! Pins: manifests under hidden names that have packs and no files. They keep what a long add has put and reused so far, or what a reader needs.

use super::add::after;
use super::{Commit, Protocol, Slot};
use crate::name::Name;
use crate::record::{Manifest, Pack, Stamp};
use ztensor::{Error, Kind, Result};

/// A pin that is in place.
#[derive(Clone, Debug)]
pub struct Pin {
    stamp: Stamp,
}

impl Pin {
    /// Its hidden name.
    pub fn name(&self) -> &Name {
        &self.stamp.name
    }
}

impl Protocol {
    /// Keeps packs from being collected (9).
    pub fn pin(&self, packs: Vec<Pack>) -> Result<Pin> {
        let slot = Slot { name: Name::pin(self.id()?), generation: 0, origin: None };
        self.commit_pin(&slot, packs)
    }

    /// Keeps these packs instead, and for longer.
    pub fn renew(&self, pin: &Pin, packs: Vec<Pack>) -> Result<Pin> {
        let generation = after(&pin.stamp.name, pin.stamp.generation)?;
        let slot = Slot { name: pin.stamp.name.clone(), generation, origin: Some(pin.stamp.origin) };
        self.commit_pin(&slot, packs)
    }

    /// Ends a pin.
    pub fn unpin(&self, pin: &Pin) -> Result<()> {
        self.remove(&pin.stamp.name)
    }

    fn commit_pin(&self, slot: &Slot, packs: Vec<Pack>) -> Result<Pin> {
        let manifest = Manifest { packs, ..Manifest::new(self.stamp(slot)?) };
        match self.commit(&manifest)? {
            Commit::Success => Ok(Pin { stamp: manifest.stamp }),
            Commit::Conflict => {
                Err(Error::new(Kind::Gone, "the pin was ended: it was not renewed for too long"))
            }
            Commit::Doomed(pack) => {
                self.remove(&manifest.stamp.name)?;
                Err(Error::new(Kind::Gone, format!("pack {pack} was collected before it could be pinned")))
            }
        }
    }
}
