//! `--delete-original`, the same for every command that makes a file from others: they go once the result was read back from the disk and holds the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ztensor::Reader;
use ztensor::archive::{ArchiveInfo, digest};
use ztensor::convert::{FileKind, Selection, carried_tree};
use ztensor::source::is_url;

use super::bases::Bases;
use super::force::same_file;
use crate::{Failure, Result, limits};

#[derive(Args, Clone, Copy)]
pub(crate) struct DeleteOption {
    /// Delete the input once the output was read back and holds the same
    #[arg(long)]
    pub(crate) delete_original: bool,
}

impl DeleteOption {
    /// After a conversion: all tensors of the input are in the output, or nothing is deleted.
    pub(crate) fn after_converting(
        self,
        reader: &Reader,
        input: &Path,
        output: &Path,
        selection: &Selection<'_>,
    ) -> Result<()> {
        if !self.delete_original || same_file(input, output) {
            return Ok(());
        }
        refuse_url(input)?;
        if !reader.skipped().is_empty() {
            return Err(kept(input, "not everything in it could be read"));
        }
        let written = limits::open(output)?;
        for (name, new) in selection {
            for (role, _) in &reader.object(name)?.components {
                if reader.component_bytes(name, role)? != written.component_bytes(new, role)? {
                    return Err(kept(input, &format!("tensor \"{name}\" differs in the output")));
                }
            }
        }
        match (carried_tree(reader, selection), written.tree()) {
            (Ok(None), _) => {}
            (Ok(Some(before)), Ok(Some(after))) if before.unread().is_empty() => {
                let same = FileKind::of(output)? == FileKind::Pytorch || before.text() == after.text();
                if !same {
                    return Err(kept(
                        input,
                        "the tree that holds its tensors together differs in the output",
                    ));
                }
            }
            _ => return Err(kept(input, "the tree that holds its tensors together is not in the output")),
        }
        make_durable(&written, output)?;
        if reader.archived().is_some() {
            return remove(input);
        }
        // Shards that are archives have the paths of their originals.
        let sources = reader.sources().iter().filter_map(|source| source.path()).filter(|path| path.exists());
        let mut files: Vec<&Path> = sources.collect();
        // The index of shards is no source of tensors.
        if input.is_file() && !files.iter().any(|file| same_file(file, input)) {
            files.push(input);
        }
        let is_new = |file: &Path| {
            written.sources().iter().any(|s| s.path().is_some_and(|path| same_file(path, file)))
        };
        files.into_iter().filter(|file| !is_new(file)).try_for_each(remove)
    }

    /// After archiving, alone or against bases: the archive restores exactly what is deleted.
    pub(crate) fn after_archiving(self, model: &Path, archive: &Path, bases: &[Arc<Reader>]) -> Result<()> {
        if !self.delete_original || same_file(model, archive) {
            return Ok(());
        }
        refuse_url(model)?;
        let info = limits::options().describe_archive(archive)?;
        let paths: Vec<&Path> = bases.iter().filter_map(|base| base.sources().first()?.path()).collect();
        // Bases that were of no use are no bases.
        let options = match info.bases.is_empty() {
            true => limits::options(),
            false => Bases::of(&paths).options(),
        };
        options.verify_archive(archive)?;
        let files = originals(model, &info);
        let is_base = |file: &Path| {
            let mut sources = bases.iter().flat_map(|base| base.sources());
            sources.any(|source| source.path().is_some_and(|path| same_file(path, file)))
        };
        for (file, sha256) in &files {
            if is_base(file) {
                return Err(kept(file, "the delta needs it as its base"));
            }
            if digest(file)? != *sha256 {
                return Err(kept(file, "it changed while it was archived"));
            }
        }
        ztensor::make_durable(archive)?;
        files.iter().try_for_each(|(file, _)| remove(file))
    }

    /// After restoring: the files that are restored are what the archive says.
    pub(crate) fn after_restoring(self, archive: &Path, info: &ArchiveInfo, output: &Path) -> Result<()> {
        if !self.delete_original || same_file(archive, output) {
            return Ok(());
        }
        refuse_url(archive)?;
        let files = match info.files.is_empty() {
            true => vec![(output.to_path_buf(), info.sha256.clone())],
            false => info.files.iter().map(|file| (output.join(&file.name), file.sha256.clone())).collect(),
        };
        for (file, sha256) in &files {
            if digest(file)? != *sha256 {
                return Err(kept(archive, &format!("\"{}\" is not what it holds", file.display())));
            }
            ztensor::make_durable(file)?;
        }
        remove(archive)
    }
}

/// The files that an archive was made of, and their digests.
pub(crate) fn originals(model: &Path, info: &ArchiveInfo) -> Vec<(PathBuf, String)> {
    if info.files.is_empty() {
        return vec![(model.to_path_buf(), info.sha256.clone())];
    }
    let folder = if model.is_dir() { model } else { model.parent().unwrap_or(Path::new("")) };
    info.files.iter().map(|file| (folder.join(&file.name), file.sha256.clone())).collect()
}

/// What things are made from goes only when they are on the disk.
fn make_durable(written: &Reader, output: &Path) -> Result<()> {
    for path in written.sources().iter().filter_map(|source| source.path()) {
        ztensor::make_durable(path)?;
    }
    Ok(ztensor::make_durable(output)?)
}

fn refuse_url(input: &Path) -> Result<()> {
    if is_url(input) { Err(kept(input, "nothing is deleted by URL")) } else { Ok(()) }
}

fn kept(file: &Path, why: &str) -> Failure {
    Failure::new(format!("\"{}\" is kept: {why}", file.display()))
}

fn remove(file: &Path) -> Result<()> {
    std::fs::remove_file(file)
        .map_err(|error| Failure::new(format!("\"{}\": cannot remove it: {error}", file.display())))
}
