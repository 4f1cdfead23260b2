//! The nested coder with AVX-512: whole chunks at a time where that is quicker.

mod encode;
mod levels;
mod merge;
mod store;

use super::Avx512;
use crate::error::Result;
use crate::transform::nested::{self, BitStream, Code, Cursor, NESTED_CHUNK, Steps, Tail, TailWord};

impl Steps for Avx512 {
    #[inline(always)]
    fn deposit<const WIDTH: u32>(self, bits: u64, escapes: u64) -> u64 {
        self.0.deposit::<WIDTH>(bits, escapes)
    }

    #[inline(always)]
    fn extract<const WIDTH: u32>(self, fields: u64, escapes: u64) -> u64 {
        self.0.extract::<WIDTH>(fields, escapes)
    }

    #[inline(always)]
    fn symbols_of_ranks(self, low: &[u64; 4], high: &[u64; 4], symbols: &[u8; 16], out: &mut [u8; 128]) {
        self.0.symbols_of_ranks(low, high, symbols, out);
    }

    #[inline(always)]
    fn histogram(self, symbols: &[u8]) -> [u32; 256] {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { encode::histogram(symbols) }
    }

    #[inline(always)]
    fn encode_nested(self, symbols: &[u8], code: &Code, levels: &mut [BitStream], spelled: &mut Vec<u8>) {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { encode::encode_symbols(symbols, code, levels, spelled) }
    }

    #[inline(always)]
    fn decode_nested(
        self,
        cursor: &mut Cursor<'_>,
        code: &Code,
        count: usize,
        symbols: &mut [u8; NESTED_CHUNK],
        soon: [&[u8]; 2],
    ) -> Result<()> {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        if unsafe { levels::decode_symbols(cursor, code, count, symbols, soon) } {
            return Ok(());
        }
        nested::decode_levels(self, cursor, code, &mut symbols[..count])
    }

    #[inline(always)]
    fn store_tail<T: TailWord>(self, elements: &[u8], tail: Tail, out: &mut Vec<u8>) {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        if !unsafe { store::store(elements, tail, out) } {
            nested::store::<T>(elements, tail, out);
        }
    }

    #[inline(always)]
    fn merge_tail<T: TailWord>(
        self,
        exponents: &[u8],
        tail: Tail,
        planes: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        if unsafe { merge::merge(exponents, tail, planes, out) } {
            return Ok(());
        }
        nested::merge::<T>(exponents, tail, planes, out)
    }
}
