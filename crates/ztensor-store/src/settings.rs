//! `store.json`: what a store is. Created once, never changed.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::backend::{Backend, Creation};
use crate::id::Id;
use ztensor::{Error, Kind, Result};

const KEY: &str = "store.json";
const FORMAT: &str = "ztensor-store";
const VERSION: u64 = 1;
const LONGEST: u64 = 1 << 20;

/// What a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The store's id.
    pub id: Id,
    /// How long what was removed stays readable.
    pub grace: Duration,
    /// Whether the user promised that only one process changes the store at a time.
    pub single_writer: bool,
}

impl Settings {
    /// Writes the settings of a new store.
    pub(crate) fn create(&self, backend: &dyn Backend) -> Result<()> {
        let mode = if self.single_writer { "single-writer" } else { "shared" };
        let text = json!({
            "format": FORMAT, "version": VERSION, "id": self.id.to_string(),
            "grace_seconds": self.grace.as_secs(), "mode": mode,
        });
        match backend.create(KEY, format!("{text:#}\n").as_bytes())? {
            Creation::Created => Ok(()),
            Creation::Exists => Err(Error::new(
                Kind::Duplicate,
                format!("there is a store in {} already", backend.describe()),
            )),
        }
    }

    /// Reads the settings of a store; `None` where there is no store.
    pub(crate) fn read(backend: &dyn Backend) -> Result<Option<Settings>> {
        let Some(bytes) = backend.read(KEY, LONGEST)? else { return Ok(None) };
        let wrong = |what: &str| Error::malformed(format!("store.json of {}: {what}", backend.describe()));
        let json: Json =
            serde_json::from_slice(&bytes).map_err(|cause| wrong(&format!("it is no JSON: {cause}")))?;
        if json["format"].as_str() != Some(FORMAT) {
            return Err(wrong("it does not describe a store"));
        }
        if json["version"].as_u64() != Some(VERSION) {
            return Err(
                Error::unsupported("the store was made by a later release").with_hint("Update ztensor.")
            );
        }
        let id = json["id"].as_str().and_then(Id::parse).ok_or_else(|| wrong("it has no id"))?;
        let grace = json["grace_seconds"].as_u64().ok_or_else(|| wrong("it has no grace period"))?;
        let single_writer = match json["mode"].as_str() {
            Some("shared") => false,
            Some("single-writer") => true,
            _ => {
                return Err(
                    Error::unsupported("the store is of an unknown mode").with_hint("Update ztensor.")
                );
            }
        };
        Ok(Some(Settings { id, grace: Duration::from_secs(grace), single_writer }))
    }
}
