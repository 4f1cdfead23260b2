//! Bit-granular fields for the small side information (frequency tables), least significant bit first.

use crate::error::{Error, Result};

/// Appends bit fields to a byte vector.
#[derive(Debug)]
pub(crate) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: 0, count: 0 }
    }

    /// Writes the low `width` (at most 32) bits of `value`.
    pub fn put(&mut self, value: u32, width: u32) {
        debug_assert!(width <= 32 && u64::from(value) < 1 << width);
        self.pending |= u64::from(value) << self.count;
        self.count += width;
        while self.count >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// Writes `value` in a Rice code: the quotient by `2^parameter` in unary (after [`RICE_LIMIT`] ones, the
    /// whole value in 16 bits), then the rest.
    pub fn put_rice(&mut self, value: u32, parameter: u32) {
        let quotient = value >> parameter;
        if quotient >= RICE_LIMIT {
            self.put((1 << RICE_LIMIT) - 1, RICE_LIMIT);
            self.put(value, 16);
        } else {
            self.put((1 << quotient) - 1, quotient + 1);
            self.put(value & ((1 << parameter) - 1), parameter);
        }
    }

    /// Pads the last byte with zeros.
    pub fn finish(self) {
        if self.count > 0 {
            self.out.push(self.pending as u8);
        }
    }
}

/// Unary part of a Rice code after which the value follows verbatim.
const RICE_LIMIT: u32 = 12;

/// Bits that are looked at together.
const PEEKED: usize = 56;

/// Reads what [`BitWriter`] wrote.
#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The next `width` (at most 32) bits.
    pub fn get(&mut self, width: u32) -> Result<u32> {
        let value = self.peek() & ((1 << width) - 1);
        self.skip(width)?;
        Ok(value as u32)
    }

    pub fn get_rice(&mut self, parameter: u32) -> Result<u32> {
        let quotient = self.peek().trailing_ones().min(RICE_LIMIT);
        if quotient == RICE_LIMIT {
            self.skip(RICE_LIMIT)?;
            return self.get(16);
        }
        self.skip(quotient + 1)?;
        Ok(quotient << parameter | self.get(parameter)?)
    }

    /// How many of the next bits are zero, at most `most`; passes over them.
    pub fn get_zeros(&mut self, most: usize) -> Result<usize> {
        let mut zeros = 0;
        loop {
            let found = (self.peek().trailing_zeros() as usize).min(PEEKED).min(most - zeros);
            self.skip(found as u32)?;
            zeros += found;
            if found < PEEKED {
                return Ok(zeros);
            }
        }
    }

    /// At least the next 56 bits, with zeros after the end.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.position / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        word >> (self.position % 8)
    }

    /// Passes over `width` bits, which must be there.
    fn skip(&mut self, width: u32) -> Result<()> {
        self.position += width as usize;
        if self.position > 8 * self.bytes.len() {
            return Err(Error::truncated("frequency table"));
        }
        Ok(())
    }

    /// Bytes used so far, counting a started byte as used.
    pub fn bytes_used(&self) -> usize {
        self.position.div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive() {
        let fields: Vec<(u32, u32)> =
            (0..400u32).map(|i| (i.wrapping_mul(2654435761) >> 20, i % 11)).collect();
        let mut bytes = Vec::new();
        let mut writer = BitWriter::new(&mut bytes);
        for &(value, parameter) in &fields {
            writer.put_rice(value, parameter);
            writer.put(value & 7, 3);
        }
        writer.finish();
        let mut reader = BitReader::new(&bytes);
        for &(value, parameter) in &fields {
            assert_eq!(reader.get_rice(parameter).unwrap(), value);
            assert_eq!(reader.get(3).unwrap(), value & 7);
        }
        assert_eq!(reader.bytes_used(), bytes.len());
        assert!(BitReader::new(&bytes[..1]).get(9).is_err());
    }

    #[test]
    fn zeros_are_counted_up_to_a_one_the_limit_or_the_end() {
        let mut bytes = vec![0; 20];
        bytes[15] = 8;
        let at = |position| BitReader { bytes: &bytes, position };
        for position in 0..123 {
            for most in 0..200 {
                assert_eq!(at(position).get_zeros(most).unwrap(), most.min(123 - position));
            }
        }
        assert_eq!(at(124).get_zeros(36).unwrap(), 36);
        assert!(at(124).get_zeros(37).is_err());
    }
}
