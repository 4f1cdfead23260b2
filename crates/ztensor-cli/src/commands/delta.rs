//! `ztensor delta make`, `ztensor delta apply` and `ztensor delta info`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use ztensor::delta::make;
use ztensor::{OpenOptions, Reader};

use super::archive::{PackOptions, document, length_of, summary};
use super::force::Force;
use crate::display::{say, say_json, size};
use crate::progress::Progress;
use crate::{Failure, Outcome, Result, limits};

#[derive(Args)]
pub(crate) struct Delta {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Store a model file as differences to another one
    Make(Make),
    /// Restore the model file of a delta, byte for byte
    Apply(Apply),
    /// Show what a delta holds and which base it needs
    Info(Info),
}

#[derive(Args)]
struct Make {
    /// The model file to store
    file: PathBuf,
    #[command(flatten)]
    bases: Bases,
    /// The delta [default: the file's name with .z4dm instead of its extension]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    options: PackOptions,
}

#[derive(Args)]
struct Apply {
    /// The delta
    file: PathBuf,
    #[command(flatten)]
    bases: Bases,
    /// The restored file
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    force: Force,
}

#[derive(Args)]
struct Info {
    /// The delta
    file: PathBuf,
    #[command(flatten)]
    bases: Bases,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Bases {
    /// The base, of any format. Where it is a delta itself, name its own base by another --base, and so on
    #[arg(short, long = "base", value_name = "PATH")]
    bases: Vec<PathBuf>,
}

impl Bases {
    /// Opens the bases from the last on, each with the help of the one before.
    fn open(&self) -> Result<Option<Arc<Reader>>> {
        let mut base = None;
        for path in self.bases.iter().rev() {
            base = Some(Arc::new(OpenOptions { base, ..limits::options() }.open(path)?));
        }
        Ok(base)
    }
}

impl Delta {
    pub(crate) fn run(self) -> Result {
        match self.action {
            Action::Make(command) => command.run(),
            Action::Apply(command) => command.run(),
            Action::Info(command) => command.run(),
        }
    }
}

impl Make {
    fn run(self) -> Result {
        let base =
            self.bases.open()?.ok_or_else(|| Failure::new("name the file to compare with: --base PATH"))?;
        let output = match self.output {
            Some(output) => self.options.force.allow(&output).map(|()| output)?,
            None => self.options.force.allow_chosen(&self.file.with_extension("z4dm"))?,
        };
        let progress = Progress::new("comparing", length_of(&self.file));
        let options = self.options.archive_options()?;
        let stats = make(&self.file, &base, &output, &options, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        match self.options.json {
            true => say_json(&document(&self.file, &output, &stats))?,
            false => say(&summary(&self.file, &output, &stats)).map(|()| Outcome::Done)?,
        };
        Ok(Outcome::Done)
    }
}

impl Apply {
    fn run(self) -> Result {
        self.force.allow(&self.output)?;
        let progress = Progress::new("restoring", limits::options().describe_archive(&self.file)?.length);
        let base = self.bases.open()?;
        let options = OpenOptions { base, ..self.force.open_options() };
        let length = options.restore(&self.file, &self.output, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        say(&format!(
            "{} -> {} ({}), digest verified",
            self.file.display(),
            self.output.display(),
            size(length)
        ))?;
        Ok(Outcome::Done)
    }
}

impl Info {
    fn run(self) -> Result {
        let base = self.bases.open()?;
        let info = limits::options().describe_archive(&self.file)?;
        // What the tensors take is known only together with the base.
        let reader = OpenOptions { base, ..limits::options() }.open(&self.file);
        let tensors = reader.as_ref().map(stored).unwrap_or_default();
        let needs = info.base.as_ref();
        if self.json {
            return say_json(&json!({
                "format": info.format, "original_bytes": info.length, "sha256": info.sha256,
                "stored_bytes": info.stored,
                "base": needs.map(|base| json!({
                    "name": base.name, "bytes": base.length, "sha256": base.sha256,
                })),
                "tensors": tensors.iter().map(|(name, stored, bytes)| json!({
                    "name": name, "stored_bytes": stored, "bytes": bytes,
                })).collect::<Vec<_>>(),
                "error": reader.as_ref().err().map(ToString::to_string),
            }));
        }
        say(&format!(
            "{}: a {} file of {} in {}, sha256 {}",
            file_name(&self.file),
            info.format,
            size(info.length),
            size(info.stored),
            info.sha256
        ))?;
        match needs {
            Some(base) => say(&format!(
                "base: {} ({}), sha256 {}",
                if base.name.is_empty() { "unnamed" } else { &base.name },
                size(base.length),
                base.sha256
            ))?,
            None => say("base: none needed")?,
        }
        for (name, stored, bytes) in &tensors {
            say(&format!("  {name}: {} of {}", size(*stored), size(*bytes)))?;
        }
        if let Err(error) = &reader {
            say(&format!("not opened: {error}"))?;
        }
        Ok(Outcome::Done)
    }
}

/// Name, stored bytes and bytes of every tensor.
fn stored(reader: &Reader) -> Vec<(String, u64, u64)> {
    reader
        .objects()
        .map(|(name, object)| {
            (name.to_owned(), reader.stored_length(name).unwrap_or_default(), object.decoded_length())
        })
        .collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
