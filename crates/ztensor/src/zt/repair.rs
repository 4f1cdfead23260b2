//! Recovery of the last complete state. A write that was cut off leaves bytes behind the last complete footer; looking backwards for that footer
//! finds the state before the write.

use std::fs::File;
use std::path::Path;

use super::MAGIC;
use super::append::open_for_writing;
use super::edit::CONVERT_FIRST;
use super::read::{self, Tail};
use crate::error::{Error, Kind, Result};
use crate::limits::{Budget, Limits};
use crate::output::write_error;
use crate::source::{Io, Source};

/// What [`repair`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Bytes of an incomplete write that were cut off; 0 when the file was complete.
    pub removed: u64,
    /// Tensors in the recovered state.
    pub tensors: usize,
}

/// Recovers the last complete state of a `.zt` file whose append or replacement was interrupted. A complete file is left as it is.
pub fn repair(path: impl AsRef<Path>) -> Result<Repair> {
    let path = path.as_ref();
    let file = open_for_writing(path)?;
    let removed = repair_open(&file, path)?;
    let source = Source::open(path, Io::Read)?;
    let tail = read::tail_at(&source, source.len())?;
    let index = read::load(&source, tail, &mut Budget::new(Limits::default()))?;
    Ok(Repair { removed, tensors: index.objects.len() })
}

/// Cuts off an incomplete write; returns how many bytes that was.
pub(super) fn repair_open(file: &File, path: &Path) -> Result<u64> {
    let source = Source::open(path, Io::Mmap)?;
    if source.slice(0, 8) != Some(MAGIC) {
        return Err(Error::new(Kind::UnknownFormat, "this is not a .zt file of version 1")
            .with_path(path)
            .with_hints(CONVERT_FIRST));
    }
    let complete = last_complete(&source).ok_or_else(|| {
        Error::new(
            Kind::Malformed,
            "no complete manifest was found, so there is no earlier state to go back to",
        )
        .with_path(path)
    })?;
    let removed = source.len() - complete.end();
    drop(source);
    if removed > 0 {
        file.set_len(complete.end())
            .and_then(|()| file.sync_all())
            .map_err(|cause| write_error(path, cause))?;
    }
    Ok(removed)
}

/// The manifest of a complete file, and where it lies.
pub(super) fn last_manifest(path: &Path) -> Result<(Vec<u8>, Tail)> {
    let source = Source::open(path, Io::Read)?;
    let tail = read::tail_at(&source, source.len()).map_err(|error| error.with_path(path))?;
    read::load(&source, tail, &mut Budget::new(Limits::default())).map_err(|error| error.with_path(path))?;
    Ok((source.bytes(tail.offset, tail.length)?.into_owned(), tail))
}

/// The last footer in the file behind which a whole, valid manifest lies.
fn last_complete(source: &Source) -> Option<Tail> {
    let bytes = source.slice(0, source.len())?;
    let mut end = bytes.len();
    loop {
        let found = memrchr(bytes.get(8..end)?, MAGIC)? + 8 + MAGIC.len();
        let valid = read::tail_at(source, found as u64)
            .and_then(|tail| read::load(source, tail, &mut Budget::new(Limits::default())).map(|_| tail));
        if let Ok(tail) = valid {
            return Some(tail);
        }
        end = found - 1;
    }
}

/// The last occurrence of a pattern.
fn memrchr(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).rposition(|window| window == pattern)
}
