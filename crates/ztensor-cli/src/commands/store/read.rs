//! Commands that read a store.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor_store::record::FileKind;
use ztensor_store::{Listing, Store};

use super::lineage::Lineage;
use super::{Where, get_as};
use crate::commands::diff::{describe, describe_json};
use crate::display::{json_map, say, say_json, say_table, size, table, tensors};
use crate::progress::Progress;
use crate::{Outcome, Result};

#[derive(Args)]
pub(super) struct Get {
    /// The checkpoint
    name: String,
    /// A folder that is new or empty; for a checkpoint of one file, the file
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Write the tensors as one model file, and the files without tensors beside it; a folder unless the output is named .safetensors
    #[arg(long = "as", value_name = "FORMAT", value_parser = ["safetensors"])]
    format: Option<String>,
    /// With --as: only tensors whose names begin so, without it, such as model.
    #[arg(long, value_name = "TEXT", requires = "format", default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    place: Where,
}

impl Get {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        if self.format.is_some() {
            let written = get_as::safetensors(&store, &self.name, &self.output, &self.prefix)?;
            return match self.place.json {
                true => say_json(&written.document(&self.name)),
                false => say(&written.sentence(&self.name)).map(|()| Outcome::Done),
            };
        }
        let progress = Progress::new("restoring", store.checkpoint(&self.name)?.manifest().logical());
        let stats = store.get(&self.name, &self.output, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        let path = stats.path.display().to_string();
        if self.place.json {
            return say_json(
                &json!({ "name": self.name, "path": path, "files": stats.files, "bytes": stats.bytes }),
            );
        }
        say(&format!(
            "{} -> {path} ({} files, {}), digests verified",
            self.name,
            stats.files,
            size(stats.bytes)
        ))?;
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct List {
    /// Checkpoints of this name and below it [default: all]
    #[arg(default_value = "", hide_default_value = true)]
    run: String,
    #[command(flatten)]
    place: Where,
}

impl List {
    pub(super) fn run(self) -> Result {
        let inside = |listing: &Listing| {
            let rest = listing.name.as_str().strip_prefix(self.run.as_str());
            self.run.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let listed: Vec<Listing> = self.place.open()?.list()?.into_iter().filter(inside).collect();
        if self.place.json {
            return say_json(&listed.iter().map(document).collect::<Vec<_>>().into());
        }
        let mut rows = table(&["name", "size", "added", "tensors", "files", "stored against"], &[1, 2, 3, 4]);
        for listing in &listed {
            rows.add_row([
                listing.name.to_string(),
                size(listing.logical),
                size(listing.added),
                listing.tensors.to_string(),
                listing.files.to_string(),
                listing.parent.as_ref().map_or(String::new(), ToString::to_string),
            ]);
        }
        say_table(&rows)?;
        Ok(Outcome::Done)
    }
}

fn document(listing: &Listing) -> Json {
    json!({
        "name": listing.name.as_str(), "generation": listing.generation, "time": listing.time,
        "parent": listing.parent.as_ref().map(|parent| parent.as_str()), "metadata": json_map(&listing.metadata),
        "files": listing.files, "tensors": listing.tensors, "logical_bytes": listing.logical,
        "referred_bytes": listing.referred, "exclusive_bytes": listing.exclusive,
        "added_bytes": listing.added, "depth": listing.deepest,
    })
}

#[derive(Args)]
pub(super) struct Log {
    #[command(flatten)]
    place: Where,
}

impl Log {
    pub(super) fn run(self) -> Result {
        let mut listed = self.place.open()?.list()?;
        listed.sort_by_key(|listing| (listing.time, listing.deepest));
        if self.place.json {
            return say_json(&listed.iter().map(document).collect::<Vec<_>>().into());
        }
        for line in Lineage::of(&listed).draw() {
            say(&line)?;
        }
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Info {
    /// The checkpoint [default: the store itself]
    name: Option<String>,
    #[command(flatten)]
    place: Where,
}

impl Info {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        match &self.name {
            Some(name) => self.checkpoint(&store, name),
            None => self.store(&store),
        }
    }

    fn store(&self, store: &Store) -> Result {
        let settings = store.settings();
        let mode = if settings.single_writer { "single-writer" } else { "shared" };
        if self.place.json {
            let grace = settings.grace.as_secs();
            return say_json(&json!({ "id": settings.id.to_string(), "grace_seconds": grace, "mode": mode }));
        }
        say(&format!("store {}, {mode}, grace period {} seconds", settings.id, settings.grace.as_secs()))?;
        if settings.single_writer {
            say("only one process may change it at a time, and none while gc runs")?;
        }
        Ok(Outcome::Done)
    }

    fn checkpoint(&self, store: &Store, name: &str) -> Result {
        let checkpoint = store.checkpoint(name)?;
        let manifest = checkpoint.manifest();
        let parent = manifest.parent.as_ref().map(|(name, _)| name.as_str());
        let mut files = Vec::new();
        let mut rows = table(&["file", "size", "tensors"], &[1, 2]);
        for file in &manifest.files {
            match &file.kind {
                FileKind::Regular { length, mode, sha256, .. } => {
                    let count = file.tensors();
                    let digest = sha256
                        .map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
                    files.push(json!({ "path": file.path, "bytes": length, "mode": mode, "sha256": digest, "tensors": count }));
                    rows.add_row([file.path.clone(), size(*length), count.to_string()]);
                }
                FileKind::Folder { mode } => {
                    files.push(json!({ "path": file.path, "folder": true, "mode": mode }))
                }
                FileKind::Link { target } => {
                    files.push(json!({ "path": file.path, "target": target }));
                    rows.add_row([format!("{} -> {target}", file.path), String::new(), String::new()]);
                }
            }
        }
        let deepest = manifest.deepest();
        if self.place.json {
            return say_json(&json!({
                "name": name, "generation": manifest.stamp.generation, "time": manifest.stamp.time, "parent": parent,
                "metadata": json_map(&manifest.metadata), "files": files, "packs": manifest.packs.len(), "depth": deepest,
            }));
        }
        let against = parent.map_or(String::new(), |parent| format!(", stored against {parent}"));
        let count: usize = checkpoint.weights().count();
        say(&format!(
            "{name}: {}, {count} weight files, depth {deepest}{against}",
            size(manifest.logical())
        ))?;
        for (key, value) in &manifest.metadata {
            say(&format!("  {key}: {}", crate::display::json(value)))?;
        }
        say_table(&rows)?;
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Diff {
    /// The first checkpoint
    first: String,
    /// The second checkpoint
    second: String,
    #[command(flatten)]
    place: Where,
}

impl Diff {
    pub(super) fn run(self) -> Result {
        let difference = self.place.open()?.diff(&self.first, &self.second)?;
        let outcome = if difference.is_empty() { Outcome::Done } else { Outcome::Different };
        if self.place.json {
            let retyped =
                |(name, from, to): &(String, String, String)| json!({ "name": name, "from": from, "to": to });
            say_json(&json!({
                "added": difference.added, "removed": difference.removed,
                "changed": difference.changed.iter().map(|(name, values)| describe_json(name, values)).collect::<Vec<_>>(),
                "retyped": difference.retyped.iter().map(retyped).collect::<Vec<_>>(),
                "identical": difference.identical, "files": difference.files,
            }))?;
            return Ok(outcome);
        }
        for (mark, names) in [("-", &difference.removed), ("+", &difference.added)] {
            for name in names {
                say(&format!("{mark} {name}"))?;
            }
        }
        for (name, values) in &difference.changed {
            say(&format!("~ {name}: {}", describe(values)))?;
        }
        for (name, from, to) in &difference.retyped {
            say(&format!("! {name}: {from} -> {to}"))?;
        }
        for path in &difference.files {
            say(&format!("~ file {path}"))?;
        }
        say(&format!("{} identical", tensors(difference.identical as usize)))?;
        Ok(outcome)
    }
}

#[derive(Args)]
pub(super) struct Stats {
    #[command(flatten)]
    place: Where,
}

impl Stats {
    pub(super) fn run(self) -> Result {
        let stats = self.place.open()?.stats()?;
        if self.place.json {
            return say_json(&json!({
                "checkpoints": stats.checkpoints, "logical_bytes": stats.logical, "unique_bytes": stats.unique,
                "stored_bytes": stats.stored, "packs": stats.packs, "pack_bytes": stats.pack_bytes,
                "manifest_bytes": stats.manifest_bytes,
            }));
        }
        let taken = (stats.pack_bytes + stats.manifest_bytes).max(1);
        say(&format!("{} checkpoints", stats.checkpoints))?;
        say(&format!("{} in their files, {} of distinct contents", size(stats.logical), size(stats.unique)))?;
        say(&format!(
            "{} stored for them; {} in {} packs, {} in manifests: {:.2}x",
            size(stats.stored),
            size(stats.pack_bytes),
            stats.packs,
            size(stats.manifest_bytes),
            stats.logical as f64 / taken as f64
        ))?;
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Verify {
    /// Decode every file as well, and compare it with its digest
    #[arg(long)]
    decode: bool,
    #[command(flatten)]
    place: Where,
}

impl Verify {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        let stats = store.stats()?;
        let total = stats.pack_bytes + if self.decode { stats.logical } else { 0 };
        let progress = Progress::new("verifying", total);
        let problems = store.verify(self.decode, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        let outcome = if problems.is_empty() { Outcome::Done } else { Outcome::Different };
        if self.place.json {
            let document = |problem: &ztensor_store::Problem| json!({ "name": problem.name.as_str(), "error": crate::envelope::describe(&problem.error) });
            say_json(&json!({
                "checkpoints": stats.checkpoints, "problems": problems.iter().map(document).collect::<Vec<_>>(),
            }))?;
            return Ok(outcome);
        }
        for problem in &problems {
            say(&format!("{}: {}", problem.name, problem.error))?;
        }
        say(&format!("{} checkpoints, {} problems", stats.checkpoints, problems.len()))?;
        Ok(outcome)
    }
}
