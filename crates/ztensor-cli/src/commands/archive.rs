//! `ztensor archive` and `ztensor restore`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use ztensor::Effort;
use ztensor::archive::{ArchiveOptions, archive, restore};

use crate::display::{say, say_json, size};
use crate::progress::Progress;
use crate::{Failure, Outcome, Result};

/// The extension of archives.
const EXTENSION: &str = "zstn";

#[derive(Args)]
pub(crate) struct Archive {
    /// The model file
    file: PathBuf,
    /// The archive [default: the file's name with .zstn added]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// fast, default or max
    #[arg(long, value_name = "EFFORT", default_value = "default", value_parser = ["fast", "default", "max"])]
    effort: String,
    /// Replace an archive that exists
    #[arg(short, long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// The archive
    file: PathBuf,
    /// The restored file [default: the archive's name without .zstn]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace a file that exists
    #[arg(short, long)]
    force: bool,
}

impl Archive {
    pub(crate) fn run(self) -> Result {
        let options = ArchiveOptions { effort: Effort::parse(&self.effort)? };
        let output = self.output.unwrap_or_else(|| {
            let mut name = self.file.clone().into_os_string();
            name.push(format!(".{EXTENSION}"));
            name.into()
        });
        refuse_existing(&output, self.force)?;
        let length = std::fs::metadata(&self.file).map(|metadata| metadata.len()).unwrap_or_default();
        let progress = Progress::new("archiving", length);
        let stats = archive(&self.file, &output, &options, &mut |bytes| progress.advance(bytes))?;
        drop(progress);
        let ratio = stats.original as f64 / stats.stored.max(1) as f64;
        if self.json {
            return say_json(&json!({
                "original_bytes": stats.original, "stored_bytes": stats.stored, "ratio": ratio,
                "tensors": stats.tensors, "seconds": stats.seconds,
            }));
        }
        let saved = 100.0 * (1.0 - stats.stored as f64 / stats.original.max(1) as f64);
        say(&format!(
            "{} ({}) -> {} ({}), {saved:.1} % smaller, {ratio:.2}x, {} tensors",
            self.file.display(),
            size(stats.original),
            output.display(),
            size(stats.stored),
            stats.tensors
        ))?;
        Ok(Outcome::Done)
    }
}

impl Restore {
    pub(crate) fn run(self) -> Result {
        let output = match self.output {
            Some(output) => output,
            None if self.file.extension().is_some_and(|extension| extension == EXTENSION) => {
                self.file.with_extension("")
            }
            None => {
                return Err(Failure::new(format!(
                    "\"{}\" does not end in .{EXTENSION}; name an --output",
                    self.file.display()
                )));
            }
        };
        refuse_existing(&output, self.force)?;
        let progress = Progress::new("restoring", 0);
        let length = restore(&self.file, &output, &mut |bytes| progress.advance(bytes))?;
        drop(progress);
        say(&format!("{} -> {} ({}), digest verified", self.file.display(), output.display(), size(length)))?;
        Ok(Outcome::Done)
    }
}

fn refuse_existing(output: &Path, force: bool) -> Result<()> {
    if output.exists() && !force {
        return Err(Failure::new(format!("\"{}\" exists; use --force to replace it", output.display())));
    }
    Ok(())
}
