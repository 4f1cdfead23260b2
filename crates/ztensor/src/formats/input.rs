//! What a parser gets: the file, a budget, and a guarded way to open the files beside it (shards, external data), which lie in a folder or,
//! where the file comes out of an archive, in that archive.

use std::collections::HashMap;
use std::fmt;
use std::path::{Component as PathPart, Path};
use std::sync::Arc;

use super::resolver::{Resolver, Wanted, among, in_folder};
use crate::error::{Error, Result};
use crate::index::{FileId, Span};
use crate::limits::{Budget, Limits};
use crate::source::{Io, Source};

/// The input of a parser.
pub(crate) struct Input {
    files: Vec<Arc<Source>>,
    /// The files by their names.
    opened: HashMap<String, FileId>,
    resolver: Resolver,
    /// Names of files that make up one model together with this one, although none of them says so.
    parts: Option<Vec<String>>,
    /// The account that parsers charge before they allocate.
    pub budget: Budget,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Input {
    /// An input over one source, with the files of its folder beside it.
    pub(crate) fn new(source: Source, io: Io, limits: Limits) -> Self {
        let resolver = in_folder(source.path(), io);
        Input::with_resolver(Arc::new(source), limits, resolver)
    }

    /// An input over one source; the resolver finds the files beside it.
    pub(crate) fn with_resolver(source: Arc<Source>, limits: Limits, resolver: Resolver) -> Self {
        let name = source.path().and_then(Path::file_name).and_then(|name| name.to_str());
        let opened = name.map(|name| (name.to_owned(), FileId(0))).into_iter().collect();
        Input { files: vec![source], opened, resolver, parts: None, budget: Budget::new(limits) }
    }

    /// An input over the first of some files, which refers to the others by name. Nothing is looked for in a folder.
    pub(crate) fn of_files(files: Vec<(String, Arc<Source>)>, limits: Limits) -> Result<Self> {
        let mut files = files.into_iter();
        let (name, first) = files.next().ok_or_else(|| Error::malformed("a model without files"))?;
        let others: Vec<(String, Arc<Source>)> = files.collect();
        let parts = (!others.is_empty()).then(|| others.iter().map(|(name, _)| name.clone()).collect());
        let mut input = Input::with_resolver(first, limits, among(others));
        input.opened = HashMap::from([(name, FileId(0))]);
        input.parts = parts;
        Ok(input)
    }

    /// The other files of a model that is spread over files which do not refer to each other.
    pub(crate) fn parts(&self) -> Option<Vec<String>> {
        self.parts.clone()
    }

    /// The file that was asked for.
    pub(crate) fn source(&self) -> Arc<Source> {
        Arc::clone(&self.files[0])
    }

    /// The path of the file that was asked for, if it has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.files[0].path()
    }

    /// The extension of that path in lower case, or an empty string. A tie-break only: content decides.
    pub(crate) fn extension(&self) -> String {
        let extension = self.path().and_then(Path::extension).and_then(|e| e.to_str());
        extension.map(str::to_ascii_lowercase).unwrap_or_default()
    }

    /// One of the opened files.
    pub(crate) fn file(&self, file: FileId) -> Result<&Arc<Source>> {
        self.files
            .get(file.0 as usize)
            .ok_or_else(|| Error::malformed("a byte range names a file that is not open"))
    }

    /// A checked byte range of an opened file.
    pub(crate) fn span(&self, file: FileId, offset: u64, length: u64) -> Result<Span> {
        self.file(file)?.check(offset, length)?;
        Ok(Span { file, offset, length })
    }

    /// Opens a file in the same folder, by its plain name: no separators, no `..`, no leading dot.
    pub(crate) fn sibling(&mut self, name: &str) -> Result<FileId> {
        check_plain(name)?;
        self.find(name, Wanted::Sibling)
    }

    /// Opens a shard of the same model, by its plain name.
    pub(crate) fn shard(&mut self, name: &str) -> Result<FileId> {
        check_plain(name)?;
        self.find(name, Wanted::Shard)
    }

    /// Opens a file at a relative path beneath the folder of this one. Symbolic links may not lead out of it.
    pub(crate) fn beneath(&mut self, relative: &str) -> Result<FileId> {
        let path = Path::new(relative);
        let inside = path.components().all(|part| matches!(part, PathPart::Normal(_) | PathPart::CurDir));
        if relative.is_empty() || !inside || relative.contains(['\0', '\\']) {
            return Err(Error::malformed(format!(
                "\"{relative}\" does not name a file beneath the folder of this one"
            )));
        }
        let parts = path.components().filter(|part| matches!(part, PathPart::Normal(_)));
        let parts: Vec<&str> = parts.filter_map(|part| part.as_os_str().to_str()).collect();
        self.find(&parts.join("/"), Wanted::Beneath)
    }

    fn find(&mut self, name: &str, wanted: Wanted) -> Result<FileId> {
        if let Some(&found) = self.opened.get(name) {
            return Ok(found);
        }
        let source = (self.resolver)(name, wanted)?;
        let file = self.add_shared(source);
        self.opened.insert(name.to_owned(), file);
        Ok(file)
    }

    /// Adds bytes that a parser had to unpack first, such as a file inside an archive.
    pub(crate) fn add(&mut self, source: Source) -> FileId {
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
    pub(crate) fn into_files(self) -> Vec<Arc<Source>> {
        self.files
    }
}

fn check_plain(name: &str) -> Result<()> {
    let mut parts = Path::new(name).components();
    let plain = matches!((parts.next(), parts.next()), (Some(PathPart::Normal(_)), None));
    if !plain || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
        return Err(Error::malformed(format!("\"{name}\" is not a plain file name beside this file")));
    }
    Ok(())
}
