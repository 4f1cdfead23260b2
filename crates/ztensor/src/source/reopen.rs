//! Sources over a file that other processes may be changing: another look through the same descriptor, never through the path, which may lead to
//! another file by now.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::{Backing, Source, map};
use crate::error::{Error, Result};

/// The length of a file and the time of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub length: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// A file that is already open, read at positions.
    pub(crate) fn of_file(file: File, path: &Path) -> Result<Source> {
        let metadata = file.metadata().map_err(|cause| Error::io("cannot examine the file", path, cause))?;
        Ok(Source {
            backing: Backing::File(Arc::new(file)),
            length: metadata.len(),
            stored: None,
            path: Some(path.to_path_buf()),
            remote: false,
            file: Mutex::default(),
            version: None,
        })
    }

    /// What the file is like now; `None` for bytes that do not change, or whose file is closed.
    pub(crate) fn moment(&self) -> Result<Option<Moment>> {
        let Some(file) = self.open_file() else { return Ok(None) };
        let metadata = file.metadata().map_err(|cause| self.name(Error::from(cause)))?;
        Ok(Some(Moment { length: metadata.len(), modified: metadata.modified().ok() }))
    }

    /// The same file with the length it has now.
    pub(crate) fn refreshed(&self, mapped: bool) -> Result<Source> {
        let fail = |cause: std::io::Error| self.name(Error::from(cause));
        let file = self.open_file().ok_or_else(|| self.name(Error::truncated("the file is closed")))?;
        let length = file.metadata().map_err(fail)?.len();
        let mut source = Source {
            backing: Backing::File(Arc::clone(&file)),
            length,
            stored: None,
            path: self.path.clone(),
            remote: false,
            file: Mutex::default(),
            version: None,
        };
        if mapped && length > 0 {
            source.backing = Backing::Map(map::Map::new(&file, length).map_err(fail)?);
            source.file = Mutex::new(Some(file));
        }
        Ok(source)
    }

    /// Forgets the bytes from an offset on.
    pub(crate) fn narrow(&mut self, length: u64) {
        self.length = self.length.min(length);
    }

    fn open_file(&self) -> Option<Arc<File>> {
        match &self.backing {
            Backing::File(file) => Some(Arc::clone(file)),
            _ => self.file_behind_map(),
        }
    }
}
