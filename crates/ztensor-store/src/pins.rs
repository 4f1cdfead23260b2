//! Pins by name, for people and programs that ended in between: a pin outlives the process that made it.

use crate::name::Name;
use crate::store::Store;
use ztensor::{Error, Hints, Result};

/// A pin that is in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinListing {
    /// Its hidden name, `.pin/…`.
    pub name: Name,
    /// When it was made or renewed, in seconds since 1970.
    pub time: u64,
    /// Packs it keeps.
    pub packs: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Store {
    /// The pins that are in place, the oldest first. Adds that take long make some of their own.
    pub fn pins(&self) -> Result<Vec<PinListing>> {
        let mut pins = Vec::new();
        for (name, generation) in self.protocol().names()? {
            if !name.is_hidden() {
                continue;
            }
            let Some(current) = self.protocol().listed(&name, generation)? else { continue };
            let packs = &current.manifest.packs;
            pins.push(PinListing {
                name,
                time: current.manifest.stamp.time,
                packs: packs.len() as u64,
                bytes: packs.iter().map(|pack| pack.length).sum(),
            });
        }
        pins.sort_by_key(|pin| pin.time);
        Ok(pins)
    }

    /// Ends a pin by its name.
    pub fn end_pin(&self, name: &str) -> Result<()> {
        let pin = Name::stated(name).ok().filter(Name::is_hidden);
        let pin = pin.ok_or_else(|| {
            Error::argument(format!("\"{}\" is no pin", name.escape_debug())).with_hints(Hints::new(
                "Pins are named .pin/ and 32 digits; `Store::pins` lists them.",
                "Pins are named .pin/ and 32 digits; Store.pins() lists them.",
                "Pins are named .pin/ and 32 digits; `ztensor store pin` lists them.",
            ))
        })?;
        self.protocol().remove(&pin)
    }
}
