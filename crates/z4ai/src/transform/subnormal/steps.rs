//! The hot loop of subnormal floats: elements from their symbols and verbatim bits.

use super::element::MEANINGS;
use super::model::SubnormalSigns;
use crate::arch::Instructions;
use crate::entropy::table::SYMBOLS;

/// Steps that kernels override.
pub(crate) trait Steps: Instructions {
    /// Makes the elements that have these symbols.
    fn restore_subnormals(self, restorer: &mut Restorer, symbols: &[u8], out: &mut [u8]) {
        self.vectorised(
            #[inline(always)]
            || restorer.restore(symbols, out),
        );
    }
}

/// The bits that the symbols of subnormal floats leave open: of each element its sign, if signs differ, and
/// above it the low bits of its magnitude.
#[derive(Debug)]
pub(crate) struct VerbatimBits<'a> {
    pub bytes: &'a [u8],
    /// In bits; past the end if there are too few of them.
    pub position: usize,
    /// Whether each element has its sign here.
    pub signs: bool,
    /// The sign of all of them otherwise.
    pub negative: bool,
}

/// Elements whose bits are read at once: a word holds them, wherever in a byte they begin.
pub(super) const ELEMENTS_TOGETHER: usize = 4;

/// Reads what [`super::encode::write_bits`] wrote, and makes the elements.
#[derive(Debug)]
pub(crate) struct Restorer<'a> {
    pub verbatim: VerbatimBits<'a>,
    /// The magnitude of each symbol, with the sign if all have the same, and above it how many bits follow in
    /// the stream.
    table: [u32; SYMBOLS],
}

impl<'a> Restorer<'a> {
    pub(super) fn new(bytes: &'a [u8], signs: SubnormalSigns) -> Self {
        let (negative, signs) = (signs == SubnormalSigns::Negative, signs == SubnormalSigns::Verbatim);
        let sign = if negative { 0x8000 } else { 0 };
        let entry = |symbol: usize| {
            let meaning = MEANINGS[symbol];
            u32::from(meaning.magnitude | sign) | (u32::from(meaning.bits) + u32::from(signs)) << 16
        };
        let verbatim = VerbatimBits { bytes, position: 0, signs, negative };
        Self { verbatim, table: std::array::from_fn(entry) }
    }

    /// Makes elements one by one.
    #[inline(always)]
    pub fn restore(&mut self, symbols: &[u8], out: &mut [u8]) {
        match self.verbatim.signs {
            true => self.restore_with::<1>(symbols, out),
            false => self.restore_with::<0>(symbols, out),
        }
    }

    #[inline(always)]
    fn restore_with<const SIGNS: u32>(&mut self, symbols: &[u8], out: &mut [u8]) {
        let (elements, _) = out.as_chunks_mut::<2>();
        let (groups, rest) = elements.as_chunks_mut::<ELEMENTS_TOGETHER>();
        let (group_symbols, rest_symbols) = symbols.as_chunks::<ELEMENTS_TOGETHER>();
        for (elements, symbols) in groups.iter_mut().zip(group_symbols) {
            self.restore_group::<SIGNS>(symbols, elements);
        }
        self.restore_group::<SIGNS>(rest_symbols, rest);
    }

    #[inline(always)]
    fn restore_group<const SIGNS: u32>(&mut self, symbols: &[u8], elements: &mut [[u8; 2]]) {
        let mut word = self.word();
        for (element, &symbol) in elements.iter_mut().zip(symbols) {
            let entry = self.table[usize::from(symbol)];
            let bits = entry >> 16;
            let field = word as u16 & ((1u32 << bits) - 1) as u16;
            word >>= bits;
            self.verbatim.position += bits as usize;
            *element = (entry as u16 | field.rotate_right(SIGNS)).to_le_bytes();
        }
    }

    /// The next 57 bits at least, with zeros after the end.
    #[inline(always)]
    fn word(&self) -> u64 {
        let VerbatimBits { bytes, position, .. } = self.verbatim;
        let rest = bytes.get(position / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        word >> (position % 8)
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::write_bits;
    use super::*;
    use crate::arch::Kernel;
    use crate::transform::subnormal::element::symbol;
    use proptest::prelude::*;

    /// Elements of many magnitudes, with one sign or both.
    fn elements() -> impl Strategy<Value = Vec<u16>> {
        let element = (any::<u16>(), 0u32..16).prop_map(|(bits, shift)| bits >> shift);
        let mask = prop_oneof![Just((0xffff, 0)), Just((0x7fff, 0)), Just((0x7fff, 0x8000))];
        (prop::collection::vec((element, any::<bool>()), 0..700), mask).prop_map(|(elements, (and, or))| {
            let signed = |(element, sign): (u16, bool)| (element | u16::from(sign) << 15) & and | or;
            elements.into_iter().map(signed).collect()
        })
    }

    fn bytes_of(elements: &[u16]) -> Vec<u8> {
        elements.iter().flat_map(|element| element.to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn verbatim_bits_survive_in_pieces(elements in elements(), piece in 1usize..300, after in 0usize..100) {
            let bytes = bytes_of(&elements);
            let symbols: Vec<u8> = elements.iter().map(|&element| symbol(element)).collect();
            let negative = elements.iter().all(|element| element >> 15 == 1);
            let signs = match elements.iter().any(|element| element >> 15 == 1) {
                false => SubnormalSigns::Positive,
                true if negative => SubnormalSigns::Negative,
                true => SubnormalSigns::Verbatim,
            };
            let mut out = Vec::new();
            match signs {
                SubnormalSigns::Verbatim => write_bits::<1>(&bytes, &symbols, &mut out),
                _ => write_bits::<0>(&bytes, &symbols, &mut out),
            }
            let length = out.len();
            out.resize(length + after, 0xee);
            for kernel in Kernel::available() { kernel.run(|| {
                let mut restorer = Restorer::new(&out, signs);
                let mut restored = vec![0xcc; bytes.len()];
                for (symbols, out) in symbols.chunks(piece).zip(restored.chunks_mut(2 * piece)) {
                    restorer.restore(symbols, out);
                }
                assert_eq!(restorer.verbatim.position.div_ceil(8), length);
                assert_eq!(&restored, &bytes);
            }); }
        }

        #[test]
        fn kernels_agree_on_restore_subnormals(
            symbols in prop::collection::vec(0u8..168, 0..400), bytes in prop::collection::vec(any::<u8>(), 0..500), signs in 0..3,
        ) {
            let signs = [SubnormalSigns::Verbatim, SubnormalSigns::Positive, SubnormalSigns::Negative][signs as usize];
            let made: Vec<_> = Kernel::available().into_iter().map(|kernel| kernel.run(|| {
                let (mut restorer, mut out) = (Restorer::new(&bytes, signs), vec![0; 2 * symbols.len()]);
                restorer.restore(&symbols, &mut out);
                (restorer.verbatim.position, out)
            })).collect();
            prop_assert!(made.iter().all(|other| *other == made[0]));
        }
    }
}
