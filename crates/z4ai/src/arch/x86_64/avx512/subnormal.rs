//! Subnormal floats from their symbols and verbatim bits with AVX-512: 32 at a time. The bits of an element
//! begin at the prefix sum of the widths before it.
#![allow(unsafe_code)]

use super::Avx512;
use crate::arch::Instructions;
use crate::transform::subnormal::{Restorer, Steps, VerbatimBits};
use std::arch::x86_64::*;

impl Steps for Avx512 {
    fn restore_subnormals(self, restorer: &mut Restorer, symbols: &[u8], out: &mut [u8]) {
        let verbatim = &mut restorer.verbatim;
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        let done = unsafe {
            match verbatim.signs {
                true => restore::<1>(symbols, verbatim, out),
                false => restore::<0>(symbols, verbatim, out),
            }
        };
        self.vectorised(
            #[inline(always)]
            || restorer.restore(&symbols[done..], &mut out[2 * done..]),
        );
    }
}

/// Elements that are made together.
const SUBNORMAL_GROUP: usize = 32;
/// Bytes that are loaded for them: a register, more than their bits take.
const LOADED: usize = 64;

/// Makes whole groups, as long as bits are not about to end; returns how many elements those were.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
fn restore<const SIGNS: i16>(symbols: &[u8], verbatim: &mut VerbatimBits, out: &mut [u8]) -> usize {
    let sign = _mm512_set1_epi16(if verbatim.negative { i16::MIN } else { 0 });
    let one = _mm512_set1_epi16(1);
    // Permutations that bring the last number of the quarter before to all of a quarter, and that of the one
    // before that: the last two steps of the prefix sum.
    let first = _mm512_set_epi64(LAST_OF_2, LAST_OF_2, LAST_OF_1, LAST_OF_1, LAST_OF_0, LAST_OF_0, 0, 0);
    let second = _mm512_set_epi64(LAST_OF_1, LAST_OF_1, LAST_OF_0, LAST_OF_0, 0, 0, 0, 0);
    let mut done = 0;
    for (symbols, out) in symbols.chunks_exact(SUBNORMAL_GROUP).zip(out.chunks_exact_mut(2 * SUBNORMAL_GROUP))
    {
        let Some(bytes) = verbatim.bytes.get(verbatim.position / 8..).filter(|rest| rest.len() >= LOADED)
        else {
            break;
        };
        // SAFETY: there are 32 symbols and at least 64 bytes.
        let (symbol, bytes) = unsafe {
            let symbols = _mm256_loadu_si256(symbols.as_ptr().cast());
            (_mm512_cvtepu8_epi16(symbols), _mm512_loadu_si512(bytes.as_ptr().cast()))
        };
        let exponent = _mm512_srli_epi16::<2>(symbol);
        // The leading one and the two bits below it. Their shift, the exponent minus 3, is negative for the
        // smallest: so to the left by the exponent, then to the right by 3.
        let top = _mm512_or_si512(_mm512_and_si512(symbol, _mm512_set1_epi16(3)), _mm512_set1_epi16(4));
        let subnormal = _mm512_srli_epi16::<3>(_mm512_sllv_epi16(top, exponent));
        let normal = _mm512_slli_epi16::<8>(_mm512_sub_epi16(symbol, _mm512_set1_epi16(40)));
        let is_normal = _mm512_cmpgt_epi16_mask(exponent, _mm512_set1_epi16(10));
        let magnitude = _mm512_mask_blend_epi16(is_normal, subnormal, normal);
        let width = _mm512_subs_epu16(exponent, _mm512_set1_epi16(3));
        let width = _mm512_add_epi16(_mm512_min_epu16(width, _mm512_set1_epi16(8)), _mm512_set1_epi16(SIGNS));
        // Prefix sums of the widths: inside each quarter of the register, then over the quarters.
        let sum = _mm512_add_epi16(width, _mm512_bslli_epi128::<2>(width));
        let sum = _mm512_add_epi16(sum, _mm512_bslli_epi128::<4>(sum));
        let sum = _mm512_add_epi16(sum, _mm512_bslli_epi128::<8>(sum));
        let sum = _mm512_add_epi16(sum, _mm512_maskz_permutexvar_epi16(0xffff_ff00, first, sum));
        let sum = _mm512_add_epi16(sum, _mm512_maskz_permutexvar_epi16(0xffff_0000, second, sum));
        let start = _mm512_set1_epi16((verbatim.position % 8) as i16);
        let start = _mm512_add_epi16(_mm512_sub_epi16(sum, width), start);
        // An element has at most nine bits, so the two bytes from its first one on have them all.
        let byte = _mm512_srli_epi16::<3>(start);
        let pair = _mm512_or_si512(byte, _mm512_slli_epi16::<8>(byte));
        let pair = _mm512_permutexvar_epi8(_mm512_add_epi16(pair, _mm512_set1_epi16(0x100)), bytes);
        let field = _mm512_srlv_epi16(pair, _mm512_and_si512(start, _mm512_set1_epi16(7)));
        let field = _mm512_and_si512(field, _mm512_sub_epi16(_mm512_sllv_epi16(one, width), one));
        let field = if SIGNS == 0 {
            field
        } else {
            _mm512_or_si512(_mm512_srli_epi16::<1>(field), _mm512_slli_epi16::<15>(field))
        };
        let element = _mm512_or_si512(_mm512_or_si512(magnitude, sign), field);
        // SAFETY: there is room for 32 elements.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), element) };
        let last = _mm512_extracti32x4_epi32::<3>(sum);
        verbatim.position += _mm_extract_epi16::<7>(last) as usize;
        done += SUBNORMAL_GROUP;
    }
    done
}

/// The index of the last of the eight numbers of each quarter, four times.
const LAST_OF_0: i64 = 0x0007_0007_0007_0007;
const LAST_OF_1: i64 = 0x000f_000f_000f_000f;
const LAST_OF_2: i64 = 0x0017_0017_0017_0017;
