//! Commands that change a store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use ztensor::{Attributes, Value};
use ztensor_store::protocol::GcOptions;
use ztensor_store::{AddOptions, AddStats, Base, CreateOptions, Keep, Name, Store};

use super::Where;
use crate::display::{say, say_json, size, tensors};
use crate::effort::EffortOption;
use crate::progress::Progress;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(super) struct Init {
    /// The directory, or the URL of a bucket or of a folder in one
    path: PathBuf,
    /// Seconds that what was removed stays readable
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    grace: u64,
    /// Accept storage that cannot create a file only if it is absent; one process at a time may change the store then
    #[arg(long)]
    single_writer: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Init {
    pub(super) fn run(self) -> Result {
        let options =
            CreateOptions { grace: Duration::from_secs(self.grace), single_writer: self.single_writer };
        let store = Store::create(&self.path, &options)?;
        let path = self.path.display().to_string();
        if self.json {
            return say_json(
                &json!({ "path": path, "id": store.settings().id.to_string(), "grace_seconds": self.grace }),
            );
        }
        say(&format!("made a store in {path}"))?;
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Add {
    /// The file, by path or URL, or the folder
    path: PathBuf,
    /// The checkpoint's name, such as run-7/step-1000; with --each, what stands before each
    #[arg(short, long, value_name = "NAME")]
    name: String,
    /// Add each folder or file in PATH whose name matches, in the order of their numbers
    #[arg(long, value_name = "GLOB")]
    each: Option<String>,
    /// Look for similar tensors in this checkpoint only, in all of them (auto), or nowhere (none)
    #[arg(long, value_name = "NAME", default_value = "auto")]
    base: String,
    /// Metadata for the checkpoint
    #[arg(long, value_name = "KEY=VALUE")]
    metadata: Vec<String>,
    /// Deltas that reading a tensor may take
    #[arg(long, value_name = "COUNT", default_value_t = AddOptions::default().deepest)]
    depth: u32,
    #[command(flatten)]
    effort: EffortOption,
    /// Store nothing, and say what would be stored
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Where,
}

impl Add {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        let options = AddOptions {
            base: match self.base.as_str() {
                "auto" => Base::Auto,
                "none" => Base::None,
                name => Base::Checkpoint(Name::new(name)?),
            },
            metadata: metadata(&self.metadata)?,
            effort: self.effort.effort()?,
            deepest: self.depth,
            dry_run: self.dry_run,
        };
        let wanted = match &self.each {
            None => vec![(self.path.clone(), self.name.clone())],
            Some(pattern) => each(&self.path, pattern, &self.name)?,
        };
        let length = wanted.iter().map(|(path, _)| Store::measure(path)).sum::<ztensor::Result<u64>>()?;
        let progress = Progress::new("adding", length);
        let mut documents = Vec::new();
        for (path, name) in &wanted {
            let stats = store.add(path, name, &options, &mut |bytes| {
                progress.advance(bytes);
                Ok(())
            })?;
            match self.place.json {
                true => documents.push(document(path, name, &stats)),
                false => say(&summary(path, name, &stats, self.dry_run))?,
            }
        }
        drop(progress);
        if self.place.json {
            say_json(&documents.into())?;
        }
        Ok(Outcome::Done)
    }
}

fn metadata(pairs: &[String]) -> Result<Attributes> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), Value::from(value))),
        None => Err(Failure::new(format!("metadata is KEY=VALUE, not \"{text}\""))),
    };
    pairs.iter().map(pair).collect()
}

/// What is to be added of a run, in the order of the numbers at the end of the names.
fn each(folder: &Path, pattern: &str, name: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in
        std::fs::read_dir(folder).map_err(|cause| ztensor::Error::io("cannot list", folder, cause))?
    {
        let entry = entry?;
        if let Ok(file) = entry.file_name().into_string()
            && ztensor_store::matches(pattern, &file)
        {
            found.push((entry.path(), file));
        }
    }
    if found.is_empty() {
        return Err(Failure::new(format!("nothing in \"{}\" is named like {pattern}", folder.display())));
    }
    let number = |file: &str| {
        let start = file.len() - file.bytes().rev().take_while(u8::is_ascii_digit).count();
        file[start..].parse::<u64>().ok()
    };
    found.sort_by_cached_key(|(_, file)| (number(file), file.clone()));
    Ok(found.into_iter().map(|(path, file)| (path, format!("{name}/{file}"))).collect())
}

pub(super) fn document(path: &Path, name: &str, stats: &AddStats) -> serde_json::Value {
    json!({
        "path": path.display().to_string(), "name": name, "parent": stats.parent, "original_bytes": stats.original,
        "stored_bytes": stats.stored, "files": stats.files, "tensors": stats.tensors, "duplicates": stats.duplicates,
        "deltas": stats.deltas, "computed": stats.computed, "seconds": stats.seconds,
    })
}

