//! The nested coder on x86 with AVX2 and BMI2: the shared code compiled for those instructions, with bit deposit, bit
//! extract and the sixteen-entry byte shuffle where the portable kernel loops.

use crate::entropy::nested::{Geometry, Shifts, Steps, decode_with, encode_with};
use crate::error::Result;
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256, _pdep_u64, _pext_u64,
};

/// The encoder, compiled for this kernel.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn encode(
    elements: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    encode_with::<Avx2>(elements, geometry, shifts, out)
}

/// The decoder, compiled for this kernel.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn decode(
    block: &[u8],
    geometry: Geometry,
    shifts: Shifts<'_>,
    out: &mut [u8],
) -> Result<()> {
    decode_with::<Avx2>(block, geometry, shifts, out)
}

/// Only reachable from the two functions above, which enable the features; named elsewhere only by kernels whose functions enable them too.
pub(in crate::arch) struct Avx2;

/// The bits of `WIDTH`-bit fields whose low bits are given.
#[inline(always)]
fn field_mask<const WIDTH: u32>(escapes: u64) -> u64 {
    if WIDTH == 1 { escapes } else { escapes | escapes << 1 }
}

impl Steps for Avx2 {
    #[inline(always)]
    fn spread<const WIDTH: u32>(bits: u64, escapes: u64) -> u64 {
        // SAFETY: every caller of this kernel enables BMI2.
        unsafe { _pdep_u64(bits, field_mask::<WIDTH>(escapes)) }
    }

    #[inline(always)]
    fn gather<const WIDTH: u32>(fields: u64, escapes: u64) -> u64 {
        // SAFETY: every caller of this kernel enables BMI2.
        unsafe { _pext_u64(fields, field_mask::<WIDTH>(escapes)) }
    }

    #[inline(always)]
    fn look_up(low: &[u64; 4], high: &[u64; 4], symbols: &[u8; 16], out: &mut [u8; 128]) {
        // SAFETY: every caller of this kernel enables AVX2; the loads and stores take exactly the 32 bytes of `low` and
        // `high`, the 16 of `symbols` and the four quarters of `out`, with no need of alignment.
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
