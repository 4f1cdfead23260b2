//! Checkpoints as files by themselves.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use ztensor::archive::ArchiveOptions;
use ztensor_store::AddOptions;

use super::Where;
use crate::commands::force::Force;
use crate::display::{say, say_json, size};
use crate::effort::EffortOption;
use crate::progress::Progress;
use crate::{Outcome, Result};

#[derive(Args)]
pub(super) struct Export {
    /// The checkpoint
    name: String,
    /// The archive, such as step-1000.zstn
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    effort: EffortOption,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    place: Where,
}

impl Export {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        self.force.allow(&self.output)?;
        let progress = Progress::new("exporting", store.checkpoint(&self.name)?.manifest().logical());
        let options = ArchiveOptions { effort: self.effort.effort()?, ..ArchiveOptions::default() };
        let stats = store.export(&self.name, &self.output, &options, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        let output = self.output.display().to_string();
        if self.place.json {
            return say_json(&json!({
                "name": self.name, "output": output, "original_bytes": stats.original, "stored_bytes": stats.stored,
                "tensors": stats.tensors, "seconds": stats.seconds,
            }));
        }
        say(&format!("{} ({}) -> {output} ({})", self.name, size(stats.original), size(stats.stored)))?;
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
pub(super) struct Import {
    /// The archive or delta
    archive: PathBuf,
    /// The checkpoint's name
    #[arg(short, long, value_name = "NAME")]
    name: String,
    /// Store nothing, and say what would be stored
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Where,
}

impl Import {
    pub(super) fn run(self) -> Result {
        let store = self.place.open()?;
        let options = AddOptions { dry_run: self.dry_run, ..AddOptions::default() };
        let stats = store.import(&self.archive, &self.name, &options, &mut |_| Ok(()))?;
        if self.place.json {
            return say_json(&super::write::document(&self.archive, &self.name, &stats));
        }
        say(&super::write::summary(&self.archive, &self.name, &stats, self.dry_run))?;
        Ok(Outcome::Done)
    }
}
