//! The symbols of differences with AVX2: eight at a time, whose highest bits are found by way of floats.
#![allow(unsafe_code)]

use crate::transform::reference::Alphabet;
use std::arch::x86_64::*;

/// How differences become symbols.
pub(in crate::arch) struct SymbolSplit {
    direct: __m256i,
    /// The bits that differences without raw bits do not have.
    above_direct: __m256i,
    above_short_direct: __m256i,
    top_bits: __m256i,
    top_shift: __m128i,
    /// What is added to the first bits of a difference and the place of its highest.
    bias: __m256i,
}

impl SymbolSplit {
    #[target_feature(enable = "avx2")]
    pub fn new(alphabet: Alphabet) -> Self {
        let (direct, top) = (alphabet.direct() as i32, alphabet.top_bits as i32);
        Self {
            direct: _mm256_set1_epi32(direct),
            above_direct: _mm256_set1_epi32(-direct),
            above_short_direct: _mm256_set1_epi16(-direct as i16),
            top_bits: _mm256_set1_epi32(top),
            top_shift: _mm_cvtsi32_si128(top),
            bias: _mm256_set1_epi32(direct - ((alphabet.direct_bits as i32 + 1) << top)),
        }
    }

    /// The symbols of 32 differences.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn of_all(&self, differences: [__m256i; 4]) -> [__m256i; 4] {
        let [a, b, c, d] = differences;
        let any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
        // Differences below a power of two are symbols themselves.
        if _mm256_testz_si256(any, self.above_direct) == 1 {
            return differences;
        }
        [self.of(a), self.of(b), self.of(c), self.of(d)]
    }

    /// Whether differences of two bytes that together have these bits are symbols themselves.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn are_short_symbols(&self, any: __m256i) -> bool {
        _mm256_testz_si256(any, self.above_short_direct) == 1
    }

    /// The symbols of eight differences.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn of(&self, differences: __m256i) -> __m256i {
        // Half of the number is never negative; without the bit below its highest it does not round up to the
        // next power of two.
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
