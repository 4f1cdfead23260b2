//! The nested coder on x86 with AVX2 and BMI2: the shared code compiled for those instructions, with bit
//! deposit, bit extract and the sixteen-entry byte shuffle where the portable kernel loops.

use super::Avx2;
use crate::transform::nested::Steps;
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256, _pdep_u64, _pext_u64,
};

/// The bits of `WIDTH`-bit fields whose low bits are given.
#[inline(always)]
fn field_mask<const WIDTH: u32>(escapes: u64) -> u64 {
    if WIDTH == 1 { escapes } else { escapes | escapes << 1 }
}

impl Steps for Avx2 {
    #[inline(always)]
    fn deposit<const WIDTH: u32>(self, bits: u64, escapes: u64) -> u64 {
        // SAFETY: an `Avx2` exists only where the CPU has BMI2.
        unsafe { _pdep_u64(bits, field_mask::<WIDTH>(escapes)) }
    }

    #[inline(always)]
    fn extract<const WIDTH: u32>(self, fields: u64, escapes: u64) -> u64 {
        // SAFETY: an `Avx2` exists only where the CPU has BMI2.
        unsafe { _pext_u64(fields, field_mask::<WIDTH>(escapes)) }
    }

    #[inline(always)]
    fn symbols_of_ranks(self, low: &[u64; 4], high: &[u64; 4], symbols: &[u8; 16], out: &mut [u8; 128]) {
        // SAFETY: an `Avx2` exists only where the CPU has AVX2; the loads and stores take exactly the 32
        // bytes of `low` and `high`, the 16 of `symbols` and the four quarters of `out`, with no need of
        // alignment.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(symbols.as_ptr().cast()));
            let nibble = _mm256_set1_epi8(15);
            let low = _mm256_loadu_si256(low.as_ptr().cast());
            let high = _mm256_loadu_si256(high.as_ptr().cast());
            let quarters = [low, high, _mm256_srli_epi16::<4>(low), _mm256_srli_epi16::<4>(high)];
            let start = out.as_mut_ptr().cast::<__m256i>();
            for (index, ranks) in quarters.into_iter().enumerate() {
                let found = _mm256_shuffle_epi8(table, _mm256_and_si256(ranks, nibble));
                _mm256_storeu_si256(start.add(index), found);
            }
        }
    }
}
