//! A bounds-checked reader over one HDF5 structure. It knows the file's address and length widths and where it stands in the file, so
//! that every error can name a byte.

use crate::error::{Error, Result};

/// Widths of addresses and lengths, as the superblock sets them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    pub address: usize,
    pub length: usize,
}

/// Walks the bytes of one structure.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    origin: u64,
    widths: Widths,
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// A cursor over `bytes`, which lie at `origin` in the file and are called `what` in errors.
    pub fn new(bytes: &'a [u8], origin: u64, widths: Widths, what: &'static str) -> Self {
        Cursor { bytes, position: 0, origin, widths, what }
    }

    /// A cursor over a part of the structure.
    pub fn over<'b>(&self, bytes: &'b [u8], origin: u64) -> Cursor<'b> {
        Cursor { bytes, position: 0, origin, widths: self.widths, what: self.what }
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(count);
        match end.and_then(|end| self.bytes.get(self.position..end)) {
            Some(taken) => {
                self.position += count;
                Ok(taken)
            }
            None => Err(self.ended()),
        }
    }

    #[inline]
    pub fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(drop)
    }

    /// Moves to the next multiple of eight from the start of the structure; the padding may be cut off at the end.
    pub fn align(&mut self) {
        self.position = self.position.next_multiple_of(8).min(self.bytes.len());
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes.get(self.position..).and_then(<[u8]>::first_chunk) {
            Some(array) => {
                self.position += N;
                Ok(*array)
            }
            None => Err(self.ended()),
        }
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A little-endian integer of one to eight bytes.
    #[inline]
    pub fn integer(&mut self, width: usize) -> Result<u64> {
        match width {
            8 => self.u64(),
            4 => self.u32().map(u64::from),
            1..=7 => {
                let mut wide = [0; 8];
                for (place, &byte) in wide.iter_mut().zip(self.take(width)?) {
                    *place = byte;
                }
                Ok(u64::from_le_bytes(wide))
            }
            _ => Err(self.error("an integer is wider than eight bytes")),
        }
    }

    /// A length.
    #[inline]
    pub fn length(&mut self) -> Result<u64> {
        self.integer(self.widths.length)
    }

    /// An address; all ones stand for "nowhere".
    #[inline]
    pub fn address(&mut self) -> Result<Option<u64>> {
        let width = self.widths.address;
        let address = self.integer(width)?;
        Ok((address != u64::MAX >> (64 - 8 * width)).then_some(address))
    }

    /// A length; all ones stand for "without end".
    #[inline]
    pub fn limit(&mut self) -> Result<Option<u64>> {
        let width = self.widths.length;
        let length = self.integer(width)?;
        Ok((length != u64::MAX >> (64 - 8 * width)).then_some(length))
    }

    /// An address that must lead somewhere.
    #[inline]
    pub fn place(&mut self) -> Result<u64> {
        self.address()?.ok_or_else(|| self.error("an address that must be set is not"))
    }

    /// Bytes up to a NUL, which is passed over.
    pub fn text(&mut self) -> Result<&'a [u8]> {
        let rest = self.rest();
        let length = rest.iter().position(|&byte| byte == 0);
        let length = length.ok_or_else(|| self.error("a name is not terminated"))?;
        self.position += length + 1;
        Ok(&rest[..length])
    }

    /// Expects a four-byte signature and a version of zero behind it, as the newer structures have it.
    pub fn signature(&mut self, signature: &[u8; 4]) -> Result<()> {
        if self.array()? != *signature {
            return Err(self.error("its signature is missing"));
        }
        Ok(())
    }

    /// Expects one of a range of versions.
    #[inline]
    pub fn version(&mut self, known: std::ops::RangeInclusive<u8>) -> Result<u8> {
        let version = self.u8()?;
        if known.contains(&version) {
            return Ok(version);
        }
        Err(Error::unsupported(format!("version {version} of the {}", self.what))
            .with_offset(self.offset() - 1))
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// Bytes passed so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The file offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.origin.saturating_add(self.position as u64)
    }

    #[cold]
    fn ended(&self) -> Error {
        self.error("it ends before its last field")
    }

    /// An error that names the structure, the rule and the place.
    #[cold]
    pub fn error(&self, rule: &str) -> Error {
        Error::malformed(format!("the {}: {rule}", self.what)).with_offset(self.offset())
    }
}
