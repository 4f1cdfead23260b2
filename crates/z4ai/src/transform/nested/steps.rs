//! The hot loops of the nested coder. Whole blocks run inside [`Instructions::vectorised`], so that steps are
//! inlined and what is around them is compiled for the same instructions.

use super::code::Code;
use super::streams::{self, BitStream, Cursor, NESTED_CHUNK};
use super::tail::{self, Tail, TailWord};
use crate::arch::Instructions;
use crate::error::Result;

/// Steps that kernels override. `escapes` has the low bit of each chosen field set.
pub(crate) trait Steps: Instructions {
    /// Deals the low bits of `bits`, `WIDTH` at a time, to the chosen fields.
    #[inline(always)]
    fn deposit<const WIDTH: u32>(self, mut bits: u64, mut escapes: u64) -> u64 {
        let mut fields = 0;
        while escapes != 0 {
            fields |= (bits & ((1 << WIDTH) - 1)) << escapes.trailing_zeros();
            bits >>= WIDTH;
            escapes &= escapes - 1;
        }
        fields
    }

    /// Collects `WIDTH` bits of each chosen field.
    #[inline(always)]
    fn extract<const WIDTH: u32>(self, fields: u64, mut escapes: u64) -> u64 {
        let (mut bits, mut filled) = (0, 0);
        while escapes != 0 {
            bits |= (fields >> escapes.trailing_zeros() & ((1 << WIDTH) - 1)) << filled;
            filled += WIDTH;
            escapes &= escapes - 1;
        }
        bits
    }

    /// Turns the rank sums of 128 elements into symbols.
    #[inline(always)]
    fn symbols_of_ranks(self, low: &[u64; 4], high: &[u64; 4], symbols: &[u8; 16], out: &mut [u8; 128]) {
        let (low, high): ([u8; 32], [u8; 32]) =
            (bytemuck::cast(low.map(u64::to_le)), bytemuck::cast(high.map(u64::to_le)));
        for byte in 0..32 {
            out[byte] = symbols[usize::from(low[byte] & 15)];
            out[byte + 32] = symbols[usize::from(high[byte] & 15)];
            out[byte + 64] = symbols[usize::from(low[byte] >> 4)];
            out[byte + 96] = symbols[usize::from(high[byte] >> 4)];
        }
    }

    /// Looks up the ranks of symbols.
    #[inline(always)]
    fn ranks_of(self, table: &[u8; 256], symbols: &[u8], ranks: &mut [u8]) {
        ranks.iter_mut().zip(symbols).for_each(|(rank, &symbol)| *rank = table[usize::from(symbol)]);
    }

    /// Frequencies of the symbols.
    #[inline(always)]
    fn histogram(self, symbols: &[u8]) -> [u32; 256] {
        streams::histogram(symbols)
    }

    /// Writes `symbols` to one stream per level of `code`, and what escapes every level to `spelled`.
    #[inline(always)]
    fn encode_nested(self, symbols: &[u8], code: &Code, levels: &mut [BitStream], spelled: &mut Vec<u8>) {
        streams::encode(self, symbols, code, levels, spelled);
    }

    /// Appends the planes of a chunk's tail.
    #[inline(always)]
    fn store_tail<T: TailWord>(self, elements: &[u8], tail: Tail, out: &mut Vec<u8>) {
        tail::store::<T>(elements, tail, out);
    }

    /// Decodes the next `count` symbols of a chunk to the front of `symbols`; whole groups except at the end
    /// of a block. The caller will need the memory of `_soon` then.
    #[inline(always)]
    fn decode_nested(
        self,
        cursor: &mut Cursor<'_>,
        code: &Code,
        count: usize,
        symbols: &mut [u8; NESTED_CHUNK],
        _soon: [&[u8]; 2],
    ) -> Result<()> {
        streams::decode(self, cursor, code, &mut symbols[..count])
    }

    /// Puts exponents and the stored tail of a chunk together again.
    #[inline(always)]
    fn merge_tail<T: TailWord>(
        self,
        exponents: &[u8],
        tail: Tail,
        planes: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        tail::merge::<T>(exponents, tail, planes, out)
    }
}
