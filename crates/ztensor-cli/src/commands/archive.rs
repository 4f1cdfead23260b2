//! `ztensor archive` and `ztensor restore`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::archive::{ArchiveOptions, Stats, archive};

use super::force::Force;
use crate::display::{say, say_json, size, tensors};
use crate::effort::EffortOption;
use crate::progress::Progress;
use crate::{Failure, Outcome, Result, limits};

/// The extension of archives.
const EXTENSION: &str = "zstn";

#[derive(Args)]
pub(crate) struct Archive {
    /// The model files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The archive of a single file [default: the file's name with .zstn added]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    options: PackOptions,
}

/// How archives and deltas are made and reported.
#[derive(Args)]
pub(crate) struct PackOptions {
    #[command(flatten)]
    effort: EffortOption,
    /// Worker threads; 0 uses all cores
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    pub(crate) force: Force,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// The archive
    file: PathBuf,
    /// The restored file [default: the archive's name without .zstn]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

impl Archive {
    pub(crate) fn run(self) -> Result {
        if self.output.is_some() && self.files.len() > 1 {
            return Err(Failure::new("--output names one archive, but there are several files"));
        }
        let options = self.options.archive_options()?;
        let mut documents = Vec::new();
        for file in &self.files {
            let output = match &self.output {
                Some(output) => self.options.force.allow(output).map(|()| output.clone())?,
                None => self.options.force.allow_chosen(&with_extension_added(file, EXTENSION))?,
            };
            let progress = Progress::new("archiving", length_of(file));
            let stats = archive(file, &output, &options, &mut |bytes| {
                progress.advance(bytes);
                Ok(())
            })?;
            drop(progress);
            match self.options.json {
                true => documents.push(document(file, &output, &stats)),
                false => say(&summary(file, &output, &stats))?,
            }
        }
        if self.options.json {
            say_json(&documents.into())?;
        }
        Ok(Outcome::Done)
    }
}

impl PackOptions {
    pub(crate) fn archive_options(&self) -> Result<ArchiveOptions> {
        Ok(ArchiveOptions {
            effort: self.effort.effort()?,
            threads: self.threads,
            limits: limits::current(),
            ..ArchiveOptions::default()
        })
    }
}

fn ratio(stats: &Stats) -> f64 {
    stats.original as f64 / stats.stored.max(1) as f64
}

/// What came of one file, for programs.
pub(crate) fn document(file: &Path, output: &Path, stats: &Stats) -> Json {
    json!({
        "path": file.display().to_string(), "output": output.display().to_string(),
        "original_bytes": stats.original, "stored_bytes": stats.stored, "ratio": ratio(stats),
        "tensors": stats.tensors, "copied": stats.copied, "deltas": stats.deltas, "seconds": stats.seconds,
    })
}

/// The same, for people.
pub(crate) fn summary(file: &Path, output: &Path, stats: &Stats) -> String {
    let saved = 100.0 * (1.0 - stats.stored as f64 / stats.original.max(1) as f64);
    let than = if saved < 0.0 { "larger" } else { "smaller" };
    let against = match stats.copied + stats.deltas {
        0 => String::new(),
        _ => format!(", {} copied, {} as deltas", stats.copied, stats.deltas),
    };
    format!(
        "{} ({}) -> {} ({}), {:.1} % {than}, {:.2}x, {}{against}",
        file.display(),
        size(stats.original),
        output.display(),
        size(stats.stored),
        saved.abs(),
        ratio(stats),
        tensors(stats.tensors)
    )
}

impl Restore {
    pub(crate) fn run(self) -> Result {
        let output = match self.output {
            Some(output) => self.force.allow(&output).map(|()| output)?,
            None if self.file.extension().is_some_and(|extension| extension == EXTENSION) => {
                self.force.allow_chosen(&self.file.with_extension(""))?
            }
            None => {
                return Err(Failure::new(format!(
                    "\"{}\" does not end in .{EXTENSION}; name an --output",
                    self.file.display()
                )));
            }
        };
        let options = self.force.open_options();
        let progress = Progress::new("restoring", options.describe_archive(&self.file)?.length);
        let length = options.restore(&self.file, &output, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        say(&format!("{} -> {} ({}), digest verified", self.file.display(), output.display(), size(length)))?;
        Ok(Outcome::Done)
    }
}

pub(crate) fn with_extension_added(file: &Path, extension: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{extension}"));
    name.into()
}

/// For the progress bar only; opening the file says what is wrong with it.
pub(crate) fn length_of(file: &Path) -> u64 {
    std::fs::metadata(file).map(|metadata| metadata.len()).unwrap_or_default()
}
