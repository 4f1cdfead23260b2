//! `ztensor archive` and `ztensor restore`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::archive::{ArchiveInfo, ArchiveOptions, Stats, archive_reader, find};
use ztensor::folder::Model;
use ztensor::{OpenOptions, Reader};

use super::bases::{Bases, expand};
use super::force::{Force, State};
use super::names::{ARCHIVE, archive_name, restored_name};
use crate::display::{say, say_json, size, tensors};
use crate::effort::EffortOption;
use crate::progress::Progress;
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
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// Archives and deltas, and folders in which all of them are restored
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The restored file; a folder for several, and for an archive of several files [default: beside the archive, under the name it had]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    force: Force,
}

impl Archive {
    pub(crate) fn run(self) -> Result {
        let several = self.files.len() > 1 || self.files.iter().any(|file| file.is_dir());
        let mut work: Vec<(Model, PathBuf)> = Vec::new();
        for path in &self.files {
            for model in expand(std::slice::from_ref(path))? {
                // What is an archive in a folder is left alone; named, it is refused.
                if path.is_dir() && find(model.path())?.is_some() {
                    continue;
                }
                let output = self.output_for(path, &model, several)?;
                if work.iter().any(|(_, other)| *other == output) {
                    return Err(Failure::new(format!(
                        "two models would become \"{}\"; archive them one by one",
                        output.display()
                    )));
                }
                match self.names_output(path, several) {
                    true => self.options.force.allow(&output)?,
                    false => self.options.force.allow_chosen(&output).map(drop)?,
                }
                work.push((model, output));
            }
        }
        if work.is_empty() {
            return Err(Failure::new("everything here is an archive already"));
        }
        let options = self.options.archive_options()?;
        let mut documents = Vec::new();
        for (model, output) in &work {
            let reader = Bases::default().open_model(model)?;
            make_folder(output)?;
            let progress = Progress::new("archiving", length_of(&reader));
            let stats = archive_reader(&reader, output, &options, &mut |bytes| {
                progress.advance(bytes);
                Ok(())
            })
            .map_err(|error| error.with_path(model.path()))?;
            drop(progress);
            match self.options.json {
                true => documents.push(document(model.path(), output, &stats)),
                false => say(&summary(model.path(), output, &stats))?,
            }
        }
        if self.options.json {
            say_json(&documents.into())?;
        }
        Ok(Outcome::Done)
    }

    /// Whether the user named the very file.
    fn names_output(&self, path: &Path, several: bool) -> bool {
        self.output.as_ref().is_some_and(|output| !several && !path.is_dir() && !output.is_dir())
    }

    /// Where the archive of a model goes that was found at, or in, `path`.
    fn output_for(&self, path: &Path, model: &Model, several: bool) -> Result<PathBuf> {
        let name = archive_name(model.path());
        match &self.output {
            None => Ok(name),
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
        let several = self.files.len() > 1 || self.files.iter().any(|file| file.is_dir());
        let mut work: Vec<(PathBuf, ArchiveInfo, PathBuf)> = Vec::new();
        for path in &self.files {
            for model in expand(std::slice::from_ref(path))? {
                let archive = model.path();
                let info = match path.is_dir() {
                    true => find(archive)?,
                    false => Some(limits::options().describe_archive(archive)?),
                };
                let Some(info) = info else { continue };
                let output = self.output_for(path, archive, &info, several)?;
                work.push((archive.to_path_buf(), info, output));
            }
        }
        if work.is_empty() {
            return Err(Failure::new("there is no archive here"));
        }
        for (archive, info, output) in &work {
            let chosen = self.output.as_ref() != Some(output);
            restore_one(archive, info, output, chosen, &self.bases, &self.force)?;
        }
        Ok(Outcome::Done)
    }

    fn output_for(&self, path: &Path, archive: &Path, info: &ArchiveInfo, several: bool) -> Result<PathBuf> {
        let in_folder = |output: &Path, file: &Path| match path.is_dir() {
            true => output.join(file.strip_prefix(path).unwrap_or(file)),
            false => output.join(file.file_name().unwrap_or_default()),
        };
        if !info.files.is_empty() {
            let beside = archive.parent().unwrap_or(Path::new(""));
            return Ok(match &self.output {
                None => beside.to_path_buf(),
                Some(output) if path.is_dir() => output.join(beside.strip_prefix(path).unwrap_or(beside)),
                Some(output) => output.clone(),
            });
        }
        match (&self.output, restored_name(archive, info)) {
            (Some(output), Some(name)) if several || output.is_dir() => Ok(in_folder(output, &name)),
            (Some(output), _) => Ok(output.clone()),
            (None, Some(name)) => Ok(name),
            (None, None) => Err(Failure::new(format!(
                "\"{}\" does not end in .{ARCHIVE}; name an --output",
                archive.display()
            ))),
        }
    }
}

/// Restores one archive or delta to a file, or to a folder if it holds several. `chosen` says that the user did not name the output.
pub(crate) fn restore_one(
    archive: &Path,
    info: &ArchiveInfo,
    output: &Path,
    chosen: bool,
    bases: &Bases,
    force: &Force,
) -> Result<()> {
    let states = match info.files.is_empty() {
        true => vec![force.state(output, info.length, &info.sha256, chosen)?],
        false => {
            let files = info.files.iter();
            let state = |file: &ztensor::archive::FileInfo| {
                force.state(&output.join(&file.name), file.length, &file.sha256, true)
            };
            files.map(state).collect::<Result<Vec<_>>>()?
        }
    };
    if states.iter().all(|state| *state == State::Same) {
        let what = if info.files.is_empty() { "" } else { "everything in it " };
        return say(&format!("{}: {what}is there already, with the same bytes", output.display()));
    }
    make_folder(output)?;
    let progress = Progress::new("restoring", info.length);
    let options = OpenOptions { bases: bases.candidates(), ..force.open_options() };
    let length = options.restore(archive, output, &mut |bytes| {
        progress.advance(bytes);
        Ok(())
    })?;
    drop(progress);
    let files = match info.files.len() {
        0 => String::new(),
        files => format!("{files} files, "),
    };
    say(&format!("{} -> {} ({files}{}), digest verified", archive.display(), output.display(), size(length)))
}

/// Makes the folder that an output goes to.
pub(crate) fn make_folder(output: &Path) -> Result<()> {
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("\"{}\": {error}", folder.display()))),
        _ => Ok(()),
    }
}

/// Bytes of all files of a model, for the progress bar.
pub(crate) fn length_of(reader: &Reader) -> u64 {
    reader.sources().iter().map(|source| source.len()).sum()
}
