//! Local heaps: one segment of NUL-terminated names per old group.

use std::ffi::CStr;

use super::super::image::Image;
use crate::error::{Error, Result};
use crate::source::headers::Piece;

/// The names of one group.
pub(in super::super) struct LocalHeap<'a> {
    address: u64,
    segment: Piece<'a>,
}

impl<'a> LocalHeap<'a> {
    pub fn read(image: &Image<'a>, address: u64) -> Result<LocalHeap<'a>> {
        let head = image.read(address, (8 + 2 * image.widths.length + image.widths.address) as u64)?;
        let mut cursor = image.cursor(&head, address, "local heap");
        cursor.signature(b"HEAP")?;
        cursor.version(0..=0)?;
        cursor.skip(3)?;
        let length = cursor.length()?;
        cursor.skip(image.widths.length)?;
        let address = cursor.place()?;
        Ok(LocalHeap { address, segment: image.read(address, length)? })
    }

    /// The names, for any number of threads.
    pub fn names(&self) -> Names<'_> {
        Names { address: self.address, segment: &self.segment }
    }
}

/// The names of one group, borrowed.
#[derive(Clone, Copy)]
pub(in super::super) struct Names<'a> {
    address: u64,
    segment: &'a [u8],
}

impl<'a> Names<'a> {
    /// The text at a position of the segment, and its file offset.
    pub fn text(self, image: &Image<'_>, position: u64) -> Result<(&'a [u8], u64)> {
        let offset = image.offset(self.address.saturating_add(position));
        let rest = usize::try_from(position).ok().and_then(|position| self.segment.get(position..));
        let rest =
            rest.ok_or_else(|| Error::malformed("a name lies outside the local heap").with_offset(offset))?;
        let text = CStr::from_bytes_until_nul(rest).map_err(|_| {
            Error::malformed("a name in the local heap is not terminated").with_offset(offset)
        })?;
        image.charge(text.count_bytes() as u64)?;
        Ok((text.to_bytes(), offset))
    }
}
