//! `ztensor info`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::Reader;
use ztensor::index::Object;

use crate::display::{self, count, json_map, say, say_json, say_table, size, table};
use crate::{Outcome, Result, limits};

/// Longest metadata text shown in the listing; `--json` has all of it.
const LONGEST_VALUE: usize = 100;

#[derive(Args)]
pub(crate) struct Info {
    /// The file, of any format, or a shard index
    file: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Show only tensors whose name contains this text
    #[arg(short, long, value_name = "TEXT")]
    filter: Option<String>,
}

impl Info {
    pub(crate) fn run(self) -> Result {
        let reader = limits::open(&self.file)?;
        let wanted = |name: &str| self.filter.as_deref().is_none_or(|text| name.contains(text));
        let tensors: Vec<(&str, &Object)> = reader.objects().filter(|(name, _)| wanted(name)).collect();
        if self.json {
            return say_json(&document(&reader, &tensors));
        }
        let mut rows = table(&["name", "dtype", "shape", "layout", "encoding", "size"], &[5]);
        for (name, object) in &tensors {
            let layout = object.layout.to_string();
            rows.add_row([
                *name,
                &dtype(object),
                &object.shape.to_string(),
                &layout,
                &encoding(object),
                &size(reader.stored_length(name)?),
            ]);
        }
        if !tensors.is_empty() {
            say_table(&rows)?;
        }
        if !reader.skipped().is_empty() {
            say("")?;
            say("Not read:")?;
            reader
                .skipped()
                .iter()
                .try_for_each(|skipped| say(&format!("  {}: {}", skipped.name, skipped.reason)))?;
            if reader.skipped().iter().any(|skipped| skipped.is_code) {
                say(&format!("  `ztensor scan {}` tells all that would be run.", self.file.display()))?;
            }
        }
        if !reader.attributes().is_empty() {
            say("")?;
            say("Metadata:")?;
            for (key, value) in reader.attributes() {
                say(&format!("  {key}: {}", shortened(&ztensor::convert::text_of(value))))?;
            }
        }
        say("")?;
        say(&summary(&reader, &tensors))?;
        Ok(Outcome::Done)
    }
}

fn summary(reader: &Reader, tensors: &[(&str, &Object)]) -> String {
    let elements =
        tensors.iter().filter_map(|(_, object)| object.shape.elements()).fold(0, u64::saturating_add);
    let decoded = tensors.iter().map(|(_, object)| object.decoded_length()).fold(0, u64::saturating_add);
    let stored = reader.archived().map_or_else(
        || reader.sources().iter().map(|source| source.stored_length(0, source.len())).sum(),
        |archive| archive.stored,
    );
    let version = match &*reader.index().version {
        "" => String::new(),
        version => format!(" {version}"),
    };
    let files = match reader.sources().len() {
        1 => String::new(),
        files => format!(" in {files} files"),
    };
    let archived = if reader.archived().is_some() { "archive of " } else { "" };
    format!(
        "{archived}{}{version}{files}: {}, {} elements, {} of data, {} on disk",
        reader.format(),
        display::tensors(tensors.len()),
        count(elements),
        size(decoded),
        size(stored)
    )
}

fn document(reader: &Reader, tensors: &[(&str, &Object)]) -> Json {
    let component = |component: &ztensor::index::Component| {
        json!({
            "dtype": component.element.storage.long_name(),
            "type": component.element.logical.as_ref().map(|logical| logical.name()),
            "encoding": component.data.encoding_name(),
            "offset": component.data.first_span().map(|span| span.offset),
            "stored_bytes": component.data.stored_length(),
            "bytes": component.length,
            "digest": component.digest.as_ref().map(|digest| digest.value.to_string()),
        })
    };
    let tensor = |(name, object): &(&str, &Object)| {
        let components: serde_json::Map<String, Json> =
            object.components.iter().map(|(role, part)| (role.to_string(), component(part))).collect();
        json!({
            "name": name,
            "dtype": dtype(object),
            "shape": object.shape.to_vec(),
            "format": object.layout.name(),
            "attributes": json_map(&object.attributes),
            "components": components,
        })
    };
    let skipped = |skipped: &ztensor::Skipped| json!({ "name": skipped.name, "reason": skipped.reason, "is_code": skipped.is_code });
    json!({
        "format": reader.format().name(),
        "version": reader.index().version,
        "files": reader.sources().iter().map(|source| json!({
            "path": source.path().map(|path| path.display().to_string()),
            "bytes": source.len(),
        })).collect::<Vec<_>>(),
        "archive": reader.archived().map(|archive| json!({
            "format": archive.format, "length": archive.length, "sha256": archive.sha256, "stored_bytes": archive.stored,
            "base": archive.base.as_ref().map(|base| json!({
                "name": base.name, "length": base.length, "sha256": base.sha256,
            })),
        })),
        "metadata": json_map(reader.attributes()),
        "tensors": tensors.iter().map(tensor).collect::<Vec<_>>(),
        "skipped": reader.skipped().iter().map(skipped).collect::<Vec<_>>(),
    })
}

fn dtype(object: &Object) -> String {
    object.principal().map(|component| component.element.to_string()).unwrap_or_default()
}

fn encoding(object: &Object) -> String {
    object.principal().map(|component| component.data.encoding_name().to_owned()).unwrap_or_default()
}

fn shortened(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{} … ({} characters)", &line[..end], count(text.chars().count() as u64)),
        None => line,
    }
}
