//! The nested coder on x86 with AVX-512: the shared code compiled for those instructions, with whole chunks at a time where that is quicker.
#![allow(unsafe_code)]

use super::{nested_encode, nested_levels, nested_store, nested_tails};
use crate::arch::avx2::nested::Avx2;
use crate::entropy::nested::{self, BitWriter, CHUNK, Code, Cursor, Geometry, Shifts, Steps, Tail, Word};
use crate::error::Result;

/// The encoder, compiled for this kernel.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn encode(
    elements: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    nested::encode_with::<Avx512>(elements, geometry, shifts, out)
}

/// The decoder, compiled for this kernel.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn decode(
    block: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut [u8],
) -> Result<()> {
    nested::decode_with::<Avx512>(block, geometry, shifts, out)
}

/// Only reachable from the two functions above, which enable the features; never named outside this file.
struct Avx512;

impl Steps for Avx512 {
    #[inline(always)]
    fn spread<const WIDTH: u32>(bits: u64, escapes: u64) -> u64 {
        Avx2::spread::<WIDTH>(bits, escapes)
    }

    #[inline(always)]
    fn gather<const WIDTH: u32>(fields: u64, escapes: u64) -> u64 {
        Avx2::gather::<WIDTH>(fields, escapes)
    }

    #[inline(always)]
    fn look_up(low: &[u64; 4], high: &[u64; 4], symbols: &[u8; 16], out: &mut [u8; 128]) {
        Avx2::look_up(low, high, symbols, out);
    }

    #[inline(always)]
    fn histogram(symbols: &[u8]) -> [u32; 256] {
        // SAFETY: every caller of this kernel enables the instructions.
        unsafe { nested_encode::histogram(symbols) }
    }

    #[inline(always)]
    fn encode_symbols(symbols: &[u8], code: &Code, levels: &mut [BitWriter], spelled: &mut Vec<u8>) {
        // SAFETY: every caller of this kernel enables the instructions.
        unsafe { nested_encode::encode_symbols(symbols, code, levels, spelled) }
    }

    #[inline(always)]
    fn decode_symbols(
        cursor: &mut Cursor<'_>,
        code: &Code,
        count: usize,
        symbols: &mut [u8; CHUNK],
        soon: [&[u8]; 2],
    ) -> Result<()> {
        // SAFETY: every caller of this kernel enables the instructions.
        if unsafe { nested_levels::decode_symbols(cursor, code, count, symbols, soon) } {
            return Ok(());
        }
        nested::decode_symbols::<Self>(cursor, code, &mut symbols[..count])
    }

    #[inline(always)]
    fn store<T: Word>(elements: &[u8], tail: Tail, out: &mut Vec<u8>) {
        // SAFETY: every caller of this kernel enables the instructions.
        if !unsafe { nested_store::store(elements, tail, out) } {
            nested::store::<T>(elements, tail, out);
        }
    }

    #[inline(always)]
    fn merge<T: Word>(exponents: &[u8], tail: Tail, planes: &[u8], out: &mut [u8]) -> Result<()> {
        // SAFETY: every caller of this kernel enables the instructions.
        if unsafe { nested_tails::merge(exponents, tail, planes, out) } {
            return Ok(());
        }
        nested::merge::<T>(exponents, tail, planes, out)
    }
}
