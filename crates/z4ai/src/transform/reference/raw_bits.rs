//! The raw low bits of large differences: a bit stream, least significant bit first.

use crate::error::{Error, Result};

/// Appends bits to a byte vector.
#[derive(Debug, Default)]
pub(super) struct RawBits {
    bytes: Vec<u8>,
    pending: u64,
    count: u32,
}

impl RawBits {
    /// Appends `value`, which has at most `width` bits, themselves at most 32.
    #[inline(always)]
    pub fn put(&mut self, value: u64, width: u32) {
        self.pending |= value << self.count;
        self.count += width;
        if self.count >= 32 {
            self.bytes.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.count -= 32;
        }
    }

    /// The same for up to 63 bits.
    pub fn put_long(&mut self, value: u64, width: u32) {
        let low = width.min(32);
        self.put(value & ((1 << low) - 1), low);
        self.put(value >> low, width - low);
    }

    /// All bits, the last byte padded with zeros.
    pub fn finish(mut self) -> Vec<u8> {
        let rest = self.count.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.pending.to_le_bytes()[..rest]);
        self.bytes
    }
}

/// Reads what [`RawBits`] wrote.
#[derive(Debug)]
pub(super) struct RawReader<'a> {
    bytes: &'a [u8],
    /// In bits.
    position: usize,
}

impl<'a> RawReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The next `width` (at most 56) bits; past the end they are zeros, which [`RawReader::finish`] notices.
    #[inline(always)]
    pub fn get(&mut self, width: u32) -> u64 {
        let window = match self.bytes.get(self.position / 8..).and_then(<[u8]>::first_chunk::<8>) {
            Some(window) => u64::from_le_bytes(*window),
            None => self.last_window(),
        };
        let value = window >> (self.position % 8) & ((1 << width) - 1);
        self.position += width as usize;
        value
    }

    /// The same for up to 63 bits.
    pub fn get_long(&mut self, width: u32) -> u64 {
        let low = width.min(32);
        self.get(low) | self.get(width - low) << low
    }

    #[cold]
    fn last_window(&self) -> u64 {
        let rest = self.bytes.get(self.position / 8..).unwrap_or_default();
        rest.iter().take(8).rev().fold(0, |window, &byte| window << 8 | u64::from(byte))
    }

    /// Fails unless exactly all bytes were read.
    pub fn finish(&self) -> Result<()> {
        if self.position.div_ceil(8) == self.bytes.len() {
            return Ok(());
        }
        Err(Error::corrupt("the raw bits of a delta do not end where they should"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_survive(fields in proptest::collection::vec((any::<u64>(), 0u32..64), 0..200)) {
            let mut writer = RawBits::default();
            fields.iter().for_each(|&(value, width)| writer.put_long(value & ((1 << width) - 1), width));
            let bytes = writer.finish();
            let mut reader = RawReader::new(&bytes);
            for &(value, width) in &fields {
                prop_assert_eq!(reader.get_long(width), value & ((1 << width) - 1));
            }
            reader.finish().unwrap();
            reader.get(9);
            prop_assert!(reader.finish().is_err());
        }
    }
}
