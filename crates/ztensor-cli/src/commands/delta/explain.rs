//! `ztensor delta make --explain`: of each tensor how it is stored, and what that saves.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use ztensor::archive::ArchiveOptions;
use ztensor::delta::Candidate;
use ztensor::{OpenOptions, Reader, codec_options};

use crate::Result;
use crate::display::size;

/// How a tensor is stored.
pub(super) struct Found {
    name: String,
    encoding: &'static str,
    recipe: Option<String>,
    bytes: u64,
    stored: u64,
    /// About what it would take by itself.
    alone: u64,
}

/// Looks at a delta that was just made of an opened model.
pub(super) fn found(
    reader: &Reader,
    bases: &[Arc<Reader>],
    delta: &Path,
    options: &ArchiveOptions,
) -> Result<Vec<Found>> {
    let bases = bases.iter().map(|base| Candidate::from(Arc::clone(base))).collect();
    let made = OpenOptions { bases, ..OpenOptions::default() }.open(delta)?;
    let mut found = Vec::new();
    for (name, object) in made.objects() {
        let mut alone = 0;
        for (role, component) in &object.components {
            let bytes = reader.component_bytes(name, role)?;
            let shape = object.component_shape(role).unwrap_or_default();
            let codec = codec_options(&bytes, &component.element, &shape, options.effort);
            let ratio = if bytes.is_empty() { 1.0 } else { z4ai::estimate(&bytes, &codec)? };
            alone += (bytes.len() as f64 / ratio) as u64;
        }
        found.push(Found {
            name: name.to_owned(),
            encoding: made.stored_encoding(name)?,
            recipe: made.stored_recipe(name)?,
            bytes: object.decoded_length(),
            stored: made.stored_length(name)?,
            alone,
        });
    }
    Ok(found)
}

impl Found {
    pub(super) fn to_json(&self) -> Json {
        json!({
            "name": self.name, "encoding": self.encoding, "recipe": self.recipe,
            "bytes": self.bytes, "stored_bytes": self.stored, "alone_bytes": self.alone,
        })
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = self.recipe.as_deref().unwrap_or(self.encoding);
        let (stored, bytes, alone) = (size(self.stored), size(self.bytes), size(self.alone));
        write!(f, "  {}: {how}, {stored} of {bytes}, about {alone} alone", ztensor::printable(&self.name))
    }
}
