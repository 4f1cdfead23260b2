//! `ztensor archive`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::Reader;
use ztensor::archive::{ArchiveOptions, Stats, archive_reader, digest, find};
use ztensor::folder::Model;
use ztensor::source::is_url;

use super::bases::{Bases, expand};
use super::force::Force;
use super::names::archive_name;
use super::originals::{DeleteOption, originals};
use crate::display::{size, tensors};
use crate::effort::EffortOption;
use crate::progress::Progress;
use crate::results::JsonOption;
use crate::{Failure, Outcome, Result, limits};

#[derive(Args)]
pub(crate) struct Archive {
    /// Model files, and folders whose models are archived one by one
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The archive, or a folder for several [default: the model's name with .zstn added]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    delete: DeleteOption,
    #[command(flatten)]
    options: PackOptions,
}

/// How archives and deltas are made and reported.
#[derive(Args)]
pub(crate) struct PackOptions {
    #[command(flatten)]
    effort: EffortOption,
    /// zstd level for what is not coded as floats, 1 to 22
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
    /// Worker threads; 0 uses all cores
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    pub(crate) force: Force,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

impl Archive {
    pub(crate) fn run(self) -> Result {
        let several = self.files.len() > 1 || self.files.iter().any(|file| file.is_dir());
        let mut work: Vec<(Model, PathBuf, bool)> = Vec::new();
        for path in &self.files {
            let mut models = expand(std::slice::from_ref(path))?;
            // What is an archive in a folder is left alone; named, it is refused.
            if path.is_dir() {
                let archived: Result<Vec<bool>> =
                    models.iter().map(|model| Ok(find(model.path())?.is_some())).collect();
                let mut archived = archived?.into_iter();
                models.retain(|_| !archived.next().unwrap_or_default());
            }
            let alone = self.files.len() == 1 && models.len() == 1;
            for model in models {
                let output = self.output_for(path, &model, several, alone)?;
                if work.iter().any(|(_, other, _)| *other == output) {
                    return Err(Failure::new(format!(
                        "two models would become \"{}\"; archive them one by one",
                        output.display()
                    )));
                }
                let unchanged = holds(&output, &model)?;
                match (unchanged, self.output.as_ref() == Some(&output)) {
                    (true, _) => {}
                    (false, true) => self.options.force.allow(&output)?,
                    (false, false) => self.options.force.allow_chosen(&output).map(drop)?,
                }
                work.push((model, output, unchanged));
            }
        }
        if work.is_empty() {
            return Err(Failure::new("everything here is an archive already"));
        }
        let options = self.options.archive_options()?;
        let mut results = self.options.json.results();
        for (model, output, unchanged) in &work {
            let reader = match Bases::default().open_model(model) {
                Ok(reader) if reader.archived().is_none() => reader,
                // A delta without its base.
                Err(error) if find(model.path()).ok().flatten().is_none() => return Err(error.into()),
                _ => {
                    let message = "this is an archive already. Restore its original first: `ztensor restore`, or `ztensor delta apply`.";
                    return Err(Failure::about(model.path(), "invalid_argument", message));
                }
            };
            if *unchanged {
                let stored = std::fs::metadata(output)?.len();
                let stats =
                    Stats { original: length_of(&reader), stored, tensors: reader.len(), ..Stats::default() };
                let line =
                    format!("{} is there already and restores {}", output.display(), model.path().display());
                results.add(&line, document(model.path(), output, &stats, true))?;
                self.delete.after_archiving(model.path(), output, &[])?;
                continue;
            }
            make_folder(output)?;
            let progress = Progress::new("archiving", length_of(&reader));
            let stats = archive_reader(&reader, output, &options, &mut |bytes| {
                progress.advance(bytes);
                Ok(())
            })
            .map_err(|error| error.with_path(model.path()))?;
            drop(progress);
            results
                .add(&summary(model.path(), output, &stats), document(model.path(), output, &stats, false))?;
            self.delete.after_archiving(model.path(), output, &[])?;
        }
        results.finish()?;
        Ok(Outcome::Done)
    }

    /// Where the archive of a model goes that was found at, or in, `path`.
    fn output_for(&self, path: &Path, model: &Model, several: bool, alone: bool) -> Result<PathBuf> {
        let name = archive_name(model.path());
        let is_one = |output: &Path| output.extension().is_some_and(|end| end == "zstn") && !output.is_dir();
        match &self.output {
            None => Ok(name),
            Some(output) if path.is_dir() && is_one(output) && alone => Ok(output.clone()),
            Some(output) if path.is_dir() && is_one(output) => Err(Failure::new(format!(
                "\"{}\" is the name of one archive, but there are several models; name a folder",
                output.display()
            ))),
            Some(output) if path.is_dir() => Ok(output.join(name.strip_prefix(path).unwrap_or(&name))),
            Some(output) if several && !output.is_dir() => {
                Err(Failure::new("--output names one archive, but there are several files; name a folder"))
            }
            Some(output) if output.is_dir() => Ok(output.join(name.file_name().unwrap_or_default())),
            Some(output) => Ok(output.clone()),
        }
    }
}

impl PackOptions {
    pub(crate) fn archive_options(&self) -> Result<ArchiveOptions> {
        Ok(ArchiveOptions {
            effort: self.effort.effort()?,
            level: self.level,
            threads: self.threads,
            limits: limits::current(),
        })
    }
}

/// Whether a file is an archive of exactly this model.
fn holds(output: &Path, model: &Model) -> Result<bool> {
    let Ok(Some(info)) = find(output) else { return Ok(false) };
    for (file, sha256) in originals(model.path(), &info) {
        if !file.is_file() || digest(&file)? != sha256 {
            return Ok(false);
        }
    }
    Ok(info.bases.is_empty())
}

fn ratio(stats: &Stats) -> f64 {
    stats.original as f64 / stats.stored.max(1) as f64
}

/// What came of one file, for programs.
pub(crate) fn document(file: &Path, output: &Path, stats: &Stats, unchanged: bool) -> Json {
    json!({
        "path": file.display().to_string(), "output": output.display().to_string(),
        "original_bytes": stats.original, "stored_bytes": stats.stored, "ratio": ratio(stats),
        "tensors": stats.tensors, "copied": stats.copied, "deltas": stats.deltas, "derived": stats.derived, "seconds": stats.seconds, "unchanged": unchanged,
    })
}

/// The same, for people.
pub(crate) fn summary(file: &Path, output: &Path, stats: &Stats) -> String {
    let saved = 100.0 * (1.0 - stats.stored as f64 / stats.original.max(1) as f64);
    let than = if saved < 0.0 { "larger" } else { "smaller" };
    let mut against = match stats.copied + stats.deltas {
        0 => String::new(),
        _ => format!(", {} copied, {} as deltas", stats.copied, stats.deltas),
    };
    if stats.derived > 0 {
        against.push_str(&format!(", {} derived", stats.derived));
    }
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

/// Makes the folder that an output goes to.
pub(crate) fn make_folder(output: &Path) -> Result<()> {
    match output.parent() {
        // Refused where it is written.
        _ if is_url(output) => Ok(()),
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("\"{}\": {error}", folder.display()))),
        _ => Ok(()),
    }
}

/// Bytes of all files of a model, for the progress bar.
pub(crate) fn length_of(reader: &Reader) -> u64 {
    reader.sources().iter().map(|source| source.len()).sum()
}
