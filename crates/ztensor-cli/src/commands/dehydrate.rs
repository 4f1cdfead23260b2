//! `ztensor dehydrate`: the inverse of `hydrate`. The safetensors weights of a folder become archives under the names of a variant, which transformers and
//! diffusers load after `z4ai.enable_hf()`. Everything else stays as it is.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use ztensor::Format;
use ztensor::archive::{ArchiveOptions, Stats, archive, describe, digest, find, verify};
use ztensor::folder::{Model, models};

use super::archive::{PackOptions, document, make_folder, summary};
use super::index_text::rename_shards;
use super::names::variant_name;
use crate::progress::Progress;
use crate::results::Results;
use crate::{Failure, Outcome, Result, limits};

#[derive(Args)]
pub(crate) struct Dehydrate {
    /// The folder of a model, with folders in it as diffusers has them
    folder: PathBuf,
    /// Write to this folder, with copies of all other files [default: beside the originals]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Delete the originals once every archive was read back and found to restore them
    #[arg(long, alias = "delete-original")]
    delete_originals: bool,
    #[command(flatten)]
    options: PackOptions,
}

impl Dehydrate {
    pub(crate) fn run(self) -> Result {
        let found = models(&self.folder)?;
        let (mut weights, mut others) = (Vec::new(), Vec::new());
        for model in found {
            if is_plain_safetensors(&model)? {
                weights.push(model);
            } else if !is_archived(&model)? {
                others.push(model);
            }
        }
        if weights.is_empty() {
            return Err(Failure::new(format!(
                "\"{}\" has no plain .safetensors weights in it; other formats are archived by `ztensor archive`",
                self.folder.display()
            )));
        }
        let options = self.options.archive_options()?;
        let mut results = self.options.json.results();
        let mut indexes = Vec::new();
        for model in &weights {
            for file in shards_first(model) {
                let target = self.target(file)?;
                make_folder(&target)?;
                match is_index(file) {
                    true => {
                        if rename_shards(file, &target, variant_name, &self.options.force)? {
                            results.remark(&format!("{} -> {}", file.display(), target.display()))?;
                            indexes.push(target.display().to_string());
                        }
                    }
                    false => self.archive(file, &target, &options, &mut results)?,
                }
            }
        }
        for model in &others {
            let kept = model.path().display();
            results.remark(&format!("{kept} is kept as it is; `ztensor archive` compresses it"))?;
        }
        if self.output.is_some() {
            self.copy_others(&weights)?;
        }
        if self.delete_originals {
            self.delete(&weights)?;
            results.remark("originals deleted; every archive was read back first")?;
        }
        let kept: Vec<_> = others.iter().map(|model| model.path().display().to_string()).collect();
        results.finish_as(|archives| {
            json!({ "archives": archives, "indexes": indexes, "kept": kept, "deleted": self.delete_originals })
        })?;
        Ok(Outcome::Done)
    }

    /// Where the compressed form of a file goes.
    fn target(&self, file: &Path) -> Result<PathBuf> {
        let name = file.file_name().and_then(|name| name.to_str()).and_then(variant_name);
        let name = name.ok_or_else(|| {
            Failure::new(format!(
                "\"{}\" holds safetensors, but is not called so; rename it to *.safetensors",
                file.display()
            ))
        })?;
        Ok(self.place(file).with_file_name(name))
    }

    /// The path of a file in the folder that is written.
    fn place(&self, file: &Path) -> PathBuf {
        match (&self.output, file.strip_prefix(&self.folder)) {
            (Some(output), Ok(inside)) => output.join(inside),
            _ => file.to_path_buf(),
        }
    }

    fn archive(
        &self,
        file: &Path,
        target: &Path,
        options: &ArchiveOptions,
        results: &mut Results,
    ) -> Result<()> {
        if target.exists() {
            match describe(target) {
                Ok(info) if info.sha256 == digest(file)? => {
                    let reader = limits::open(target)?;
                    let stats = Stats {
                        original: info.length,
                        stored: info.stored,
                        tensors: reader.len(),
                        ..Stats::default()
                    };
                    let line = format!("{} is there already", target.display());
                    return results.add(&line, document(file, target, &stats, true));
                }
                _ => {}
            }
        }
        self.options.force.allow_chosen(target)?;
        let length = std::fs::metadata(file).map(|about| about.len()).ok();
        let progress = Progress::new("archiving", length);
        let stats = archive(file, target, options, &mut |bytes| {
            progress.advance(bytes);
            Ok(())
        })?;
        drop(progress);
        results.add(&summary(file, target, &stats), document(file, target, &stats, false))
    }

    /// Copies what is not compressed: configuration, tokenizers, models of other formats.
    fn copy_others(&self, weights: &[Model]) -> Result<()> {
        for file in ztensor::folder::all_files(&self.folder)? {
            let target = self.place(&file);
            let is_weight = weights.iter().any(|model| model.files().contains(&file));
            if is_weight || (target.exists() && digest(&target)? == digest(&file)?) {
                continue;
            }
            self.options.force.allow_chosen(&target)?;
            make_folder(&target)?;
            #[allow(
                clippy::disallowed_methods,
                reason = "copied again unless the digests agree; modes are kept"
            )]
            std::fs::copy(&file, &target)
                .map_err(|error| Failure::new(format!("\"{}\": {error}", target.display())))?;
        }
        Ok(())
    }

    /// Deletes the originals, all of them or none: every archive is read back first.
    fn delete(&self, weights: &[Model]) -> Result<()> {
        for file in weights.iter().flat_map(Model::files).filter(|file| !is_index(file)) {
            let target = self.target(file)?;
            verify(&target)?;
            if describe(&target)?.sha256 != digest(file)? {
                return Err(Failure::new(format!(
                    "\"{}\" is kept: it changed while it was compressed",
                    file.display()
                )));
            }
        }
        // What they are made from goes only when they are on the disk.
        for file in weights.iter().flat_map(Model::files) {
            ztensor::make_durable(&self.target(file)?)?;
        }
        for file in weights.iter().flat_map(Model::files) {
            std::fs::remove_file(file).map_err(|error| {
                Failure::new(format!("\"{}\": cannot remove it: {error}", file.display()))
            })?;
        }
        Ok(())
    }
}

fn is_index(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "json")
}

/// The files of a model, those that others refer to first.
fn shards_first(model: &Model) -> impl Iterator<Item = &PathBuf> {
    let (indexes, shards): (Vec<_>, Vec<_>) = model.files().iter().partition(|file| is_index(file));
    shards.into_iter().chain(indexes)
}

/// Whether a model, or one of its shards, is an archive.
fn is_archived(model: &Model) -> Result<bool> {
    for file in model.files() {
        if find(file)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether all files of a model are plain safetensors, not archives already. What is called so and cannot be opened is an error.
fn is_plain_safetensors(model: &Model) -> Result<bool> {
    if is_archived(model)? {
        return Ok(false);
    }
    match limits::options().open_model(model) {
        Ok(reader) => Ok(reader.format() == Format::Safetensors),
        Err(error) if model.files().iter().any(|file| has_weights_name(file)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

fn has_weights_name(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "safetensors")
}
