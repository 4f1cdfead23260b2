//! Bounds-checked reading of a pickle's opcode arguments.

use crate::error::{Error, Result};

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, position: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(length).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else { return Err(ends()) };
        let taken = &self.bytes[self.position..end];
        self.position = end;
        Ok(taken)
    }

    /// A run of bytes behind its length of `WIDTH` bytes.
    #[inline]
    pub(super) fn prefixed<const WIDTH: usize>(&mut self) -> Result<&'a [u8]> {
        let length = self.unsigned::<WIDTH>()?;
        self.take(usize::try_from(length).map_err(|_| ends())?)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.position).ok_or_else(ends)?;
        self.position += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH]> {
        let taken = self.take(LENGTH)?;
        taken.first_chunk().copied().ok_or_else(ends)
    }

    /// A little-endian number of 1 to 8 bytes.
    #[inline]
    pub(super) fn unsigned<const WIDTH: usize>(&mut self) -> Result<u64> {
        Ok(self.array::<WIDTH>()?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// The bytes up to the next newline, which is passed over.
    pub(super) fn line(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.position..];
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or_else(ends)?;
        self.position += length + 1;
        Ok(&rest[..length])
    }
}

fn ends() -> Error {
    Error::truncated("the pickle ends in the middle")
}
