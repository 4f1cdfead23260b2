//! `ztensor hydrate`: plain files instead of archives, for loaders that know nothing of them.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value as Json;
use ztensor::archive::is_original;
use ztensor::{Io, Output, Source};

use super::force::{allow_chosen, open_options};
use crate::display::{say, size};
use crate::progress::Progress;
use crate::{Failure, Outcome, Result};

/// What marks compressed files in a folder of a model, as transformers marks variants of weights.
const MARK: &str = ".z4ai";
const ARCHIVE: &str = ".zstn";

#[derive(Args)]
pub(crate) struct Hydrate {
    /// The folder of a model
    folder: PathBuf,
    /// Remove the archives once every file is restored
    #[arg(long)]
    delete_archives: bool,
    /// Replace files that exist and differ, and restore what is out of proportion to its archive
    #[arg(short, long)]
    force: bool,
}

impl Hydrate {
    pub(crate) fn run(self) -> Result {
        let files = self.files()?;
        let (indexes, archives): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(from, _)| from.extension().is_some_and(|end| end == "json"));
        if archives.is_empty() {
            return Err(Failure::new(format!(
                "\"{}\" has no archives: files named *{MARK}.safetensors or *{ARCHIVE}",
                self.folder.display()
            )));
        }
        for (archive, target) in &archives {
            self.restore(archive, target)?;
        }
        // The index names the shards, so it comes when they are there.
        for (index, target) in &indexes {
            self.write_index(index, target)?;
            say(&format!("{} -> {}", index.display(), target.display()))?;
        }
        if self.delete_archives {
            // What they are made from goes only when they are on the disk.
            for (_, target) in archives.iter().chain(&indexes) {
                ztensor::make_durable(target)?;
            }
            for (file, _) in archives.iter().chain(&indexes) {
                std::fs::remove_file(file).map_err(|error| {
                    Failure::new(format!("\"{}\": cannot remove it: {error}", file.display()))
                })?;
            }
        }
        Ok(Outcome::Done)
    }

    /// The compressed files of the folder and the names of what they restore to, sorted.
    fn files(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let unreadable =
            |error: std::io::Error| Failure::new(format!("\"{}\": {error}", self.folder.display()));
        let mut found = Vec::new();
        for entry in self.folder.read_dir().map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let plain = path.file_name().and_then(|name| name.to_str()).and_then(plain_name);
            if let Some(plain) = plain.filter(|_| path.is_file()) {
                found.push((path.clone(), path.with_file_name(plain)));
            }
        }
        found.sort();
        Ok(found)
    }

    fn restore(&self, archive: &Path, target: &Path) -> Result<()> {
        let options = open_options(self.force);
        let info = options.describe_archive(archive)?;
        if target.is_file() {
            if is_original(&info, target)? {
                return say(&format!("{} is there already", target.display()));
            }
            if !self.force && !target.is_symlink() {
                return Err(Failure::new(format!(
                    "\"{}\" exists and is not the original of \"{}\"; use --force to replace it",
                    target.display(),
                    archive.display()
                )));
            }
        }
        let target = &allow_chosen(target, self.force)?;
        let progress = Progress::new("restoring", info.length);
        let length = options.restore(archive, target, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        say(&format!("{} -> {} ({}), digest verified", archive.display(), target.display(), size(length)))
    }

    fn write_index(&self, index: &Path, target: &Path) -> Result<()> {
        let text = restored_index(index)?;
        if target.is_file() && holds(target, &text)? {
            return Ok(());
        }
        let mut file = Output::create(&allow_chosen(target, self.force)?)?;
        file.write(text.as_bytes())?;
        Ok(file.publish(false)?)
    }
}

/// Whether a file has exactly this content.
fn holds(file: &Path, text: &str) -> Result<bool> {
    let source = Source::open_regular(file, Io::Read)?;
    Ok(source.len() == text.len() as u64 && *source.bytes(0, source.len())? == *text.as_bytes())
}

/// The name without the mark of a compressed file; `None` for other files.
fn plain_name(name: &str) -> Option<String> {
    if let Some(plain) = name.strip_suffix(ARCHIVE) {
        return (!plain.is_empty()).then(|| plain.to_owned());
    }
    let (front, back) = name.split_once(MARK)?;
    let marked = back == ".json" || back.ends_with(".safetensors");
    (marked && back.starts_with(['.', '-'])).then(|| format!("{front}{back}"))
}

/// An index of shards with the names they are restored to.
fn restored_index(index: &Path) -> Result<String> {
    /// Those of the largest models have a hundredth of it.
    const LONGEST: u64 = 256 << 20;
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("\"{}\": {error}", index.display()));
    let source = Source::open_regular(index, Io::Read)?;
    if source.len() > LONGEST {
        return Err(failed(&"this is too long for an index of shards"));
    }
    let text = source.bytes(0, source.len())?;
    let mut document: Json = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
    let shards = document.get_mut("weight_map").and_then(Json::as_object_mut);
    for shard in shards.into_iter().flat_map(|map| map.values_mut()) {
        if let Some(plain) = shard.as_str().and_then(plain_name) {
            *shard = Json::from(plain);
        }
    }
    Ok(format!("{document:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn marks_are_taken_off_where_they_are_marks() {
        let plain = |name| plain_name(name);
        assert_eq!(plain("model.z4ai.safetensors").as_deref(), Some("model.safetensors"));
        assert_eq!(
            plain("model.z4ai-00001-of-00002.safetensors").as_deref(),
            Some("model-00001-of-00002.safetensors")
        );
        assert_eq!(
            plain("model.safetensors.index.z4ai.json").as_deref(),
            Some("model.safetensors.index.json")
        );
        assert_eq!(plain("model.gguf.zstn").as_deref(), Some("model.gguf"));
        for other in
            ["model.safetensors", "config.json", "model.z4ainot.safetensors", "weights.z4ai", ".zstn"]
        {
            assert_eq!(plain(other), None, "{other}");
        }
    }
}
