//! From a path to an opened file, or to the model in a folder. What the file is, its content says (`formats::detect`).

use std::path::Path;
use std::sync::Arc;

pub use crate::archive::OpenOptions;

use crate::error::Result;
use crate::folder::{self, Model};
use crate::formats::may_have_boxes;
use crate::joined;
use crate::reader::Reader;
use crate::source::{Io, Source, checkpoint};

/// Files by name.
type NamedSources = Vec<(String, Arc<Source>)>;

impl OpenOptions {
    /// Opens a file, or the model in a folder.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref();
        if let Some(files) = checkpoint(path) {
            let files = files?.into_iter().map(|(name, source)| (name, Arc::new(source)));
            return self.open_joined(files.collect()).map_err(|error| error.with_path(path));
        }
        if path.is_dir() {
            return self.open_model(&folder::only_model(path)?);
        }
        let source = Source::open_within(path, self.io, &self.limits)?;
        self.open_source(source).map_err(|error| error.with_path(path))
    }

    /// Opens several files as one, each with the name that stands before its tensors' where two files have one of that name.
    pub fn open_joined(&self, files: Vec<(String, Arc<Source>)>) -> Result<Reader> {
        let named = |(name, source): (String, Arc<Source>)| {
            let opened = self.open_shared(source).map_err(|error| error.with_path(Path::new(&name)))?;
            Ok((name, opened))
        };
        let (described, files) = self.open_described(files)?;
        let mut parts: Vec<(String, Reader)> = described.into_iter().collect();
        parts.extend(files.into_iter().map(named).collect::<Result<Vec<_>>>()?);
        match (parts.pop(), parts.is_empty()) {
            (Some((_, only)), true) => Ok(only),
            (last, _) => {
                parts.extend(last);
                joined::join(parts, &self.limits, !self.skip_checksums)
            }
        }
    }

    /// Of files one of which describes tensors in boxes of others: that one, opened, and those that it does not need.
    fn open_described(&self, mut files: NamedSources) -> Result<(Option<(String, Reader)>, NamedSources)> {
        let describes = |(name, _): &(String, Arc<Source>)| may_have_boxes(name);
        let Some(place) = files.iter().position(describes).filter(|_| files.len() > 1) else {
            return Ok((None, files));
        };
        let (name, source) = files.remove(place);
        let folder = name.rfind('/').map_or("", |slash| &name[..=slash]);
        let beside = files
            .iter()
            .filter_map(|(other, source)| Some((other.strip_prefix(folder)?.to_owned(), Arc::clone(source))));
        let own = name[folder.len()..].to_owned();
        let all = std::iter::once((own, source)).chain(beside).collect();
        let reader = self.open_boxes(all).map_err(|error| error.with_path(Path::new(&name)))?;
        files.retain(|(_, file)| !reader.sources().iter().any(|used| Arc::ptr_eq(used, file)));
        Ok((Some((name, reader)), files))
    }

    /// Opens a model that was found in a folder.
    pub fn open_model(&self, model: &Model) -> Result<Reader> {
        match model.parts()? {
            None => self.open(model.path()),
            Some(parts) => self.open_files(parts).map_err(|error| error.with_path(model.path())),
        }
    }
}

impl Reader {
    /// Opens a file, choosing between a memory map and reads by where the file lies.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        OpenOptions::default().open(path)
    }

    /// Opens a file as a memory map.
    pub fn open_mmap(path: impl AsRef<Path>) -> Result<Reader> {
        OpenOptions { io: Io::Mmap, ..OpenOptions::default() }.open(path)
    }

    /// Opens a file that is already in memory.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Reader> {
        OpenOptions::default().open_bytes(bytes)
    }
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
