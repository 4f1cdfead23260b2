//! The primitive fields that every on-disk structure is made of: fixed little-endian integers, LEB128 varints
//! and byte strings. Reading never goes past the end of its slice and never trusts a length.

use crate::error::{Error, Result};

/// A position in borrowed frame bytes; every `take` is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start; `what` names the structure in errors.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, position: 0, what }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(length).ok_or_else(|| Error::truncated(self.what))?;
        let slice = self.bytes.get(self.position..end).ok_or_else(|| Error::truncated(self.what))?;
        self.position = end;
        Ok(slice)
    }

    /// Everything not yet read, without reading it.
    pub fn peek(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    pub fn rest(&mut self) -> &'a [u8] {
        let slice = self.bytes.get(self.position..).unwrap_or_default();
        self.position = self.bytes.len();
        slice
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let slice = self.take(N)?;
        slice.try_into().map_err(|_| Error::truncated(self.what))
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// An unsigned LEB128 number of at most 64 bits, in its shortest form.
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 || byte == 0 && shift > 0 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::corrupt(format!("a number in the {} is not a shortest 64-bit varint", self.what)))
    }

    /// A varint that must fit this machine's address space.
    pub fn length(&mut self) -> Result<usize> {
        let what = self.what;
        usize::try_from(self.varint()?)
            .map_err(|_| Error::corrupt(format!("a length in the {what} exceeds the address space")))
    }

    /// A zigzag varint.
    pub fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Fails unless everything was read.
    pub fn finish(&self) -> Result<()> {
        if self.remaining() == 0 {
            return Ok(());
        }
        Err(Error::corrupt(format!("{} unexpected bytes after the {}", self.remaining(), self.what)))
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_length(out: &mut Vec<u8>, value: usize) {
    put_varint(out, value as u64);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1 ^ value >> 63) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_and_long_forms_are_refused() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = Reader::new(&bytes, "test");
            assert_eq!(reader.varint().unwrap(), value);
            reader.finish().unwrap();
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            assert_eq!(Reader::new(&bytes, "test").signed().unwrap(), value);
        }
        assert!(Reader::new(&[0x80, 0x00], "test").varint().is_err());
        assert!(Reader::new(&[0xff; 11], "test").varint().is_err());
        assert!(Reader::new(&[0x80], "test").varint().is_err());
    }
}
