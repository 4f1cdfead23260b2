//! The symbols of differences with AVX2: eight at a time, whose highest bits are found by way of floats.
#![allow(unsafe_code)]

use super::avx2::pack_symbols;
use super::avx2_raw_bits::load;
use crate::transform::reference::{Alphabet, PIECE, Word};
use std::arch::x86_64::*;

/// See [`super::Kernel::symbols`]: whole pieces only; returns how many symbols those were.
#[target_feature(enable = "avx2")]
pub(super) fn symbols<W: Word>(alphabet: Alphabet, differences: &[W], symbols: &mut [u8]) -> usize {
    if W::BYTES != 2 && W::BYTES != 4 {
        return 0;
    }
    let split = Split::new(alphabet);
    let mut done = 0;
    for (differences, symbols) in differences.chunks_exact(PIECE).zip(symbols.chunks_exact_mut(PIECE)) {
        // SAFETY: both pieces have 32 elements.
        unsafe {
            let place = differences.as_ptr();
            let all = [load(place), load(place.add(8)), load(place.add(16)), load(place.add(24))];
            let [a, b, c, d] = all;
            let any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
            // Differences below a power of two are symbols themselves.
            let small = _mm256_testz_si256(any, split.above_direct) == 1;
            let found = if small { all } else { [split.of(a), split.of(b), split.of(c), split.of(d)] };
            _mm256_storeu_si256(symbols.as_mut_ptr().cast(), pack_symbols(found));
        }
        done += PIECE;
    }
    done
}

/// How differences become symbols.
struct Split {
    direct: __m256i,
    /// The bits that differences without raw bits do not have.
    above_direct: __m256i,
    top_bits: __m256i,
    top_shift: __m128i,
    /// What is added to the first bits of a difference and the place of its highest.
    bias: __m256i,
}

impl Split {
    #[target_feature(enable = "avx2")]
    fn new(alphabet: Alphabet) -> Self {
        let (direct, top) = (alphabet.direct() as i32, alphabet.top_bits as i32);
        Self {
            direct: _mm256_set1_epi32(direct),
            above_direct: _mm256_set1_epi32(-direct),
            top_bits: _mm256_set1_epi32(top),
            top_shift: _mm_cvtsi32_si128(top),
            bias: _mm256_set1_epi32(direct - ((alphabet.direct_bits as i32 + 1) << top)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(&self, differences: __m256i) -> __m256i {
        // Half of the number is never negative; without the bit below its highest it does not round up to the next power of two.
        let half = _mm256_srli_epi32::<1>(differences);
        let half = _mm256_andnot_si256(_mm256_srli_epi32::<1>(half), half);
        let float = _mm256_castps_si256(_mm256_cvtepi32_ps(half));
        let highest = _mm256_sub_epi32(_mm256_srli_epi32::<23>(float), _mm256_set1_epi32(126));
        let top = _mm256_srlv_epi32(differences, _mm256_sub_epi32(highest, self.top_bits));
        let bucket = _mm256_add_epi32(_mm256_sll_epi32(highest, self.top_shift), top);
        let bucket = _mm256_add_epi32(bucket, self.bias);
        let large = _mm256_cmpeq_epi32(_mm256_max_epu32(differences, self.direct), differences);
        _mm256_blendv_epi8(differences, bucket, large)
    }
}
