//! From a path (or bytes) to an indexed file: detection by content, with the extension only as a tie-break, and a good word for
//! files that are not model files at all.

use std::path::{Component as PathPart, Path};
use std::sync::Arc;

use crate::archive::{ArchiveInfo, Description, assemble};
use crate::delta::Base;
use crate::error::{Error, Hints, Kind, Result};
use crate::formats::{self, Input, PARSERS};
use crate::index::Index;
use crate::limits::{Limits, Meter};
use crate::reader::Reader;
use crate::source::{Io, Source};

/// Bytes of the file that detection looks at.
const HEAD: u64 = 4096;
/// Archives inside archives that are opened.
const MOST_NESTED: usize = 4;
/// Deltas of deltas whose bases are looked up beside them.
const LONGEST_CHAIN: usize = 32;

/// How to open a file. The defaults suit trusted and hostile files alike.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Memory map or positioned reads.
    pub io: Io,
    /// What the file may cost before it is trusted.
    pub limits: Limits,
    /// Skip the check of stored checksums on first access.
    pub skip_checksums: bool,
    /// The base of a delta. Without one, a file of the right name and length beside the delta is taken. Files that are no deltas need none.
    pub base: Option<Arc<Reader>>,
    /// Keep mapped files open as well: tensors that are copied are then read, which is faster than copying them out of the map. Costs a file
    /// descriptor for as long as the reader, or an array over its map, lives.
    pub keep_open: bool,
}

impl OpenOptions {
    /// The defaults with other limits.
    pub fn within(limits: &Limits) -> Self {
        OpenOptions { limits: limits.clone(), ..OpenOptions::default() }
    }

    /// Opens a file.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader> {
        self.open_link(path.as_ref(), LONGEST_CHAIN)
    }

    /// Opens a file that is already in memory.
    pub fn open_bytes(&self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Reader> {
        self.read(Source::from_bytes(bytes), LONGEST_CHAIN)
    }

    /// Opens a file that is anything a source can be made of.
    pub fn open_source(&self, source: Source) -> Result<Reader> {
        self.read(source, LONGEST_CHAIN)
    }

    /// Opens a file that may be a delta with so many deltas below it.
    fn open_link(&self, path: &Path, links: usize) -> Result<Reader> {
        self.read(Source::open_within(path, self.io, &self.limits)?, links)
            .map_err(|error| error.with_path(path))
    }

    fn read(&self, source: Source, links: usize) -> Result<Reader> {
        let meter = Arc::new(Meter::new(&self.limits));
        let reader = self.index(source, links, &meter);
        meter.stop();
        reader.inspect(|reader| reader.sources().iter().for_each(|file| file.forget_windows()))
    }

    /// Indexes a file; `meter` counts what is decoded for it.
    fn index(&self, source: Source, links: usize, meter: &Arc<Meter>) -> Result<Reader> {
        let mut input = self.input(source, meter);
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
            let base = self.base_of(&description, &files, links)?;
            let source = assemble(&description, &index, &files, base.as_ref(), meter)?;
            input = self.input(source, meter);
            index = detect(&mut input)?;
        }
        Err(Error::new(Kind::Limit, format!("more than {MOST_NESTED} archives inside one another")))
    }

    /// Opens an archive as the bytes of its original; with it comes the base, if it is a delta.
    pub(crate) fn open_archive(&self, path: &Path) -> Result<(Description, Source, Option<Base>)> {
        self.open_original(Source::open_within(path, self.io, &self.limits)?)
            .map_err(|error| error.with_path(path))
    }

    /// The same, from memory.
    pub(crate) fn open_archive_bytes(
        &self,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<(Description, Source, Option<Base>)> {
        self.open_original(Source::from_bytes(bytes))
    }

    fn open_original(&self, source: Source) -> Result<(Description, Source, Option<Base>)> {
        let meter = Arc::new(Meter::new(&self.limits));
        let opened = self.read_archive(source, &meter);
        meter.stop();
        let (description, source, base) = opened?;
        // Whoever asks for the original wants all of it.
        self.limits.check_decoded(source.len(), source.total_stored())?;
        Ok((description, source, base))
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

    /// Opens an archive as the bytes of its original; `meter` counts what is decoded until it is stopped.
    pub(crate) fn read_archive(
        &self,
        source: Source,
        meter: &Arc<Meter>,
    ) -> Result<(Description, Source, Option<Base>)> {
        let (description, index, files) = self.index_archive(source, meter)?;
        let base = self.base_of(&description, &files, LONGEST_CHAIN)?;
        let source = assemble(&description, &index, &files, base.as_ref(), meter)?;
        Ok((description, source, base))
    }

    fn input(&self, source: Source, meter: &Arc<Meter>) -> Input {
        Input::metered(source, self.io, self.limits.clone(), Arc::clone(meter))
    }

    /// The opened files. Once the headers are read, a map keeps the bytes by itself.
    fn files(&self, input: Input) -> Vec<Arc<Source>> {
        let files = input.into_files();
        if !self.keep_open {
            files.iter().for_each(|file| file.close_file());
        }
        files
    }

    /// The base of a delta: the one that was given, or a file of its name and length beside the delta.
    fn base_of(
        &self,
        description: &Description,
        files: &[Arc<Source>],
        links: usize,
    ) -> Result<Option<Base>> {
        let Some((name, expected)) = &description.base else { return Ok(None) };
        if let Some(base) = &self.base {
            return Base::new(Arc::clone(base), name, *expected).map(Some);
        }
        let mut parts = Path::new(name).components();
        let plain = matches!((parts.next(), parts.next()), (Some(PathPart::Normal(_)), None));
        let folder = files.first().and_then(|file| file.path()).and_then(Path::parent);
        let beside = folder.map(|folder| folder.join(name)).filter(|path| plain && path.is_file());
        let (Some(path), Some(links)) = (beside, links.checked_sub(1)) else {
            return Err(Base::missing(name, *expected));
        };
        let reader = Source::open_regular(&path, self.io).and_then(|source| self.read(source, links));
        let reader = reader.map_err(|error| error.with_path(&path))?;
        Base::new(Arc::new(reader), name, *expected).map(Some)
    }
}

/// Opens a model file of any format.
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
