//! Archives of files that are no one model, such as all files of a training checkpoint: weights, an optimizer's state, text. Opened, they are what the
//! files with tensors among them hold together.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::ArchiveInfo;
use super::open::NamedSource;
use super::opening::OpenOptions;
use super::original::Original;
use super::write::{Alone, ArchiveOptions, Stats, write_original};
use crate::error::{Error, Kind, Result};
use crate::formats::Input;
use crate::index::{Format, Index};
use crate::joined;
use crate::reader::Reader;
use crate::source::Source;
use crate::tensor::Attributes;
use crate::zt::Writer;

/// What such an archive says is the format of its original.
pub(super) const FORMAT: &str = "checkpoint";

/// The files of an archive, and what it says of itself besides.
pub struct Originals {
    /// The files by name; of an original in one file the name is empty or the file's.
    pub files: Vec<(String, Arc<Source>)>,
    /// The archive's own metadata.
    pub attributes: Attributes,
}

/// Archives files, each by its name, and metadata of the caller's beside them. The archive appears only when it is complete. One file that holds a
/// model becomes an archive like any other.
pub fn archive_files(
    files: Vec<(String, Arc<Source>)>,
    attributes: Attributes,
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let started = Instant::now();
    let opening = OpenOptions::within(&options.limits);
    let opened = |(name, source): &(String, Arc<Source>)| {
        let opened = opening.open_shared(Arc::clone(source)).ok();
        // Of a file that stands for others, and of an archive, the bytes are what counts.
        let plain = opened.filter(|reader| reader.archived().is_none() && reader.sources().len() == 1);
        let bare = || {
            let index = Index::new(Format::Zt, "");
            Reader::new(vec![Arc::clone(source)], index, None, options.limits.clone(), false)
        };
        (name.clone(), plain.unwrap_or_else(bare))
    };
    let parts: Vec<(String, Reader)> = files.iter().map(opened).collect();
    let single = match parts.as_slice() {
        [(_, only)] if only.is_empty() => {
            return Err(Error::argument("the file holds no tensors, so that there is nothing to archive"));
        }
        [(_, only)] => Some(only.format().name()),
        _ => None,
    };
    let reader = joined::join(parts, &options.limits, false)?;
    let original = Original::of_named(files);
    let mut writer = Writer::create(output)?;
    attributes.into_iter().for_each(|(key, value)| writer.set_attribute(key, value));
    let format = single.unwrap_or(FORMAT);
    let mut stats = write_original(&mut writer, (&reader, &original, format), &Alone, options, progress)?;
    stats.stored = writer.finish()?;
    stats.seconds = started.elapsed().as_secs_f64();
    Ok(stats)
}

impl OpenOptions {
    /// The files of the original of an archive or a delta, decoded as they are read.
    pub fn originals(&self, path: &Path) -> Result<Originals> {
        let source = Source::open_within(path, self.io, &self.limits)?;
        let attributes = self.archive_attributes(&Arc::new(source)).map_err(|error| error.with_path(path))?;
        Ok(Originals { files: self.unpack(path)?.files, attributes })
    }

    /// Opens the files of a collection, each by itself.
    pub(super) fn read_each(&self, files: Vec<NamedSource>, archived: Option<ArchiveInfo>) -> Result<Reader> {
        let mut parts = Vec::new();
        for (name, source) in files {
            let input = Input::of_files(vec![(name.clone(), source)], self.limits.clone())?;
            match self.read_model(input) {
                Ok(reader) => parts.push((name, reader)),
                // Text, an index of shards that are opened by themselves, or nothing at all.
                Err(error)
                    if matches!(error.kind(), Kind::UnknownFormat | Kind::NotFound | Kind::Truncated) => {}
                Err(error) => return Err(error.with_path(Path::new(&name))),
            }
        }
        let joined = joined::join(parts, &self.limits, !self.skip_checksums)?;
        Ok(joined.with_archived(archived))
    }
}
