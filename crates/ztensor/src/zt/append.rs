//! Appending. New blobs go behind the old footer, so that the old state is complete on disk until the new footer is; only then is the old tail
//! cleared. A killed append leaves the old state for [`repair`](super::repair::repair), which the next append runs by itself.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::manifest::{Item, Manifest};
use super::read::Tail;
use super::repair;
use crate::archive::Description;
use crate::error::{Error, Kind, Result};
use crate::limits::{Budget, Limits};
use crate::output::{Output, write_error};
use crate::tensor::Attributes;

/// What an append keeps of the file that was there before.
pub(super) struct Append {
    path: PathBuf,
    file: File,
    tail: Tail,
    manifest: Vec<u8>,
    entries: Vec<(String, std::ops::Range<usize>)>,
    names: HashMap<String, ()>,
    unknown: Vec<(String, Vec<u8>)>,
    retired: bool,
}

impl Append {
    /// Opens and locks a file, repairs it if an earlier append was interrupted, and positions an output behind it.
    pub(super) fn open(path: &Path) -> Result<(Output, Attributes, Append)> {
        let file = open_for_writing(path)?;
        repair::repair_open(&file, path)?;
        let (manifest, tail) = repair::last_manifest(path)?;
        let parsed = Manifest::parse(&manifest, &mut Budget::new(Limits::default()))
            .and_then(|parsed| Description::refuse_change(&parsed.attributes).map(|()| parsed))
            .map_err(|error| error.with_path(path))?;
        let fail = |cause| Error::io("cannot open for appending", path, cause);
        let output = Output::extend(file.try_clone().map_err(fail)?, path)?;
        let names = parsed.entries.iter().map(|entry| (entry.name.clone(), ())).collect();
        let entries = parsed.entries.into_iter().map(|entry| (entry.name, entry.raw)).collect();
        let append = Append {
            path: path.to_path_buf(),
            file,
            tail,
            manifest,
            entries,
            names,
            unknown: parsed.unknown,
            retired: false,
        };
        Ok((output, parsed.attributes, append))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The old objects, as they stand in the old manifest.
    pub(super) fn items(&self) -> impl Iterator<Item = (&str, Item<'_>)> {
        self.entries.iter().map(|(name, raw)| (name.as_str(), Item::Raw(&self.manifest[raw.clone()])))
    }

    pub(super) fn unknown(&self) -> &[(String, Vec<u8>)] {
        &self.unknown
    }

    /// Clears the old tail, once the new one is on disk: gaps between blobs are zero bytes.
    pub(super) fn retire(mut self) -> Result<()> {
        self.retired = true;
        let zeros = vec![0; (self.tail.end() - self.tail.offset) as usize];
        write_at(&self.file, &zeros, self.tail.offset).map_err(|cause| write_error(&self.path, cause))
    }
}

impl Drop for Append {
    fn drop(&mut self) {
        if !self.retired {
            // Abandoned before its end: cut off what was written. Should that fail, the next append or repair does it.
            let _ = self.file.set_len(self.tail.end());
        }
    }
}

/// Opens an existing file for reading and writing, alone.
pub(super) fn open_for_writing(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|cause| Error::io("cannot open for writing", path, cause))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Error::new(Kind::Io, "another process is writing to this file")
                .with_path(path)
                .with_hint("Wait until it has finished."))
        }
        Err(std::fs::TryLockError::Error(cause)) => Err(Error::io("cannot lock the file", path, cause)),
    }
}

/// Writes at a position.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}
