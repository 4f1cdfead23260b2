//! Reading headers that are strewn over a large file. A memory map brings sixteen pages around every header into the address space, and
//! takes them out again when it is closed; read through the file, a header costs one call, and its neighbours come with it.

use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::rc::Rc;

use super::Source;
use crate::error::Result;

/// Bytes that are read at once.
const WINDOW: usize = 4096;
/// Smaller files are in the address space sooner than they are read.
const LARGE: u64 = 4 << 20;

/// Some bytes of a source: borrowed from memory, or a part of what was read at once.
#[derive(Clone)]
pub(crate) enum Piece<'a> {
    Borrowed(&'a [u8]),
    Shared(Rc<[u8]>, Range<usize>),
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
        Piece::Shared(bytes.into(), range)
    }
}

/// Reads headers of one source.
pub(crate) struct HeaderReader<'a> {
    source: &'a Source,
    strewn: bool,
    /// What was read last, and where it begins.
    window: RefCell<(u64, Rc<[u8]>)>,
}

impl<'a> HeaderReader<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        let strewn = source.len() >= LARGE && source.reads_directly();
        HeaderReader { source, strewn, window: RefCell::new((0, Rc::from([]))) }
    }

    /// A range of the source.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Result<Piece<'a>> {
        self.source.check(offset, length)?;
        let wanted = usize::try_from(length).unwrap_or(usize::MAX);
        if !self.strewn || wanted > WINDOW {
            return match self.source.slice(offset, length) {
                Some(bytes) => Ok(Piece::Borrowed(bytes)),
                None => Ok(self.source.bytes(offset, length)?.into_owned().into()),
            };
        }
        let mut window = self.window.borrow_mut();
        if let Some(piece) = within(&window, offset, wanted) {
            return Ok(piece);
        }
        // Neighbours lie before as often as behind, so the window begins at a page.
        let page = offset - offset % WINDOW as u64;
        let start = if offset - page + length <= WINDOW as u64 { page } else { offset };
        let count = WINDOW.min(usize::try_from(self.source.len() - start).unwrap_or(WINDOW));
        // The buffer is taken again unless somebody still holds a part of it.
        if window.1.len() != count || Rc::get_mut(&mut window.1).is_none() {
            window.1 = vec![0; count].into();
        }
        let buffer = Rc::get_mut(&mut window.1).unwrap_or_default();
        self.source.read_directly(start, buffer)?;
        window.0 = start;
        Ok(within(&window, offset, wanted).unwrap_or(Piece::Borrowed(&[])))
    }
}

fn within<'a>((start, bytes): &(u64, Rc<[u8]>), offset: u64, length: usize) -> Option<Piece<'a>> {
    let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
    let end = from.checked_add(length).filter(|end| *end <= bytes.len())?;
    Some(Piece::Shared(Rc::clone(bytes), from..end))
}
