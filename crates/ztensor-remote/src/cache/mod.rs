//! A folder of ranges that were fetched before, off unless somebody names one. Files are cut into blocks, each an entry of its own: written
//! aside and put in place in one step, so that several processes may share the folder, and checked when it is read, so that a damaged entry is
//! fetched again. The key holds what tells one state of a file from another: a changed file finds nothing here.

mod entry;
mod folder;

use std::ops::Range;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use ztensor::limits::parse_size;
use ztensor::{Error, Result};

use crate::fetch::{PART, fetch_part};
use crate::options::StorageOptions;
use crate::origin::Origin;
use folder::Folder;

/// Bytes of an entry. A slice of a few bytes costs as much, once; smaller ones would be many files for a large model.
pub(crate) const BLOCK: u64 = 1 << 20;
const _: () = assert!((PART as u64).is_multiple_of(BLOCK));
/// How much is kept where nobody says.
const DEFAULT_SIZE: u64 = 16 << 30;
/// The least that is worth the trouble.
const LEAST_SIZE: u64 = 8 << 20;

/// The cached part of one state of one file.
pub(crate) struct Cache {
    folder: &'static Folder,
    /// What entries are stored and checked under.
    key: [u8; 32],
    length: u64,
}

impl Cache {
    /// The cache of a file that was opened; `None` where none is wanted, or where nothing tells this state of the file from a later one.
    pub(crate) fn of(origin: &dyn Origin, length: u64, options: &StorageOptions) -> Result<Option<Cache>> {
        let Some((path, size)) = settings(options)? else { return Ok(None) };
        let Some(identity) = origin.identity() else { return Ok(None) };
        let folder = Folder::open(path, size)?;
        let key = Sha256::digest(format!("{length}\n{identity}")).into();
        Ok(Some(Cache { folder, key, length }))
    }

    /// Fills a buffer from the cache, and from the origin what is not there; that is kept.
    pub(crate) async fn fetch_part(&self, origin: &dyn Origin, offset: u64, part: &mut [u8]) -> Result<()> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for number in offset / BLOCK..(offset + part.len() as u64).div_ceil(BLOCK) {
            let block = self.span(number..number + 1);
            let length = (block.end - block.start) as usize;
            match (
                entry::read(&self.folder.entry(&self.key, number), &self.key, number, length)?,
                missing.last_mut(),
            ) {
                (Some(bytes), _) => copy_overlap(block.start, &bytes, offset, part),
                (None, Some(run)) if run.end == number => run.end += 1,
                (None, _) => missing.push(number..number + 1),
            }
        }
        for run in missing {
            let span = self.span(run.clone());
            let mut bytes = vec![0; (span.end - span.start) as usize];
            fetch_part(origin, span.start, &mut bytes).await?;
            for (number, block) in run.zip(bytes.chunks(BLOCK as usize)) {
                if let Some(_room) = self.folder.claim(entry::length(block.len()))? {
                    entry::write(&self.folder.entry(&self.key, number), &self.key, number, block)?;
                }
            }
            copy_overlap(span.start, &bytes, offset, part);
        }
        Ok(())
    }

    /// Where blocks lie in the file.
    fn span(&self, blocks: Range<u64>) -> Range<u64> {
        blocks.start * BLOCK..(blocks.end * BLOCK).min(self.length)
    }
}

/// Copies what some bytes of the file and a buffer have in common.
fn copy_overlap(start: u64, bytes: &[u8], offset: u64, part: &mut [u8]) {
    let from = start.max(offset);
    let to = (start + bytes.len() as u64).min(offset + part.len() as u64);
    if from < to {
        let piece = &bytes[(from - start) as usize..(to - start) as usize];
        part[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
    }
}

/// The folder and its size, as the options or the environment have them.
fn settings(options: &StorageOptions) -> Result<Option<(PathBuf, u64)>> {
    let setting = |name: &str, variable: &str| match options.get(name) {
        Some(given) => Some(given.to_string()),
        None => std::env::var(variable).ok(),
    };
    // An option may switch off what the environment asks for.
    let folder = setting("cache", "ZTENSOR_CACHE").filter(|path| !path.is_empty() && path != "false");
    let Some(folder) = folder else { return Ok(None) };
    let size = match setting("cache_size", "ZTENSOR_CACHE_SIZE").filter(|text| !text.is_empty()) {
        None => DEFAULT_SIZE,
        Some(text) => parse_size(&text).filter(|size| *size >= LEAST_SIZE).ok_or_else(|| {
            Error::argument(format!("\"{text}\" is no size of a cache of ranges")).with_hint(
                "Set ZTENSOR_CACHE_SIZE, or cache_size in storage_options, to a size of at least 8 MiB, such as 20GB.",
            )
        })?,
    };
    Ok(Some((PathBuf::from(folder), size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_copied() {
        let bytes: Vec<u8> = (10..20).collect();
        for (offset, length, expected) in [
            (12, 3, vec![12, 13, 14]),
            (8, 4, vec![0, 0, 10, 11]),
            (18, 4, vec![18, 19, 0, 0]),
            (30, 2, vec![0, 0]),
            (0, 2, vec![0, 0]),
        ] {
            let mut part = vec![0; length];
            copy_overlap(10, &bytes, offset, &mut part);
            assert_eq!(part, expected, "{offset}");
        }
    }

    #[test]
    fn options_are_read_and_checked() {
        let given = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            settings(&StorageOptions::new(pairs).unwrap())
        };
        let named = given(&[("cache", "/c"), ("cache_size", "20 MB")]).unwrap();
        assert_eq!(named, Some((PathBuf::from("/c"), 20_000_000)));
        assert_eq!(given(&[("cache", "false")]).unwrap(), None);
        assert_eq!(given(&[("cache", "")]).unwrap(), None);
        for size in ["much", "4 MB", "-1"] {
            assert!(given(&[("cache", "/c"), ("cache_size", size)]).is_err(), "{size}");
        }
    }
}
