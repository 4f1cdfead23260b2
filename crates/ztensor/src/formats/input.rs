//! What a parser gets: the file, a budget, and a guarded way to open the files beside it (shards, external data), which lie in a folder or,
//! where the file comes out of an archive, in that archive.

use std::collections::HashMap;
use std::path::{Component as PathPart, Path, PathBuf};
use std::sync::Arc;

use super::zt;
use crate::archive::Candidate;
use crate::error::{Error, Kind, Result};
use crate::index::{FileId, Span};
use crate::limits::{Budget, Limits, Meter};
use crate::open::OpenOptions;
use crate::source::{Io, Source, is_url};

/// The input of a parser.
#[derive(Debug)]
pub struct Input {
    files: Vec<Arc<Source>>,
    /// The files by their paths.
    opened: HashMap<PathBuf, FileId>,
    io: Io,
    meter: Arc<Meter>,
    /// The other files of the model, by name, where they are not to be looked for in a folder.
    given: Option<HashMap<String, Arc<Source>>>,
    /// Names of files that make up one model together with this one, although none of them says so.
    parts: Option<Vec<String>>,
    /// Where the bases of shards that are deltas are looked for.
    bases: Vec<Candidate>,
    /// The account that parsers charge before they allocate.
    pub budget: Budget,
}

impl Input {
    /// An input over one source.
    pub fn new(source: Source, io: Io, limits: Limits) -> Self {
        let meter = Arc::new(Meter::new(&limits));
        Input::metered(source, io, limits, meter)
    }

    /// The same; `meter` counts what is decoded while the input is indexed.
    pub(crate) fn metered(source: Source, io: Io, limits: Limits, meter: Arc<Meter>) -> Self {
        Input::over(Arc::new(source), io, limits, meter)
    }

    fn over(source: Arc<Source>, io: Io, limits: Limits, meter: Arc<Meter>) -> Self {
        let opened = source.path().map(|path| (path.to_path_buf(), FileId(0))).into_iter().collect();
        let budget = Budget::new(limits);
        Input { files: vec![source], opened, io, meter, given: None, parts: None, bases: Vec::new(), budget }
    }

    /// An input over the first of some files, which refers to the others by name. Nothing is looked for in a folder.
    pub(crate) fn of_files(
        files: Vec<(String, Arc<Source>)>,
        io: Io,
        limits: Limits,
        meter: Arc<Meter>,
    ) -> Result<Self> {
        let mut files = files.into_iter();
        let (_, first) = files.next().ok_or_else(|| Error::malformed("a model without files"))?;
        let mut input = Input::over(first, io, limits, meter);
        let others: Vec<(String, Arc<Source>)> = files.collect();
        input.parts = (!others.is_empty()).then(|| others.iter().map(|(name, _)| name.clone()).collect());
        input.given = Some(others.into_iter().collect());
        Ok(input)
    }

    /// Says where the bases of shards that are deltas are looked for.
    pub(crate) fn with_bases(mut self, bases: &[Candidate]) -> Self {
        self.bases = bases.to_vec();
        self
    }

    /// The other files of a model that is spread over files which do not refer to each other.
    pub(crate) fn parts(&self) -> Option<Vec<String>> {
        self.parts.clone()
    }

    /// The file that was asked for.
    pub fn source(&self) -> Arc<Source> {
        Arc::clone(&self.files[0])
    }

