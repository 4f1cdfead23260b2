//! Elements as symbols: an exponent and the top two bits below the first one, with the bits that are left
//! verbatim.

use crate::entropy::table::SYMBOLS;
use crate::transform::float::JOINT_BITS;

/// Bits of a mantissa.
const MANTISSA_BITS: u32 = 10;
/// Exponents, counted from zero over the subnormal ones up to that of infinity.
const SUBNORMAL_EXPONENTS: u32 = 32 + MANTISSA_BITS;
/// Exponents that have no verbatim bits: all that they can say is in the symbol.
const BARE_EXPONENTS: u32 = JOINT_BITS + 1;

/// The symbol of an element; its sign does not matter.
#[inline(always)]
pub(super) fn symbol(element: u16) -> u8 {
    let magnitude = element & 0x7fff;
    // The conversion to fp32 normalises a subnormal number, an integer here; 1 has exponent 127, of which 126
    // are taken off, so that 0 is left for zero.
    let found = (f32::from(magnitude).to_bits() >> (23 - JOINT_BITS)) as i32 - (126 << JOINT_BITS);
    let normal = i32::from(magnitude >> (MANTISSA_BITS - JOINT_BITS)) + (MANTISSA_BITS << JOINT_BITS) as i32;
    (if magnitude < 1 << MANTISSA_BITS { found.max(0) } else { normal }) as u8
}

/// What a symbol stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Meaning {
    /// The magnitude with zeros for its verbatim bits.
    pub magnitude: u16,
    /// How many verbatim bits there are, without the sign.
    pub bits: u8,
    /// Whether there are magnitudes with this symbol.
    pub occurs: bool,
}

/// The meaning of every symbol.
pub(super) static MEANINGS: [Meaning; SYMBOLS] = {
    let mut meanings = [Meaning { magnitude: 0, bits: 0, occurs: false }; SYMBOLS];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        meanings[symbol] = meaning(symbol as u32);
        symbol += 1;
    }
    meanings
};

const fn meaning(symbol: u32) -> Meaning {
    let (exponent, joint) = (symbol >> JOINT_BITS, symbol & ((1 << JOINT_BITS) - 1));
    let bits = exponent.saturating_sub(BARE_EXPONENTS);
    let bits = if bits > MANTISSA_BITS - JOINT_BITS { MANTISSA_BITS - JOINT_BITS } else { bits };
    let (magnitude, occurs) = if exponent == 0 {
        (0, joint == 0)
    } else if exponent <= MANTISSA_BITS {
        let below = joint << (exponent - 1);
        (1 << (exponent - 1) | below >> JOINT_BITS, below & ((1 << JOINT_BITS) - 1) == 0)
    } else {
        let exponent_field = exponent - MANTISSA_BITS;
        (
            exponent_field << MANTISSA_BITS | joint << (MANTISSA_BITS - JOINT_BITS),
            exponent < SUBNORMAL_EXPONENTS,
        )
    };
    Meaning { magnitude: magnitude as u16 & 0x7fff, bits: bits as u8, occurs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_its_symbol_and_its_verbatim_bits() {
        let mut met = [false; SYMBOLS];
        for element in 0..=u16::MAX {
            let symbol = symbol(element);
            let meaning = MEANINGS[usize::from(symbol)];
            let verbatim = element & ((1 << meaning.bits) - 1);
            assert_eq!(meaning.magnitude & ((1 << meaning.bits) - 1), 0);
            assert_eq!(meaning.magnitude | verbatim, element & 0x7fff);
            met[usize::from(symbol)] = true;
        }
        assert!(met.iter().zip(&MEANINGS).all(|(&met, meaning)| met == meaning.occurs));
    }

    #[test]
    fn larger_magnitudes_have_larger_symbols() {
        assert!((0..0x7fff).all(|magnitude| symbol(magnitude) <= symbol(magnitude + 1)));
    }
}
