//! Reading headers that are strewn over a large file. A memory map brings sixteen pages around every header into the address space, and
//! takes them out again when it is closed; read through the file, a header costs one call, and its neighbours come with it.

use std::fs::File;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::Source;
use crate::error::Result;

/// What is read at once: a little before a header and more behind it, because headers lie in clusters of about two kilobytes, which begin anywhere.
const BEFORE: u64 = 1 << 10;
const BEHIND: u64 = 3 << 10;
/// The part of a source whose windows form one list.
const REGION: u64 = 1 << 16;
/// Windows that are kept.
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

/// Bytes that were read at once, and the next such window of the region. Lists only grow, so that what was lent from them stays.
struct Window {
    start: u64,
    bytes: Box<[u8]>,
    next: OnceLock<Box<Window>>,
}

impl Window {
    fn part(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }
}

/// Reads headers of one source, on any number of threads. What was read is kept, because the headers of objects lie between the nodes of the trees
/// that lead to them.
pub(crate) struct HeaderReader<'a> {
    source: &'a Source,
    /// What windows are read from: the file behind the map, if there is a map.
    file: Option<Arc<File>>,
    /// The windows of each region; none where nothing is read past the map.
    regions: Box<[OnceLock<Box<Window>>]>,
    kept: AtomicUsize,
}

impl<'a> HeaderReader<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        let file = source.file().filter(|_| source.len() >= LARGE);
        let regions = if file.is_some() { source.len().div_ceil(REGION) } else { 0 };
        let regions = (0..regions).map(|_| OnceLock::new()).collect();
        HeaderReader { source, file, regions, kept: AtomicUsize::new(0) }
    }

    /// A range of the source.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Result<Piece<'_>> {
        self.source.check(offset, length)?;
        if let Some(bytes) = self.kept(offset, length)? {
            return Ok(Piece::Borrowed(bytes));
        }
        match self.source.slice(offset, length) {
            Some(bytes) => Ok(Piece::Borrowed(bytes)),
            None => Ok(self.source.bytes(offset, length)?.into_owned().into()),
        }
    }

    /// A range from a window, if one is or can be kept that holds it.
    fn kept(&self, offset: u64, length: u64) -> Result<Option<&[u8]>> {
        let (Some(file), Some(mut place)) = (&self.file, self.regions.get((offset / REGION) as usize)) else {
            return Ok(None);
        };
        while let Some(window) = place.get() {
            if let Some(bytes) = window.part(offset, length) {
                return Ok(Some(bytes));
            }
            place = &window.next;
        }
        let grain = offset - offset % BEFORE;
        if offset + length > grain + BEHIND || self.kept.fetch_add(1, Ordering::Relaxed) >= KEPT {
            return Ok(None);
        }
        let start = grain.saturating_sub(BEFORE);
        let count = (grain + BEHIND).min(self.source.len()) - start;
        let mut bytes = vec![0; count as usize].into_boxed_slice();
        self.source.read_file(file, start, &mut bytes)?;
        let mut window = Box::new(Window { start, bytes, next: OnceLock::new() });
        // Another thread may have added to the list meanwhile.
        while let Err(again) = place.set(window) {
            window = again;
            let Some(last) = place.get() else { return Ok(None) };
            place = &last.next;
        }
        Ok(place.get().and_then(|window| window.part(offset, length)))
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
                (4090, 2054),
                (4090, 2055),
                (4096, 4096),
                (2100, 2000),
                (65530, 12),
                (65530, 2000),
                (65536, 3),
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
