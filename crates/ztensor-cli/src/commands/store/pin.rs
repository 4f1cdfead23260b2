//! Commands that keep packs from being collected.

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor_store::PinListing;

use super::Where;
use crate::display::{say, say_json, size};
use crate::{Outcome, Result};

#[derive(Args)]
pub(super) struct MakePin {
    /// The checkpoint [default: list the pins that are in place]
    name: Option<String>,
    #[command(flatten)]
    place: Where,
}

impl MakePin {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        let Some(name) = &self.name else { return self.list(&store.pins()?) };
        let pin = store.pin(name)?;
        if self.place.json {
            return say_json(&json!({ "name": name, "pin": pin.name().as_str() }));
        }
        say(&format!("pinned {name}: {} keeps it for 30 days, or until `ztensor store unpin`", pin.name()))?;
        Ok(Outcome::Done)
    }

    fn list(&self, pins: &[PinListing]) -> Result {
        if self.place.json {
            let document = |pin: &PinListing| json!({ "pin": pin.name.as_str(), "time": pin.time, "packs": pin.packs, "bytes": pin.bytes });
            return say_json(&Json::from(pins.iter().map(document).collect::<Vec<_>>()));
        }
        for pin in pins {
            say(&format!("{}  {} packs, {}", pin.name, pin.packs, size(pin.bytes)))?;
        }
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Unpin {
    /// The pins, as `ztensor store pin` names them
    #[arg(required = true)]
    pins: Vec<String>,
    #[command(flatten)]
    place: Where,
}

impl Unpin {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        for pin in &self.pins {
            store.end_pin(pin)?;
            if !self.place.json {
                say(&format!("ended {pin}"))?;
            }
        }
        if self.place.json {
            return say_json(&json!({ "ended": self.pins }));
        }
        Ok(Outcome::Done)
    }
}
