//! `ztensor hydrate`: plain files instead of archives, for loaders that know nothing of them. What is an archive is seen by its content, in the folder and in
//! those below it; everything else stays as it is.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use ztensor::archive::{ArchiveInfo, find};
use ztensor::folder::models;

use super::bases::Bases;
use super::force::Force;
use super::index_text::rename_shards;
use super::names::{plain_name, restored_name};
use super::restore::restore_one;
use crate::display::complain;
use crate::results::JsonOption;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Hydrate {
    /// The folder of a model
    folder: PathBuf,
    /// Remove the archives once every file is restored
    #[arg(long, alias = "delete-original", alias = "delete-originals")]
    delete_archives: bool,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    force: Force,
}

/// An index and the name that it gets.
type Renamed = (PathBuf, PathBuf);

/// An archive and what it restores to.
struct Work {
    archive: PathBuf,
    info: ArchiveInfo,
    target: PathBuf,
}

impl Work {
    /// The files that it restores to.
    fn restored(&self) -> Vec<PathBuf> {
        match self.info.files.is_empty() {
            true => vec![self.target.clone()],
            false => self.info.files.iter().map(|file| self.target.join(&file.name)).collect(),
        }
    }
}

impl Hydrate {
    pub(crate) fn run(self) -> Result {
        let (work, indexes) = self.plan()?;
        if work.is_empty() {
            return Err(Failure::new(format!("\"{}\" has no archives in it", self.folder.display())));
        }
        let mut outcome = Outcome::Done;
        let mut results = self.json.results();
        let mut written = Vec::new();
        for Work { archive, info, target } in &work {
            if archive == target && !self.delete_archives {
                complain(&format!(
                    "ztensor: \"{}\" is an archive under the name of its original; --delete-archives puts the original in its place",
                    archive.display()
                ));
                outcome = Outcome::Failed;
                continue;
            }
            let force = if archive == target { Force::given() } else { self.force.clone() };
            restore_one(archive, info, target, true, &self.bases, &force, &mut results)?;
        }
        // The index names the shards, so it comes when they are there.
        for (index, target) in &indexes {
            if rename_shards(index, target, plain_name, &self.force)? {
                results.remark(&format!("{} -> {}", index.display(), target.display()))?;
                written.push(target.display().to_string());
            }
        }
        if self.delete_archives {
            // What they are made from goes only when they are on the disk.
            let restored = work.iter().flat_map(Work::restored);
            for file in restored.chain(indexes.iter().map(|(_, target)| target.clone())) {
                ztensor::make_durable(&file)?;
            }
            let archives = work.iter().filter(|work| work.archive != work.target).map(|work| &work.archive);
            for file in archives.chain(indexes.iter().map(|(index, _)| index)) {
                std::fs::remove_file(file).map_err(|error| {
                    Failure::new(format!("\"{}\": cannot remove it: {error}", file.display()))
                })?;
            }
        }
        results.finish_as(
            |restored| json!({ "restored": restored, "indexes": written, "deleted": self.delete_archives }),
        )?;
        Ok(outcome)
    }

    /// The archives of the folder and the names of what they restore to, and the indexes that name them.
    fn plan(&self) -> Result<(Vec<Work>, Vec<Renamed>)> {
        let (mut work, mut indexes) = (Vec::new(), Vec::new());
        for model in models(&self.folder)? {
            let mut archived = false;
            for file in model.files() {
                let Some(info) = find(file)? else { continue };
                archived = true;
                let target = match info.files.is_empty() {
                    true => restored_name(file, &info).unwrap_or_else(|| file.clone()),
                    false => file.parent().unwrap_or(Path::new("")).to_path_buf(),
                };
                work.push(Work { archive: file.clone(), info, target });
            }
            let name = model.path().file_name().and_then(|name| name.to_str());
            let is_index = model.path().extension().is_some_and(|extension| extension == "json");
            if let (true, true, Some(plain)) = (archived, is_index, name.and_then(plain_name)) {
                indexes.push((model.path().to_path_buf(), model.path().with_file_name(plain)));
            }
        }
        Ok((work, indexes))
    }
}