pub(super) fn summary(path: &Path, name: &str, stats: &AddStats, dry_run: bool) -> String {
    let parent = stats.parent.as_ref().map_or(String::new(), |parent| format!(" against {parent}"));
    let computed = match stats.computed {
        0 => String::new(),
        computed => format!(" ({computed} of them computed)"),
    };
    format!(
        "{} ({}) -> {name}{parent}: {}{}, {}, {} known, {} as deltas{computed}",
        path.display(),
        size(stats.original),
        size(stats.stored),
        if dry_run { " would be stored" } else { " stored" },
        tensors(stats.tensors as usize),
        stats.duplicates,
        stats.deltas
    )
}

#[derive(Args)]
pub(super) struct Remove {
    /// The checkpoints
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    place: Where,
}

impl Remove {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        for name in &self.names {
            store.remove(name)?;
            if !self.place.json {
                say(&format!("removed {name}"))?;
            }
        }
        if self.place.json {
            return say_json(&json!({ "removed": self.names }));
        }
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Prune {
    /// The run: checkpoints of this name and below it [default: all]
    #[arg(default_value = "", hide_default_value = true)]
    run: String,
    /// Keep the last so many
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    keep_last: usize,
    /// Keep those whose step is a multiple
    #[arg(long, value_name = "STEPS")]
    keep_every: Option<u64>,
    /// Keep those of such names
    #[arg(long, value_name = "GLOB")]
    keep_name: Vec<String>,
    /// Remove nothing, and say what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Where,
}

impl Prune {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        let before = store.stats()?;
        let keep = Keep { last: self.keep_last, every: self.keep_every, names: self.keep_name };
        let pruned = store.prune(&self.run, &keep, self.dry_run)?;
        let after = store.stats()?;
        let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
        if self.place.json {
            return say_json(&json!({
                "removed": names(&pruned.removed), "kept": names(&pruned.kept),
                "reanchored": names(&pruned.reanchored), "dry_run": self.dry_run,
                "stored_before": before.stored, "stored_after": after.stored,
            }));
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        for name in &pruned.removed {
            say(&format!("{verb} {name}"))?;
        }
        say(&format!("{verb} {}, kept {}", pruned.removed.len(), pruned.kept.len()))?;
        if !pruned.reanchored.is_empty() {
            let verb = if self.dry_run { "would store" } else { "stored" };
            say(&format!(
                "{verb} {} of them without what they needed of removed ones",
                pruned.reanchored.len()
            ))?;
        }
        if !self.dry_run {
            say(&format!(
                "needed in packs: {} before, {} now; `ztensor store gc` frees the difference",
                size(before.stored),
                size(after.stored)
            ))?;
        }
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Gc {
    /// Propose and delete in one run, without a grace period between them
    #[arg(long)]
    now: bool,
    /// Go on although more than half of all bytes would go
    #[arg(long)]
    force: bool,
    /// Delete nothing, and say what would be deleted
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Where,
}

impl Gc {
    pub(super) fn run(self) -> Result {
        let options = GcOptions { now: self.now, force: self.force, dry_run: self.dry_run };
        let report = self.place.open()?.gc(options)?;
        let damaged = |damage: &ztensor_store::protocol::Damage| json!({ "name": damage.name.as_str(), "pack": damage.pack.to_string() });
        let outcome = if report.damaged.is_empty() { Outcome::Done } else { Outcome::Different };
        if self.place.json {
            say_json(&json!({
                "dry_run": self.dry_run, "packs": report.packs, "bytes": report.bytes,
                "proposed": report.proposed.len(), "proposed_bytes": report.proposed_bytes, "waiting": report.waiting.len(),
                "deleted": report.deleted.len(), "deleted_bytes": report.deleted_bytes, "records_deleted": report.records_deleted,
                "pins_ended": report.pins_ended, "damaged": report.damaged.iter().map(damaged).collect::<Vec<_>>(),
                "unknown": report.unknown,
            }))?;
            return Ok(outcome);
        }
        let would = if self.dry_run { "would be " } else { "" };
        say(&format!("{} packs, {}", report.packs, size(report.bytes)))?;
        say(&format!("{} packs {would}deleted, {}", report.deleted.len(), size(report.deleted_bytes)))?;
        if !report.proposed.is_empty() {
            let text =
                format!("{} packs {would}proposed, {}", report.proposed.len(), size(report.proposed_bytes));
            say(&format!("{text}; a run after the grace period deletes them"))?;
        }
        if !report.waiting.is_empty() {
            say(&format!("{} packs are proposed and wait for the grace period", report.waiting.len()))?;
        }
        for damage in &report.damaged {
            say(&format!(
                "{} is damaged: pack {} is missing; nothing of it is deleted",
                damage.name, damage.pack
            ))?;
        }
        for key in &report.unknown {
            say(&format!("not of the store, left alone: {key}"))?;
        }
        Ok(outcome)
    }
}
