//! Appending. New blobs go behind the old footer, announced by a journal record; the old state is what the file holds until the new one is on
//! disk as a whole. A process that is killed, a disk that is full and a machine that loses power leave the old state, which readers find through
//! the record.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::exclusive::{Exclusive, State};
use crate::error::{Error, Result};
use crate::formats::zt::journal;
use crate::formats::zt::manifest::Item;
use crate::index::Edit;
use crate::output::Output;
use crate::tensor::Attributes;

/// What an append keeps of the file that was there before.
pub(super) struct Append {
    file: Exclusive,
    state: State,
    names: HashMap<String, ()>,
    /// Whether the record was written and there is something to take back.
    announced: bool,
}

impl Append {
    /// Opens and locks a file and positions an output behind its last complete state.
    pub(super) fn open(path: &Path) -> Result<(Output, Attributes, Append)> {
        let file = Exclusive::open(path)?;
        let state = file.state()?;
        let names = state.manifest.entries.iter().map(|entry| (entry.name.clone(), ())).collect();
        let attributes = state.manifest.attributes.clone();
        let tail = state.tail;
        let mut append = Append { file, state, names, announced: false };
        if tail.offset < journal::END {
            // No tensor is there, and no room for a record: the file is replaced.
            let mut output = Output::create(path)?;
            output.write(&append.state.source.bytes(0, tail.offset)?)?;
            return Ok((output, attributes, append));
        }
        append.announced = true;
        append.file.begin(Edit::Append, tail)?;
        let output = Output::extend(append.file.file()?, path, tail.end());
        Ok((output, attributes, append))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The old objects, as they stand in the old manifest.
    pub(super) fn items(&self) -> impl Iterator<Item = (&str, Item<'_>)> {
        let State { manifest, bytes, .. } = &self.state;
        manifest.entries.iter().map(|entry| (entry.name.as_str(), Item::Raw(&bytes[entry.raw.clone()])))
    }

    pub(super) fn unknown(&self) -> &[(String, Vec<u8>)] {
        &self.state.manifest.unknown
    }

    /// Makes the new state, whose blobs and tail have been written, the state of the file.
    pub(super) fn commit(mut self, mut output: Output) -> Result<()> {
        if !self.announced {
            if !self.file.is_in_place() {
                return Err(self.file.displaced().with_hint("Nothing was changed; append again."));
            }
            return output.publish(true);
        }
        output.sync()?;
        self.file.owner().check()?;
        // Should this fail, the file holds the old state or the new one; either is complete.
        self.announced = false;
        self.file.commit()?;
        if !self.file.is_in_place() {
            return Err(self.keep_beside());
        }
        self.file.clear(self.state.tail);
        Ok(())
    }

    /// Copies the file, which its path no longer leads to, to a name beside it.
    fn keep_beside(&self) -> Error {
        let error = self.file.displaced();
        match self.copy_beside() {
            Ok(path) => error.with_hint(format!(
                "What it held and what was appended are kept in \"{}\"; the file that is there now was not touched.",
                path.display()
            )),
            Err(cause) => error.with_hint("What was appended could not be kept beside it.").with_cause(cause),
        }
    }

    fn copy_beside(&self) -> Result<PathBuf> {
        const PIECE: u64 = 16 << 20;
        let source = self.file.source()?;
        let path = beside(self.file.path());
        let mut output = Output::create(&path)?;
        let mut offset = 0;
        while offset < source.len() {
            let piece = source.bytes(offset, PIECE.min(source.len() - offset))?;
            output.write(&piece)?;
            offset += piece.len() as u64;
        }
        output.publish(true)?;
        Ok(path)
    }
}

/// A name that is free: `model.appended-1.zt` for `model.zt`, or with another number.
fn beside(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |number: u32| path.with_file_name(format!("{stem}.appended-{number}.zt"));
    let free = (1..u32::MAX).map(name).find(|path| path.symlink_metadata().is_err());
    free.unwrap_or_else(|| name(0))
}

impl Drop for Append {
    fn drop(&mut self) {
        if self.announced && self.file.owner().is_current() {
            // Should that fail, the record stays: readers see the old state, and the next write takes the rest back.
            let _ = self.file.abandon(self.state.tail);
        }
    }
}
