//! Differences as symbols: small ones are symbols themselves; of larger ones the symbol has the length and
//! the first bits, and the bits below are raw.

use super::element::Word;

/// How differences of one width are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alphabet {
    /// Differences of at most so many bits are symbols.
    pub direct_bits: u32,
    /// Bits below the first one that are in the symbol of a larger difference.
    pub top_bits: u32,
}

impl Alphabet {
    /// The alphabet for elements of `width` bytes; each has at most 256 symbols.
    pub const fn of_width(width: usize) -> Self {
        match width {
            1 => Self { direct_bits: 8, top_bits: 0 },
            2 => Self { direct_bits: 7, top_bits: 3 },
            4 => Self { direct_bits: 4, top_bits: 3 },
            _ => Self { direct_bits: 4, top_bits: 2 },
        }
    }

    /// How many symbols the differences of `width` bytes have.
    pub const fn symbols(self, width: usize) -> usize {
        (self.direct() + ((8 * width as u32 - self.direct_bits) << self.top_bits)) as usize
    }

    /// Symbols below this one have no raw bits.
    pub const fn direct(self) -> u32 {
        1 << self.direct_bits
    }

    /// The symbol of a difference.
    #[inline(always)]
    pub fn symbol<W: Word>(self, difference: W) -> u8 {
        let length = difference.length().max(self.direct_bits + 1);
        let large = difference.length() > self.direct_bits;
        let raw = length - 1 - self.top_bits;
        let top = (difference.wide() >> raw) as u32;
        let bucket =
            self.direct() + ((length - 1 - self.direct_bits) << self.top_bits) + top - (1 << self.top_bits);
        if large { bucket as u8 } else { difference.wide() as u8 }
    }

    /// How many raw bits follow a symbol.
    #[inline(always)]
    pub fn raw_bits(self, symbol: u8) -> u32 {
        let symbol = u32::from(symbol);
        if symbol < self.direct() {
            return 0;
        }
        self.direct_bits + ((symbol - self.direct()) >> self.top_bits) - self.top_bits
    }

    /// How many raw bits follow these symbols in all.
    #[inline(always)]
    pub fn all_raw_bits(self, symbols: &[u8]) -> u64 {
        let piece = |symbols: &[u8]| symbols.iter().map(|&symbol| self.raw_bits(symbol)).sum::<u32>();
        symbols.chunks(1 << 16).map(|symbols| u64::from(piece(symbols))).sum()
    }

    /// The difference with this symbol and zeros for raw bits; symbols that no difference of the width has
    /// are refused before.
    #[inline(always)]
    pub fn first(self, symbol: u8) -> u64 {
        let symbol = u32::from(symbol);
        if symbol < self.direct() {
            return u64::from(symbol);
        }
        let position = symbol - self.direct();
        let top = 1 << self.top_bits | position & ((1 << self.top_bits) - 1);
        u64::from(top).wrapping_shl(self.direct_bits + (position >> self.top_bits) - self.top_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn survives<W: Word>(value: u64) {
        let alphabet = Alphabet::of_width(W::BYTES);
        let value = W::from_wide(value);
        let symbol = alphabet.symbol(value);
        let bits = alphabet.raw_bits(symbol);
        let raw = value.wide() & ((1 << bits) - 1);
        assert_eq!(alphabet.first(symbol) | raw, value.wide());
        assert_eq!(alphabet.first(symbol) & ((1 << bits) - 1), 0);
    }

    #[test]
    fn the_largest_difference_has_the_last_symbol() {
        fn last<W: Word>() -> (usize, usize) {
            let alphabet = Alphabet::of_width(W::BYTES);
            (alphabet.symbols(W::BYTES), usize::from(alphabet.symbol(W::from_wide(u64::MAX))) + 1)
        }
        for (symbols, largest) in [last::<u8>(), last::<u16>(), last::<u32>(), last::<u64>()] {
            assert_eq!(symbols, largest);
        }
    }

    #[test]
    fn every_short_difference_survives() {
        for value in 0..=u64::from(u16::MAX) {
            survives::<u8>(value);
            survives::<u16>(value);
            survives::<u32>(value);
            survives::<u64>(value);
        }
        survives::<u32>(u64::from(u32::MAX));
        survives::<u64>(u64::MAX);
    }

    proptest! {
        #[test]
        fn any_difference_survives(value in any::<u64>(), shift in 0u32..64) {
            survives::<u32>(value >> shift);
            survives::<u64>(value >> shift);
        }
    }
}
