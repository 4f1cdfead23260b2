//! `ztensor restore`, which `ztensor delta apply` is another name of.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use ztensor::OpenOptions;
use ztensor::archive::{ArchiveInfo, find};

use super::archive::make_folder;
use super::bases::{Bases, expand};
use super::force::{Force, State};
use super::names::{ARCHIVE, local, restored_name};
use super::originals::DeleteOption;
use crate::display::size;
use crate::progress::Progress;
use crate::results::{JsonOption, Results};
use crate::{Failure, Outcome, Result, limits};

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
    delete: DeleteOption,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    force: Force,
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
        let mut results = self.json.results();
        for (archive, info, output) in &work {
            let chosen = self.output.as_ref() != Some(output);
            restore_one(archive, info, output, chosen, &self.bases, &self.force, &mut results)?;
        }
        // Archives that others are made against go last.
        for (archive, info, output) in &work {
            self.delete.after_restoring(archive, info, output)?;
        }
        results.finish()?;
        Ok(Outcome::Done)
    }

    fn output_for(&self, path: &Path, archive: &Path, info: &ArchiveInfo, several: bool) -> Result<PathBuf> {
        let in_folder = |output: &Path, file: &Path| match path.is_dir() {
            true => output.join(file.strip_prefix(path).unwrap_or(file)),
            false => output.join(file.file_name().unwrap_or_default()),
        };
        if !info.files.is_empty() {
            let archive = local(archive);
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
    results: &mut Results,
) -> Result<()> {
    let document = |unchanged: bool| {
        let files = match info.files.is_empty() {
            true => vec![output.to_path_buf()],
            false => info.files.iter().map(|file| output.join(&file.name)).collect(),
        };
        json!({
            "path": archive.display().to_string(), "output": output.display().to_string(),
            "files": files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
            "bytes": info.length, "sha256": info.sha256, "unchanged": unchanged,
        })
    };
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
        let line = format!("{}: {what}is there already, with the same bytes", output.display());
        return results.add(&line, document(true));
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
    results.add(
        &format!("{} -> {} ({files}{}), digest verified", archive.display(), output.display(), size(length)),
        document(false),
    )
}
