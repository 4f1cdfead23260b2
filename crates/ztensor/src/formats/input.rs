//! What a parser gets: the file, a budget, and a guarded way to open the files beside it (shards, external data).

use std::collections::HashMap;
use std::path::{Component as PathPart, Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::index::{FileId, Span};
use crate::limits::{Budget, Limits, Meter};
use crate::open::OpenOptions;
use crate::source::{Io, Source, is_url};
use crate::zt;

/// The input of a parser.
#[derive(Debug)]
pub struct Input {
    files: Vec<Arc<Source>>,
    /// The files by their paths.
    opened: HashMap<PathBuf, FileId>,
    io: Io,
    meter: Arc<Meter>,
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
        let opened = source.path().map(|path| (path.to_path_buf(), FileId(0))).into_iter().collect();
        Input { files: vec![Arc::new(source)], opened, io, meter, budget: Budget::new(limits) }
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
        self.open_file(path)
    }

    fn sibling_path(&self, name: &str) -> Result<PathBuf> {
        let mut parts = Path::new(name).components();
        let plain = matches!((parts.next(), parts.next()), (Some(PathPart::Normal(_)), None));
        if !plain || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(Error::malformed(format!("\"{name}\" is not a plain file name beside this file")));
        }
        Ok(self.folder(name)?.join(name))
    }

    /// The same for a shard of a model; of one that is archived, its original.
    pub(crate) fn shard(&mut self, name: &str) -> Result<FileId> {
        let path = self.sibling_path(name)?;
        if let Some(&found) = self.opened.get(&path) {
            return Ok(found);
        }
        let mut source = Source::open_regular(&path, self.io)?;
        if zt::matches(&source.head(8)?, self) {
            let options =
                OpenOptions { io: self.io, limits: self.budget.limits().clone(), ..OpenOptions::default() };
            let (_, original, _) =
                options.read_archive(source, &self.meter).map_err(|error| error.with_path(&path))?;
            source = original;
        }
        Ok(self.add_named(path, source))
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
        self.files.push(Arc::new(source));
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