    /// The path of the file that was asked for, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.files[0].path()
    }

    /// The extension of that path in lower case, or an empty string. A tie-break only: content decides.
    pub fn extension(&self) -> String {
        let extension = self.path().and_then(Path::extension).and_then(|e| e.to_str());
        extension.map(str::to_ascii_lowercase).unwrap_or_default()
    }

    /// One of the opened files.
    pub fn file(&self, file: FileId) -> Result<&Arc<Source>> {
        self.files
            .get(file.0 as usize)
            .ok_or_else(|| Error::malformed("a byte range names a file that is not open"))
    }

    /// A checked byte range of an opened file.
    pub fn span(&self, file: FileId, offset: u64, length: u64) -> Result<Span> {
        self.file(file)?.check(offset, length)?;
        Ok(Span { file, offset, length })
    }

    /// Opens a file in the same folder, by its plain name: no separators, no `..`, no leading dot.
    pub fn sibling(&mut self, name: &str) -> Result<FileId> {
        let path = self.sibling_path(name)?;
        match self.given.is_some() {
            true => self.take_given(name),
            false => self.open_file(path),
        }
    }

    fn sibling_path(&self, name: &str) -> Result<PathBuf> {
        let mut parts = Path::new(name).components();
        let plain = matches!((parts.next(), parts.next()), (Some(PathPart::Normal(_)), None));
        if !plain || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(Error::malformed(format!("\"{name}\" is not a plain file name beside this file")));
        }
        match self.given {
            Some(_) => Ok(PathBuf::from(name)),
            None => Ok(self.folder(name)?.join(name)),
        }
    }

    /// The same for a shard of a model; of one that is archived, under its own name or with `.zstn` added, its original.
    pub(crate) fn shard(&mut self, name: &str) -> Result<FileId> {
        let mut path = self.sibling_path(name)?;
        if self.given.is_some() {
            return self.take_given(name);
        }
        if let Some(&found) = self.opened.get(&path) {
            return Ok(found);
        }
        let source = match Source::open_regular(&path, self.io) {
            Err(error) if error.kind() == Kind::NotFound => {
                path = self.sibling_path(&format!("{name}.zstn"))?;
                Source::open_regular(&path, self.io).map_err(|_| error)?
            }
            found => found?,
        };
        if zt::is_zt(&source.head(8)?) {
            let options = OpenOptions {
                io: self.io,
                limits: self.budget.limits().clone(),
                bases: self.bases.clone(),
                ..OpenOptions::default()
            };
            let original = options.open_shard(source, &self.meter).map_err(|error| error.with_path(&path))?;
            let file = self.add_shared(original);
            self.opened.insert(path, file);
            return Ok(file);
        }
        Ok(self.add_named(path, source))
    }

    /// One of the files that were given with this one.
    fn take_given(&mut self, name: &str) -> Result<FileId> {
        let source = self.given.as_ref().and_then(|given| given.get(name)).cloned();
        let source = source
            .ok_or_else(|| Error::new(Kind::NotFound, format!("the archive has no file \"{name}\"")))?;
        match self.files.iter().position(|file| Arc::ptr_eq(file, &source)) {
            Some(found) => Ok(FileId(found as u32)),
            None => Ok(self.add_shared(source)),
        }
    }

    /// Opens a file at a relative path beneath the folder of this one. Symbolic links may not lead out of it.
    pub fn beneath(&mut self, relative: &str) -> Result<FileId> {
        let path = Path::new(relative);
        let inside = path.components().all(|part| matches!(part, PathPart::Normal(_) | PathPart::CurDir));
        if relative.is_empty() || !inside || relative.contains(['\0', '\\']) {
            return Err(Error::malformed(format!(
                "\"{relative}\" does not name a file beneath the folder of this one"
            )));
        }
        if self.given.is_some() {
            let parts = path.components().filter(|part| matches!(part, PathPart::Normal(_)));
            let parts: Vec<&str> = parts.filter_map(|part| part.as_os_str().to_str()).collect();
            return self.take_given(&parts.join("/"));
        }
        let folder = self.folder(relative)?;
        let full = folder.join(path);
        if is_url(&folder) {
            // There are no links to lead out of a bucket.
            return self.open_file(full);
        }
        let real =
            |p: &Path| p.canonicalize().map_err(|cause| Error::io("cannot find the external data", p, cause));
        if !real(&full)?.starts_with(real(&folder)?) {
            return Err(Error::malformed(format!("\"{relative}\" leads out of the folder of this file"))
                .with_path(&full));
        }
        self.open_file(full)
    }

    fn folder(&self, wanted: &str) -> Result<PathBuf> {
        let Some(path) = self.path() else {
            return Err(Error::new(
                Kind::Unsupported,
                format!("the data refers to another file, \"{wanted}\""),
            )
            .with_hint("Open it by path, not from memory."));
        };
        Ok(match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        })
    }

    fn open_file(&mut self, path: PathBuf) -> Result<FileId> {
        if let Some(&found) = self.opened.get(&path) {
            return Ok(found);
        }
        let source = Source::open_regular(&path, self.io)?;
        Ok(self.add_named(path, source))
    }

    fn add_named(&mut self, path: PathBuf, source: Source) -> FileId {
        let file = self.add(source);
        self.opened.insert(path, file);
        file
    }

    /// Adds bytes that a parser had to unpack first, such as a file inside an archive.
    pub fn add(&mut self, source: Source) -> FileId {
        self.add_shared(Arc::new(source))
    }

    fn add_shared(&mut self, source: Arc<Source>) -> FileId {
        self.files.push(source);
        FileId((self.files.len() - 1) as u32)
    }

    /// Looks at the file that was asked for once more, because it has changed.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let mapped = self.files[0].is_addressable();
        self.files[0] = Arc::new(self.files[0].refreshed(mapped)?);
        Ok(())
    }

    /// Forgets what lies behind the state of the file that was asked for.
    pub(crate) fn narrow(&mut self, length: u64) {
        if let Some(source) = Arc::get_mut(&mut self.files[0]) {
            source.narrow(length);
        }
    }

    /// The opened files, by [`FileId`].
    pub fn into_files(self) -> Vec<Arc<Source>> {
        self.files
    }
}
