//! Reading headers that are strewn over a large file. A memory map brings sixteen pages around every header into the address space, and
//! takes them out again when it is closed; read through the file, a header costs one call, and its neighbours come with it.

use std::fs::File;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::Source;
use crate::error::Result;

/// Headers that begin on the same page are read at once, and with them as much of the next page as most headers reach into it.
const PAGE: usize = 4096;
const REACH: usize = 512;
/// Pages of a group.
const GROUP: usize = 256;
/// Pages that are kept.
const KEPT: usize = 1 << 14;
/// Smaller files are in the address space sooner than they are read.
const LARGE: u64 = 4 << 20;

/// Some bytes of a source: borrowed from memory, or a part of what was read at once.
#[derive(Clone)]
pub(crate) enum Piece<'a> {
    Borrowed(&'a [u8]),
    Shared(Rc<Vec<u8>>, Range<usize>),
}

impl<'a> Piece<'a> {
    /// A part of the piece, without copying.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Piece<'a>> {
        match self {
            Piece::Borrowed(bytes) => bytes.get(range).map(Piece::Borrowed),
            Piece::Shared(bytes, outer) => {
                let (start, end) =
                    (outer.start.checked_add(range.start)?, outer.start.checked_add(range.end)?);
                (start <= end && end <= outer.end).then(|| Piece::Shared(Rc::clone(bytes), start..end))
            }
        }
    }
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::Borrowed(bytes) => bytes,
            Piece::Shared(bytes, range) => bytes.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl From<Vec<u8>> for Piece<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Piece::Shared(Rc::new(bytes), range)
    }
}

/// Pages that lie side by side, as far as they were read.
type Group = Box<[OnceLock<Box<[u8]>>]>;

/// Reads headers of one source, on any number of threads. What was read is kept, because the headers of objects lie between the nodes of the trees
/// that lead to them.
pub(crate) struct HeaderReader<'a> {
    source: &'a Source,
    /// What pages are read from: the file behind the map, if there is a map.
    file: Option<Arc<File>>,
    /// All pages of the source; none where nothing is read past the map.
    groups: Box<[OnceLock<Group>]>,
    kept: AtomicUsize,
}

impl<'a> HeaderReader<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        let file = source.file().filter(|_| source.len() >= LARGE);
        let groups = if file.is_some() { source.len().div_ceil((GROUP * PAGE) as u64) } else { 0 };
        let groups = (0..groups).map(|_| OnceLock::new()).collect();
        HeaderReader { source, file, groups, kept: AtomicUsize::new(0) }
    }

    /// A range of the source.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Result<Piece<'_>> {
        self.source.check(offset, length)?;
        let start = (offset % PAGE as u64) as usize;
        if length <= (PAGE + REACH - start) as u64
            && let Some(page) = self.page(offset / PAGE as u64)?
            && let Some(bytes) = page.get(start..start + length as usize)
        {
            return Ok(Piece::Borrowed(bytes));
        }
        match self.source.slice(offset, length) {
            Some(bytes) => Ok(Piece::Borrowed(bytes)),
            None => Ok(self.source.bytes(offset, length)?.into_owned().into()),
        }
    }

    /// A page with what it reaches into the next, if it is or can be kept.
    fn page(&self, number: u64) -> Result<Option<&[u8]>> {
        let (Some(file), Some(group)) = (&self.file, self.groups.get(number as usize / GROUP)) else {
            return Ok(None);
        };
        let group = group.get_or_init(|| (0..GROUP).map(|_| OnceLock::new()).collect());
        let Some(slot) = group.get(number as usize % GROUP) else { return Ok(None) };
        if slot.get().is_none() {
            if self.kept.fetch_add(1, Ordering::Relaxed) >= KEPT {
                return Ok(None);
            }
            let begin = number * PAGE as u64;
            let count = self.source.len().saturating_sub(begin).min((PAGE + REACH) as u64);
            let mut bytes = vec![0; count as usize].into_boxed_slice();
            self.source.read_file(file, begin, &mut bytes)?;
            // Another thread may have been quicker; then its bytes are the ones.
            let _ = slot.set(bytes);
        }
        Ok(slot.get().map(|bytes| &**bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Io;

    #[test]
    fn headers_are_the_bytes_of_the_file_however_they_are_read() {
        let bytes: Vec<u8> = (0..LARGE as u32 / 4 + 700).flat_map(u32::to_le_bytes).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, &bytes).unwrap();
        for io in [Io::Mmap, Io::Read] {
            let source = Source::open(&path, io).unwrap();
            let reader = HeaderReader::new(&source);
            let end = bytes.len();
            for (offset, length) in [
                (0, 0),
                (0, 8),
                (4090, 12),
                (4090, 518),
                (4090, 519),
                (4096, 4096),
                (100, 5100),
                (end - 3, 3),
                (end, 0),
                (8, 8),
            ] {
                let piece = reader.read(offset as u64, length as u64).unwrap();
                assert!(*piece == bytes[offset..offset + length], "{length} bytes at {offset}");
                assert!(piece.part(1..length + 1).is_none());
                assert!(length == 0 || *piece.part(1..length).unwrap() == bytes[offset + 1..offset + length]);
            }
            assert!(reader.read(end as u64 - 2, 3).is_err());
        }
    }
}
