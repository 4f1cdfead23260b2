//! The files of an opened model in the order in which an archive holds them: one, or a shard index and its shards, the parts of a split
//! file, a model and its external data.

use std::borrow::Cow;
use std::path::{Component as PathPart, Path};
use std::sync::Arc;

use rayon::prelude::*;

use super::description::{FileIdentity, NamedFile};
use super::digest::combine;
use super::digest_of;
use crate::error::{Error, Result};
use crate::folder::is_plain;
use crate::index::{FileId, Format};
use crate::reader::Reader;
use crate::source::Source;

/// The files of a model.
pub struct Original {
    pub(crate) files: Vec<OriginalFile>,
}

/// One file of a model.
pub(crate) struct OriginalFile {
    /// Relative to the folder of the file that is opened, with slashes; empty for a file without a path.
    pub name: String,
    pub source: Arc<Source>,
    /// What the index calls it.
    pub id: FileId,
    /// Where it begins when all files lie one after the other.
    pub start: u64,
}

impl Original {
    /// All files of a model, the one that is opened first.
    pub fn of(reader: &Reader) -> Original {
        let sources = reader.sources();
        let folder = plain_parts(sources.first().and_then(|first| first.path()).and_then(Path::parent));
        let mut files: Vec<OriginalFile> = (0..)
            .zip(sources)
            // What a parser unpacked into memory is part of the file it came from.
            .filter(|(number, source)| *number == 0 || source.path().is_some())
            .map(|(number, source)| {
                let parts = plain_parts(source.path());
                let relative = parts.strip_prefix(&folder[..]).unwrap_or(&parts);
                OriginalFile {
                    name: relative.join("/"),
                    source: Arc::clone(source),
                    id: FileId(number),
                    start: 0,
                }
            })
            .collect();
        // Any part opens a split file; otherwise it has to be the one that refers to the others.
        let fixed = if reader.format() == Format::Gguf { 0 } else { 1 };
        if let Some(rest) = files.get_mut(fixed..) {
            rest.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Original { files }.placed()
    }

    /// Files that are no one model, by their names, in the order of a reader that has opened them all.
    pub(crate) fn of_named(files: Vec<(String, Arc<Source>)>) -> Original {
        let file = |(number, (name, source))| OriginalFile { name, source, id: FileId(number), start: 0 };
        Original { files: (0..).zip(files).map(file).collect() }.placed()
    }

    /// The files that the tensors of a base are read from: no shard index, which changes with the names of the shards.
    pub(crate) fn of_base(reader: &Reader) -> Result<Original> {
        let mut original = Original::of(reader);
        #[cfg(feature = "safetensors")]
        if original.files.len() > 1 && reader.format() == Format::Safetensors {
            let first = original.files.first().map(|file| file.source.head(4096)).transpose()?;
            if first.is_some_and(|head| crate::formats::safetensors::is_shard_index(&head)) {
                original.files.remove(0);
            }
            original.files.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(original.placed())
    }

    fn placed(mut self) -> Original {
        let mut start = 0;
        for file in &mut self.files {
            file.start = start;
            start += file.source.len();
        }
        self
    }

    /// The length of all files.
    pub(crate) fn length(&self) -> u64 {
        self.files.iter().map(|file| file.source.len()).sum()
    }

    /// Bytes of one file, by their place in all of them.
    pub fn bytes(&self, offset: u64, length: u64) -> Result<Cow<'_, [u8]>> {
        let number = self.files.partition_point(|file| file.start <= offset);
        let file = number.checked_sub(1).and_then(|number| self.files.get(number));
        let file = file.ok_or_else(|| Error::truncated("the model has no files"))?;
        file.source.bytes(offset - file.start, length)
    }

    /// What stands for all files, and for each of several.
    pub(crate) fn identify(&self) -> Result<(FileIdentity, Vec<NamedFile>)> {
        let identities =
            self.files.par_iter().map(|file| digest_of(&file.source)).collect::<Result<Vec<_>>>()?;
        let all = combine(&identities);
        if identities.len() == 1 {
            return Ok((all, Vec::new()));
        }
        let named = |(file, identity): (&OriginalFile, FileIdentity)| match is_plain(&file.name) {
            true => Ok(NamedFile { name: file.name.clone(), identity }),
            false => Err(Error::argument(format!("\"{}\" is no name that an archive can hold", file.name))),
        };
        Ok((all, self.files.iter().zip(identities).map(named).collect::<Result<_>>()?))
    }
}

/// The parts of a path that are names.
fn plain_parts(path: Option<&Path>) -> Vec<String> {
    let parts = path.into_iter().flat_map(Path::components);
    let names = parts.filter_map(|part| match part {
        PathPart::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    names.collect()
}
