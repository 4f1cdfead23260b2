//! From a path (or bytes) to an indexed file: detection by content, with the extension only as a tie-break, and a good word for
//! files that are not model files at all.

use std::path::Path;
use std::sync::Arc;

use crate::archive::{ArchiveInfo, Base, Candidate, Description, NamedSource, Search, assemble};
use crate::error::{Error, Hints, Kind, Result};
use crate::folder::{self, Model};
use crate::formats::zt;
use crate::formats::{self, Input, PARSERS};
use crate::index::Index;
use crate::limits::{Limits, Meter};
use crate::reader::Reader;
use crate::source::{Io, Source};

/// Bytes of the file that detection looks at.
const HEAD: u64 = 4096;
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
}

impl OpenOptions {
    /// The defaults with other limits.
    pub fn within(limits: &Limits) -> Self {
        OpenOptions { limits: limits.clone(), ..OpenOptions::default() }
    }

    /// Opens a file, or the model in a folder.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref();
        if path.is_dir() {
            return self.open_model(&folder::only_model(path)?);
        }
        let source = Source::open_within(path, self.io, &self.limits)?;
        self.open_source(source).map_err(|error| error.with_path(path))
    }

    /// Opens a model that was found in a folder.
    pub fn open_model(&self, model: &Model) -> Result<Reader> {
        let Some(parts) = model.parts()? else { return self.open(model.path()) };
        let opened = self.metered(|meter| {
            let mut files = Vec::with_capacity(parts.len());
            for part in parts {
                let source = Source::open_regular(part, self.io)?;
                let source = match zt::is_zt(&source.head(8)?) {
                    true => self.open_shard(source, meter).map_err(|error| error.with_path(part))?,
                    false => Arc::new(source),
                };
                let name = part.file_name().map(|name| name.to_string_lossy().into_owned());
                files.push((name.unwrap_or_default(), source));
            }
            self.read_files(files, &mut Search::new(self, meter))
        });
        opened.map_err(|error| error.with_path(model.path()))
    }

    /// Opens a file that is already in memory.
    pub fn open_bytes(&self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Reader> {
        self.open_source(Source::from_bytes(bytes))
    }

    /// Opens a file that is anything a source can be made of.
    pub fn open_source(&self, source: Source) -> Result<Reader> {
        self.metered(|meter| self.read(self.input(source, meter), &mut Search::new(self, meter)))
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
        let meter = Arc::clone(search.meter());
        self.read(Input::of_files(files, self.io, self.limits.clone(), meter)?, search)
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
            archived.get_or_insert_with(|| ArchiveInfo::new(&description, &files));
            let unpacked = self.assemble(description, &index, &files, search)?;
            let meter = Arc::clone(search.meter());
            input = Input::of_files(unpacked.files, self.io, self.limits.clone(), meter)?;
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
        let opened = self.unpack_source(source, &mut Search::new(self, &meter));
        meter.stop();
        let unpacked = opened?;
        let length = unpacked.files.iter().map(|(_, file)| file.len()).fold(0, u64::saturating_add);
        let stored = unpacked.files.first().map_or(0, |(_, file)| file.total_stored());
        self.limits.check_decoded(length, stored)?;
        Ok(unpacked)
    }

    /// Opens an archive that is a link in a chain of deltas.
    pub(crate) fn unpack_link(&self, path: &Path, search: &mut Search<'_>) -> Result<Unpacked> {
        let unpacked = self.unpack_source(Source::open_regular(path, self.io)?, search);
        unpacked.map_err(|error| error.with_path(path))
    }

    /// Opens the original of an archived shard; `meter` counts what is decoded until it is stopped.
    pub(crate) fn open_shard(&self, source: Source, meter: &Arc<Meter>) -> Result<Arc<Source>> {
        let mut files = self.unpack_source(source, &mut Search::new(self, meter))?.files;
        match (files.pop(), files.is_empty()) {
            (Some((_, source)), true) => Ok(source),
            _ => Err(Error::malformed("a shard is an archive of several files")),
        }
    }

    /// What an archive or a delta says of itself; a delta's base is not needed for it.
    pub fn describe_archive(&self, path: &Path) -> Result<ArchiveInfo> {
        let described = self.index_archive(
            Source::open_within(path, self.io, &self.limits)?,
            &Arc::new(Meter::new(&self.limits)),
        );
        described
            .map(|(description, _, files)| ArchiveInfo::new(&description, &files))
            .map_err(|error| error.with_path(path))
    }

    /// What a `.zt` file says of itself if it is an archive.
    pub(crate) fn describe(&self, source: Source) -> Result<Option<Description>> {
        let mut input = Input::new(source, self.io, self.limits.clone());
        Description::find(&detect(&mut input)?).transpose()
    }

    fn index_archive(
        &self,
        source: Source,
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

    fn unpack_source(&self, source: Source, search: &mut Search<'_>) -> Result<Unpacked> {
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
        let base = search.base_of(&description, folder.as_deref())?;
        let files = assemble(&description, index, files, base.as_ref(), search.meter())?;
        Ok(Unpacked { description, files, base })
    }

    fn input(&self, source: Source, meter: &Arc<Meter>) -> Input {
        Input::metered(source, self.io, self.limits.clone(), Arc::clone(meter)).with_bases(&self.bases)
    }

    /// The opened files. Once the headers are read, a map keeps the bytes by itself.
    fn files(&self, input: Input) -> Vec<Arc<Source>> {
        let files = input.into_files();
        if !self.keep_open {
            files.iter().for_each(|file| file.close_file());
        }
        files
    }
}

/// An archive, opened as the files of its original.
pub(crate) struct Unpacked {
    pub description: Description,
    pub files: Vec<NamedSource>,
    /// The base of a delta.
    pub base: Option<Base>,
}

/// Opens a model file of any format, or the model in a folder.
///
/// ```
/// # fn main() -> ztensor::Result<()> {
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("model.zt");
/// # let mut writer = ztensor::Writer::create(&path)?; writer.add("weight", &[2, 2], &[1f32, 2.0, 3.0, 4.0])?; writer.finish()?;
/// let reader = ztensor::open(&path)?;
/// for (name, object) in reader.objects() {
///     println!("{name} {}", object.shape);
/// }
/// # Ok(())
/// # }
/// ```
pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
    OpenOptions::default().open(path)
}

fn detect(input: &mut Input) -> Result<Index> {
    let source = input.source();
    if source.is_empty() {
        return Err(Error::new(Kind::Truncated, "the file is empty").with_hint("Download or copy it again."));
    }
    let head = source.head(HEAD)?.into_owned();
    // A parser may put another source in its place.
    drop(source);
    if let Some(parser) = PARSERS.iter().find(|parser| (parser.matches)(&head, input)) {
        return (parser.index)(input);
    }
    // A download of a checkpoint that was cut off has lost the directory, and with it what tells which format it was.
    #[cfg(any(feature = "hdf5", feature = "npz", feature = "pytorch"))]
    if formats::zip::matches(&head) {
        formats::zip::members(&input.source(), &mut input.budget)?;
    }
    Err(formats::unknown(&head, input))
}
