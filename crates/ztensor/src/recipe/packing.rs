//! Small numbers in words: where quantised tensors put the levels of neighbours, along a row or down a column.

use z4ai::kernels::vectorised;

use super::malformed;
use crate::error::Result;

/// Numbers of one word.
const MOST: usize = 32;

/// Which bits of a word a number gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Bits of each number.
    pub(super) bits: u32,
    /// The place of each number of a word, counted from the low end.
    pub(super) slots: Vec<u8>,
    /// How far apart the numbers of a word lie: 1 for neighbours, the length of a row for what lies below each other.
    pub(super) columns: u64,
}

impl Packing {
    /// Words of as many numbers as there are slots.
    pub fn new(bits: u64, slots: &[u64], columns: u64) -> Result<Packing> {
        let bits = u32::try_from(bits).ok().filter(|bits| (1..=8).contains(bits));
        let bits = bits.ok_or_else(|| malformed("packed numbers have 1 to 8 bits"))?;
        let mut is_taken = [false; MOST];
        for slot in slots {
            let taken =
                usize::try_from(*slot).ok().and_then(|slot| is_taken[..slots.len().min(MOST)].get_mut(slot));
            match taken {
                Some(taken) if !*taken => *taken = true,
                _ => return Err(malformed("packed numbers overlap")),
            }
        }
        let whole = (slots.len() as u32 * bits).is_multiple_of(8);
        if slots.is_empty() || slots.len() > MOST || !whole || columns == 0 {
            return Err(malformed("packed numbers make no whole words"));
        }
        Ok(Packing { bits, slots: slots.iter().map(|slot| *slot as u8).collect(), columns })
    }

    /// Numbers of a word.
    pub(super) fn numbers(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Bytes of a word.
    pub(super) fn width(&self) -> usize {
        self.slots.len() * self.bits as usize / 8
    }

    /// Puts numbers into words. Those of a word lie `stride` apart, those of the next word follow them by one where that is not 1.
    pub(super) fn pack(&self, numbers: &[u8], stride: usize, out: &mut [u8]) {
        vectorised(
            #[inline(always)]
            || match (self.bits, &self.slots[..]) {
                (8, [0]) if stride == 1 => out.copy_from_slice(numbers),
                (4, [0, 1]) if stride == 1 => pairs(numbers, out, |[one, other]| one & 15 | other << 4),
                (4, [1, 0]) if stride == 1 => pairs(numbers, out, |[one, other]| other & 15 | one << 4),
                (4, slots) if stride == 1 && slots.len() == 8 => eights(numbers, slots, out),
                (bits, slots) if stride != 1 && self.width() == 4 => {
                    rows(numbers, (bits, slots), stride, out)
                }
                _ => self.pack_any(numbers, stride, out),
            },
        );
    }

    fn pack_any(&self, numbers: &[u8], stride: usize, out: &mut [u8]) {
        let mask = ((1u32 << self.bits) - 1) as u8;
        let step = if stride == 1 { self.slots.len() } else { 1 };
        for (place, word) in out.chunks_exact_mut(self.width()).enumerate() {
            word.fill(0);
            for (number, slot) in self.slots.iter().enumerate() {
                let of = u16::from(numbers[place * step + number * stride] & mask);
                let at = usize::from(*slot) * self.bits as usize;
                let bits = (of << (at % 8)).to_le_bytes();
                word[at / 8] |= bits[0];
                if let Some(next) = word.get_mut(at / 8 + 1) {
                    *next |= bits[1];
                }
            }
        }
    }
}

/// Two numbers of four bits in a byte.
#[inline(always)]
fn pairs(numbers: &[u8], out: &mut [u8], byte: impl Fn([u8; 2]) -> u8) {
    numbers.as_chunks().0.iter().zip(out).for_each(|(pair, out)| *out = byte(*pair));
}

/// Eight numbers of four bits in a word.
#[inline(always)]
fn eights(numbers: &[u8], slots: &[u8], out: &mut [u8]) {
    let mut shifts = [0; 8];
    shifts.iter_mut().zip(slots).for_each(|(shift, slot)| *shift = u32::from(*slot) * 4);
    for (numbers, out) in numbers.as_chunks::<8>().0.iter().zip(out.as_chunks_mut().0) {
        let parts = numbers.iter().zip(&shifts).map(|(of, shift)| u32::from(of & 15) << shift);
        *out = parts.fold(0, |word, part| word | part).to_le_bytes();
    }
}

/// Words of numbers that lie below each other.
#[inline(always)]
fn rows(numbers: &[u8], (bits, slots): (u32, &[u8]), stride: usize, out: &mut [u8]) {
    let mask = ((1u32 << bits) - 1) as u8;
    let mut words = vec![0u32; out.len() / 4];
    for (row, slot) in numbers.chunks(stride).zip(slots) {
        let shift = u32::from(*slot) * bits;
        words.iter_mut().zip(row).for_each(|(word, of)| *word |= u32::from(of & mask) << shift);
    }
    out.as_chunks_mut().0.iter_mut().zip(words).for_each(|(out, word)| *out = word.to_le_bytes());
}
