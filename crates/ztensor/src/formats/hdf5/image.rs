//! The bytes of one HDF5 file as its addresses see them. They may begin anywhere in the opened file (behind a user block, inside a `.keras`
//! archive); every read is checked against their end and counted, so that structures which refer to each other in
//! circles, or to the same megabyte from everywhere, run out of allowance instead of time.

use std::cell::Cell;

use super::checksum;
use super::cursor::{Cursor, Widths};
use crate::error::{Error, Kind, Result};
use crate::index::{FileId, Span};
use crate::source::headers::{HeaderReader, Piece};

/// Metadata that may be read from a file of any size.
const ALLOWANCE: u64 = 64 << 20;
/// How often each byte of a file may be read as metadata on average, beyond the allowance. An honest file needs one.
const REPEATS: u64 = 4;
/// What one read costs at least, so that many tiny ones are bounded too.
const READ_COST: u64 = 16;

/// The bytes of one HDF5 file.
pub(super) struct Image<'a> {
    headers: &'a HeaderReader<'a>,
    file: FileId,
    start: u64,
    end: u64,
    pub widths: Widths,
    allowance: Cell<u64>,
}

/// What another thread needs to read from the same image.
#[derive(Clone, Copy)]
pub(super) struct Share<'a> {
    headers: &'a HeaderReader<'a>,
    file: FileId,
    start: u64,
    end: u64,
    widths: Widths,
    allowance: u64,
}

impl<'a> Share<'a> {
    /// The allowance of each image.
    pub fn allowance(self) -> u64 {
        self.allowance
    }

    /// An image of this thread's own, with an allowance of its own.
    pub fn image(self) -> Image<'a> {
        let Share { headers, file, start, end, widths, allowance } = self;
        Image { headers, file, start, end, widths, allowance: Cell::new(allowance) }
    }
}

impl<'a> Image<'a> {
    /// An image over `[start, end)` of a source, which the caller has checked to lie inside it.
    pub fn new(headers: &'a HeaderReader<'a>, file: FileId, start: u64, end: u64, widths: Widths) -> Self {
        let allowance = ALLOWANCE.saturating_add((end - start).saturating_mul(REPEATS));
        Share { headers, file, start, end, widths, allowance }.image()
    }

    /// Lets other threads read, each with what is left of the allowance.
    pub fn share(&self) -> Share<'a> {
        let Image { headers, file, start, end, widths, .. } = *self;
        Share { headers, file, start, end, widths, allowance: self.allowance.get() }
    }

    /// What is left of the allowance.
    pub fn left(&self) -> u64 {
        self.allowance.get()
    }

    /// The number of bytes that addresses can reach.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    /// The file offset of an address.
    pub fn offset(&self, address: u64) -> u64 {
        self.start.saturating_add(address)
    }

    /// Pays for work of `bytes` bytes.
    pub fn charge(&self, bytes: u64) -> Result<()> {
        match self.allowance.get().checked_sub(bytes.saturating_add(READ_COST)) {
            Some(left) => {
                self.allowance.set(left);
                Ok(())
            }
            None => Err(Error::new(
                Kind::Limit,
                "the metadata refers to itself so often that reading it all would take too long",
            )
            .with_hint("The file is damaged or made to stall its readers.")),
        }
    }

    /// A checked byte range, for tensor data.
    pub fn span(&self, address: u64, length: u64) -> Result<Span> {
        let offset = self.check(address, length)?;
        Ok(Span { file: self.file, offset, length })
    }

    fn check(&self, address: u64, length: u64) -> Result<u64> {
        let offset = self.start.checked_add(address);
        match offset.and_then(|offset| offset.checked_add(length)) {
            Some(end) if end <= self.end => Ok(self.offset(address)),
            _ => Err(Error::truncated(format!(
                "{length} bytes are announced at address {address}, but the HDF5 data has {} bytes",
                self.length()
            ))
            .with_offset(self.offset(address))),
        }
    }

    /// Reads metadata.
    pub fn read(&self, address: u64, length: u64) -> Result<Piece<'a>> {
        let offset = self.check(address, length)?;
        self.charge(length)?;
        self.headers.read(offset, length)
    }

    /// Reads metadata that ends in a checksum; the checksum is verified and stays in place.
    pub fn read_checked(&self, address: u64, length: u64, what: &str) -> Result<Piece<'a>> {
        let bytes = self.read(address, length)?;
        checksum::verified(&bytes, self.offset(address), what)?;
        Ok(bytes)
    }

    /// A cursor over bytes that were read at an address.
    pub fn cursor<'b>(&self, bytes: &'b [u8], address: u64, what: &'static str) -> Cursor<'b> {
        Cursor::new(bytes, self.offset(address), self.widths, what)
    }
}
