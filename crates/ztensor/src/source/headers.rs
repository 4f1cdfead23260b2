//! Reading headers that are strewn over a large file. A memory map brings sixteen pages around every header into the address space, and
//! takes them out again when it is closed; read through the file, a header costs one call, and its neighbours come with it.

use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::rc::Rc;

use super::Source;
use crate::error::Result;

/// Bytes that are read at once.
const PAGE: usize = 4096;
/// Pages that are kept: headers that are neighbours in the file need not be neighbours in the order of the walk.
const KEPT: usize = 64;
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

/// A page's number and its bytes.
type Page = (u64, Rc<Vec<u8>>);

/// Reads headers of one source.
pub(crate) struct HeaderReader<'a> {
    source: &'a Source,
    /// Pages read so far, each at its number modulo their count; empty where nothing is read past the map.
    pages: RefCell<Vec<Option<Page>>>,
}

impl<'a> HeaderReader<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        let strewn = source.len() >= LARGE && source.reads_directly();
        HeaderReader { source, pages: RefCell::new(vec![None; if strewn { KEPT } else { 0 }]) }
    }

    /// A range of the source.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Result<Piece<'a>> {
        self.source.check(offset, length)?;
        let mut pages = self.pages.borrow_mut();
        let (number, start) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
        let slot = pages.get_mut(number as usize % KEPT);
        let (Some(slot), true) = (slot, length <= PAGE as u64) else {
            return match self.source.slice(offset, length) {
                Some(bytes) => Ok(Piece::Borrowed(bytes)),
                None => Ok(self.source.bytes(offset, length)?.into_owned().into()),
            };
        };
        let range = start..start + length as usize;
        if range.end > PAGE {
            // It goes on on the next page.
            return self.fetch(offset, length as usize).map(Piece::from);
        }
        if let Some((known, page)) = slot
            && *known == number
        {
            return Ok(Piece::Shared(Rc::clone(page), range));
        }
        let begin = number * PAGE as u64;
        let count = (self.source.len() - begin).min(PAGE as u64) as usize;
        // The memory of the page that makes room serves again, unless a piece of it is still in use.
        let old = slot.take().and_then(|(_, page)| Rc::try_unwrap(page).ok());
        let mut bytes = old.unwrap_or_default();
        bytes.resize(count, 0);
        self.source.read_directly(begin, &mut bytes)?;
        let page = Rc::new(bytes);
        *slot = Some((number, Rc::clone(&page)));
        Ok(Piece::Shared(page, range))
    }

    fn fetch(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.source.read_directly(offset, &mut bytes)?;
        Ok(bytes)
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
            for (offset, length) in
                [(0, 0), (0, 8), (4090, 12), (4096, 4096), (100, 5000), (end - 3, 3), (end, 0), (8, 8)]
            {
                let piece = reader.read(offset as u64, length as u64).unwrap();
                assert!(*piece == bytes[offset..offset + length], "{length} bytes at {offset}");
                assert!(piece.part(1..length + 1).is_none());
                assert!(length == 0 || *piece.part(1..length).unwrap() == bytes[offset + 1..offset + length]);
            }
            assert!(reader.read(end as u64 - 2, 3).is_err());
        }
    }
}
