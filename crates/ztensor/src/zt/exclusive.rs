//! A file that is being changed: one descriptor, locked, from the look at its state to the last write. What the path leads to meanwhile is asked
//! only to say so when it is another file.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::formats::zt::archived::refuse_change;
use crate::formats::zt::journal::{self, Journal};
use crate::formats::zt::manifest::Manifest;
use crate::formats::zt::read::{self, Tail};
use crate::index::Edit;
use crate::limits::{Budget, Limits};
use crate::output::{Owner, disk, is_at, write_error};
use crate::source::{Source, is_url};

/// An existing `.zt` file that this process alone changes.
pub(super) struct Exclusive {
    file: File,
    path: PathBuf,
    owner: Owner,
}

/// Its last complete state.
pub(super) struct State {
    /// The file as it was read.
    pub source: Source,
    pub tail: Tail,
    /// The manifest's bytes, which raw entries are copied from.
    pub bytes: Vec<u8>,
    pub manifest: Manifest,
}

impl Exclusive {
    /// Opens and locks a file.
    pub(super) fn open(path: &Path) -> Result<Exclusive> {
        /// Replacements of the file between its opening and its locking.
        const ATTEMPTS: usize = 100;
        if is_url(path) {
            return Err(Error::unsupported("files are read by URL, and changed in folders only")
                .with_path(path)
                .with_hint("Download it, change that file, and upload it."));
        }
        for _ in 0..ATTEMPTS {
            #[allow(clippy::disallowed_methods, reason = "a journal protects what is changed in place")]
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .map_err(|cause| Error::io("cannot open for writing", path, cause))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => {
                    return Err(Error::new(Kind::Io, "another process is writing to this file")
                        .with_path(path)
                        .with_hint("Wait until it has finished."));
                }
                Err(std::fs::TryLockError::Error(cause)) => {
                    return Err(Error::io("cannot lock the file", path, cause));
                }
            }
            if is_at(&file, path) {
                return Ok(Exclusive { file, path: path.to_path_buf(), owner: Owner::current() });
            }
        }
        Err(Error::new(Kind::Io, "the file is replaced again and again").with_path(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Another handle of the same descriptor.
    pub(super) fn file(&self) -> Result<File> {
        self.file.try_clone().map_err(|cause| Error::io("cannot open for writing", &self.path, cause))
    }

    /// The bytes, read through the descriptor.
    pub(super) fn source(&self) -> Result<Source> {
        let source = Source::of_file(self.file()?, &self.path)?;
        if *source.head(8)? != *crate::formats::zt::MAGIC {
            return Err(Error::new(Kind::UnknownFormat, "this is not a .zt file of version 1")
                .with_path(&self.path)
                .with_hints(super::edit::CONVERT_FIRST));
        }
        Ok(source)
    }

    /// The last complete state. Where there is none to be trusted, the error says what to do.
    pub(super) fn state(&self) -> Result<State> {
        let named = |error: Error| error.with_path(&self.path);
        let source = self.source()?;
        let tail = read::Head::read(&source).and_then(|head| head.tail(&source)).map_err(named)?;
        // The rules are checked before anything is changed: what does not open is not appended to.
        let (bytes, manifest) =
            read::parse(&source, tail, &mut Budget::new(Limits::default())).map_err(named)?;
        refuse_change(&manifest.attributes).map_err(named)?;
        Ok(State { source, tail, bytes, manifest })
    }

    /// Announces a change behind a state: from now on the file holds that state, whatever follows it.
    pub(super) fn begin(&self, edit: Edit, tail: Tail) -> Result<()> {
        // A record of the same state stays as it is: it is needed, and a write may fail half-way.
        if self.journal()?.is_none_or(|journal| journal.tail != tail) {
            self.write_at(&Journal { edit, tail }.encode(), journal::OFFSET)?;
        }
        self.sync()?;
        // What an interrupted change left behind.
        self.cut(tail)
    }

    fn journal(&self) -> Result<Option<Journal>> {
        let mut record = journal::NONE;
        self.source()?.read_into(journal::OFFSET, &mut record)?;
        Ok(Journal::decode(&record))
    }

    /// Makes the state at the end of the file the state of the file. It must be on the disk.
    pub(super) fn commit(&self) -> Result<()> {
        let cleared = disk::write_at(&self.file, &journal::NONE, journal::OFFSET);
        cleared.and_then(|()| disk::sync(&self.file)).map_err(|cause| {
            Error::io("the last step of the change failed", &self.path, cause)
                .with_hint("The file is whole; it holds the state before the change or the one after it.")
        })
    }

    /// Takes back what was written behind a state; ends with a finished file.
    pub(super) fn abandon(&self, tail: Tail) -> Result<()> {
        self.cut(tail)?;
        // With the record gone, the end of the file counts; so it must be there first.
        self.sync()?;
        self.write_at(&journal::NONE, journal::OFFSET)?;
        self.sync()
    }

    /// Cuts off all behind a state, without a record.
    pub(super) fn shorten(&self, tail: Tail) -> Result<()> {
        self.cut(tail)?;
        self.sync()
    }

    /// Cuts off what no state ever referred to. Readers look no further than the state they opened.
    fn cut(&self, tail: Tail) -> Result<()> {
        if self.length()? > tail.end() {
            disk::set_len(&self.file, tail.end()).map_err(|cause| write_error(&self.path, cause))?;
        }
        Ok(())
    }

    pub(super) fn length(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        metadata
            .map(|metadata| metadata.len())
            .map_err(|cause| Error::io("cannot examine the file", &self.path, cause))
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        disk::write_at(&self.file, bytes, offset).map_err(|cause| write_error(&self.path, cause))
    }

    pub(super) fn sync(&self) -> Result<()> {
        disk::sync(&self.file).map_err(|cause| write_error(&self.path, cause))
    }

    /// Clears a tail that the new state does not refer to: gaps between blobs are zero bytes. The new state is complete without it, so a
    /// failure takes nothing away.
    pub(super) fn clear(&self, tail: Tail) {
        const PIECE: u64 = 1 << 20;
        let zeros = vec![0; (tail.end() - tail.offset).min(PIECE) as usize];
        let mut offset = tail.offset;
        while offset < tail.end() {
            let length = (tail.end() - offset).min(PIECE);
            if self.write_at(&zeros[..length as usize], offset).is_err() {
                return;
            }
            offset += length;
        }
    }

    /// Whether the path still leads to this file.
    pub(super) fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// The error for a file whose path leads elsewhere now.
    pub(super) fn displaced(&self) -> Error {
        let message = if self.path.exists() {
            "another file has taken the place of this one while it was being changed"
        } else {
            "the file was removed or renamed while it was being changed"
        };
        Error::new(Kind::Io, message).with_path(&self.path)
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if self.owner.is_current() {
            // Explicitly, because a forked process may hold the same descriptor, and with it the lock.
            let _ = self.file.unlock();
        }
    }
}
