//! From a source to a [`Reader`], through archives and deltas to their originals: what is found in an archive is opened by the original's own
//! parser, and a delta's base is looked for first. [`crate::open`] adds the folders.

use std::path::Path;
use std::sync::Arc;

use super::base::{Base, Candidate, Search};
use super::description::Description;
use super::open::{NamedSource, assemble};
use super::{ArchiveInfo, collection, info};
use crate::error::{Error, Hints, Kind, Result};
use crate::folder;
use crate::formats::{Input, Resolver, Wanted, detect, in_folder, zt};
use crate::index::Index;
use crate::limits::{Limits, Meter};
use crate::reader::Reader;
use crate::source::{Io, Source};

/// Archives inside archives that are opened.
const MOST_NESTED: usize = 4;

/// How to open a file. The defaults suit trusted and hostile files alike.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Memory map or positioned reads.
    pub io: Io,
    /// What the file may cost before it is trusted.
    pub limits: Limits,
    /// Skip the check of stored checksums on first access.
    pub skip_checksums: bool,
    /// Where the base of a delta is looked for, and those of the deltas below it: opened files, files and folders, in any order. Beside each delta they
    /// are looked for in any case. Files that are no deltas need none.
    pub bases: Vec<Candidate>,
    /// Keep mapped files open as well: tensors that are copied are then read, which is faster than copying them out of the map. Costs a file
    /// descriptor for as long as the reader, or an array over its map, lives.
    pub keep_open: bool,
    /// Memory of mapped files will be lent out to be written to ([`Source::lend_map`]), also after they are closed.
    #[doc(hidden)]
    pub lends_views: bool,
}

/// An archive, opened as the files of its original.
pub(crate) struct Unpacked {
    pub description: Description,
    pub files: Vec<NamedSource>,
    /// The bases of a delta.
    pub bases: Vec<Base>,
}

impl OpenOptions {
    /// The defaults with other limits.
    pub fn within(limits: &Limits) -> Self {
        OpenOptions { limits: limits.clone(), ..OpenOptions::default() }
    }

