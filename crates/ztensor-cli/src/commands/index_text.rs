//! Shard indexes under other names: the text stays as it is but for the names of the shards, so that renaming them back gives the same bytes.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;
use ztensor::{Io, Output, Source};

use super::force::Force;
use crate::{Failure, Result};

/// The indexes of the largest models have a hundredth of it.
const LONGEST: u64 = 256 << 20;

/// Writes an index in which shards have other names; those for which `name` has none keep theirs. Says whether anything had to be written.
pub(crate) fn rename_shards(
    index: &Path,
    target: &Path,
    name: fn(&str) -> Option<String>,
    force: &Force,
) -> Result<bool> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("\"{}\": {error}", index.display()));
    let source = Source::open_regular(index, Io::Read)?;
    if source.len() > LONGEST {
        return Err(failed(&"this is too long for an index of shards"));
    }
    let mut text =
        String::from_utf8(source.bytes(0, source.len())?.into_owned()).map_err(|error| failed(&error))?;
    let document: Json = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let shards =
        document.get("weight_map").and_then(Json::as_object).into_iter().flat_map(|map| map.values());
    let shards: BTreeSet<&str> = shards.filter_map(Json::as_str).collect();
    for shard in shards {
        if let Some(renamed) = name(shard) {
            text = text.replace(&format!("\"{shard}\""), &format!("\"{renamed}\""));
        }
    }
    if target.is_file() && holds(target, &text)? {
        return Ok(false);
    }
    let mut file = Output::create(&force.allow_chosen(target)?)?;
    file.write(text.as_bytes())?;
    file.publish(false)?;
    Ok(true)
}

/// Whether a file has exactly this content.
fn holds(file: &Path, text: &str) -> Result<bool> {
    let source = Source::open_regular(file, Io::Read)?;
    Ok(source.len() == text.len() as u64 && *source.bytes(0, source.len())? == *text.as_bytes())
}