    /// Opens a file that is already in memory.
    pub fn open_bytes(&self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Reader> {
        self.open_source(Source::from_bytes(bytes))
    }

    /// Opens a file that is anything a source can be made of.
    pub fn open_source(&self, source: Source) -> Result<Reader> {
        self.open_shared(Arc::new(source))
    }

    /// Opens a file that others read as well.
    pub fn open_shared(&self, source: Arc<Source>) -> Result<Reader> {
        self.metered(|meter| self.read(self.input(source, meter), &mut Search::new(self, meter)))
    }

    /// Opens the files of one model that was found in a folder. Of those that are archived, their originals.
    pub(crate) fn open_files(&self, paths: &[impl AsRef<Path>]) -> Result<Reader> {
        self.metered(|meter| {
            let mut files = Vec::with_capacity(paths.len());
            for path in paths.iter().map(AsRef::as_ref) {
                let source = self.original(Arc::new(Source::open_regular(path, self.io)?), meter);
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                files.push((name.unwrap_or_default(), source.map_err(|error| error.with_path(path))?));
            }
            self.read_files(files, &mut Search::new(self, meter))
        })
    }

    /// Opens a file that describes tensors in boxes of others; these are looked for among the given ones, by name.
    pub(crate) fn open_boxes(&self, files: Vec<NamedSource>) -> Result<Reader> {
        self.metered(|meter| self.read_files(files, &mut Search::new(self, meter)))
    }

    /// Opens files, and counts what is decoded for their indexes while that is done.
    fn metered(&self, open: impl FnOnce(&Arc<Meter>) -> Result<Reader>) -> Result<Reader> {
        let meter = Arc::new(Meter::new(&self.limits));
        let reader = open(&meter);
        meter.stop();
        reader.inspect(|reader| reader.sources().iter().for_each(|file| file.forget_windows()))
    }

    /// Opens some files as one model; nothing is looked for beside them.
    pub(crate) fn read_files(&self, files: Vec<NamedSource>, search: &mut Search<'_>) -> Result<Reader> {
        self.read(Input::of_files(files, self.limits.clone())?, search)
    }

    fn read(&self, mut input: Input, search: &mut Search<'_>) -> Result<Reader> {
        let mut index = detect(&mut input)?;
        let mut archived = None;
        // An archive reads like its original. Archives of archives are legal, but not without end.
        for _ in 0..MOST_NESTED {
            let Some(description) = Description::find(&index) else {
                let limits = self.limits.clone();
                return Ok(Reader::new(self.files(input), index, archived, limits, !self.skip_checksums));
            };
            let (description, files) = (description?, self.files(input));
            archived.get_or_insert_with(|| info(&description, &files));
            let unpacked = self.assemble(description, &index, &files, search)?;
            if unpacked.description.format == collection::FORMAT && unpacked.files.len() > 1 {
                return self.read_each(unpacked.files, archived);
            }
            input = Input::of_files(unpacked.files, self.limits.clone())?;
            index = detect(&mut input)?;
        }
        Err(Error::new(Kind::Limit, format!("more than {MOST_NESTED} archives inside one another")))
    }

    /// Opens an archive as the files of its original, all of which are wanted.
    pub(crate) fn unpack(&self, path: &Path) -> Result<Unpacked> {
        let source = Source::open_within(path, self.io, &self.limits)?;
        self.unpack_all(source).map_err(|error| error.with_path(path))
    }

    /// Opens an archive in memory as the files of its original, all of which are wanted.
    pub(crate) fn unpack_bytes(&self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Unpacked> {
        self.unpack_all(Source::from_bytes(bytes))
    }

    fn unpack_all(&self, source: Source) -> Result<Unpacked> {
        let meter = Arc::new(Meter::new(&self.limits));
        let opened = self.unpack_source(Arc::new(source), &mut Search::new(self, &meter));
        meter.stop();
        let unpacked = opened?;
        let length = unpacked.files.iter().map(|(_, file)| file.len()).fold(0, u64::saturating_add);
        let stored = unpacked.files.first().map_or(0, |(_, file)| file.total_stored());
        self.limits.check_decoded(length, stored)?;
        Ok(unpacked)
    }

    /// Opens an archive that is a link in a chain of deltas.
    pub(crate) fn unpack_link(&self, path: &Path, search: &mut Search<'_>) -> Result<Unpacked> {
        let unpacked = self.unpack_source(Arc::new(Source::open_regular(path, self.io)?), search);
        unpacked.map_err(|error| error.with_path(path))
    }

    /// A shard of a model; of one that is archived, its original. `meter` counts what is decoded until it is stopped.
    fn original(&self, source: Arc<Source>, meter: &Arc<Meter>) -> Result<Arc<Source>> {
        if !zt::is_zt(&source.head(8)?) {
            return Ok(source);
        }
        let mut files = self.unpack_source(source, &mut Search::new(self, meter))?.files;
        match (files.pop(), files.is_empty()) {
            (Some((_, source)), true) => Ok(source),
            _ => Err(Error::malformed("a shard is an archive of several files")),
        }
    }

    /// What an archive or a delta says of itself; a delta's base is not needed for it.
    pub fn describe_archive(&self, path: &Path) -> Result<ArchiveInfo> {
        let source = Source::open_within(path, self.io, &self.limits)?;
        let described = self.index_archive(Arc::new(source), &Arc::new(Meter::new(&self.limits)));
        described
            .map(|(description, _, files)| info(&description, &files))
            .map_err(|error| error.with_path(path))
    }

    /// What a `.zt` file says of itself if it is an archive.
    pub(crate) fn describe(&self, source: Source) -> Result<Option<Description>> {
        let mut input = Input::new(source, self.io, self.limits.clone());
        Description::find(&detect(&mut input)?).transpose()
    }

    /// Opens a file that is no archive.
    pub(super) fn read_model(&self, mut input: Input) -> Result<Reader> {
        let index = detect(&mut input)?;
        // Archives inside a collection stay what they are: they could hold each other without end.
        if Description::find(&index).is_some() {
            return Err(Error::new(Kind::UnknownFormat, "an archive inside an archive of several files"));
        }
        Ok(Reader::new(self.files(input), index, None, self.limits.clone(), !self.skip_checksums))
    }

    /// What an archive says of itself besides what its original was.
    pub(super) fn archive_attributes(&self, source: &Arc<Source>) -> Result<crate::tensor::Attributes> {
        let (_, index, _) = self.index_archive(Arc::clone(source), &Arc::new(Meter::new(&self.limits)))?;
        Ok(index.attributes)
    }

    fn index_archive(
        &self,
        source: Arc<Source>,
        meter: &Arc<Meter>,
    ) -> Result<(Description, Index, Vec<Arc<Source>>)> {
        let mut input = self.input(source, meter);
        let index = detect(&mut input)?;
        let description = Description::find(&index).unwrap_or_else(|| {
            Err(Error::argument(format!("this is a {} file, not an archive", index.format)).with_hints(
                Hints::new(
                    "Make one with `ztensor::archive::archive`.",
                    "Make one with z4ai.safetensors.compress_file.",
                    "Make one with `ztensor archive`.",
                ),
            ))
        })?;
        Ok((description, index, self.files(input)))
    }

    fn unpack_source(&self, source: Arc<Source>, search: &mut Search<'_>) -> Result<Unpacked> {
        let (description, index, files) = self.index_archive(source, search.meter())?;
        self.assemble(description, &index, &files, search)
    }

    fn assemble(
        &self,
        description: Description,
        index: &Index,
        files: &[Arc<Source>],
        search: &mut Search<'_>,
    ) -> Result<Unpacked> {
        let folder = files.first().and_then(|file| file.path()).map(folder::folder_of);
        let bases = search.bases_of(&description, folder.as_deref())?;
        let files = assemble(&description, index, files, &bases, search.meter())?;
        Ok(Unpacked { description, files, bases })
    }

    fn input(&self, source: Arc<Source>, meter: &Arc<Meter>) -> Input {
        let resolver = self.through_archives(in_folder(source.path(), self.io), meter);
        Input::with_resolver(source, self.limits.clone(), resolver)
    }

    /// Finds what another resolver finds, and of a shard that is archived, under its own name or with `.zstn` added, its original.
    fn through_archives(&self, files: Resolver, meter: &Arc<Meter>) -> Resolver {
        let (options, meter) = (self.clone(), Arc::clone(meter));
        Box::new(move |name, wanted| {
            if wanted != Wanted::Shard {
                return files(name, wanted);
            }
            let source = match files(name, wanted) {
                Err(error) if error.kind() == Kind::NotFound => {
                    files(&format!("{name}.zstn"), wanted).map_err(|_| error)?
                }
                found => found?,
            };
            let path = source.path().map(Path::to_path_buf);
            options.original(source, &meter).map_err(|error| match path {
                Some(path) => error.with_path(&path),
                None => error,
            })
        })
    }

    /// The opened files. Once the headers are read, a map keeps the bytes by itself.
    fn files(&self, input: Input) -> Vec<Arc<Source>> {
        let files = input.into_files();
        if !self.keep_open {
            files.iter().for_each(|file| file.close_file(self.lends_views));
        }
        files
    }
}
