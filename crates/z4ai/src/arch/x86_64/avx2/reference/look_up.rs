//! Looking up bytes in a short table with AVX2: 32 at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// `table[index % 32]` for whole registers of indices; returns how many bytes those were.
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn look_up(table: &[u8; 32], indices: &[u8], found: &mut [u8]) -> usize {
    let table = ContextTable::new(table);
    let mut done = 0;
    for (indices, found) in indices.chunks_exact(32).zip(found.chunks_exact_mut(32)) {
        // SAFETY: both pieces have 32 bytes.
        unsafe {
            let chosen = table.look_up(_mm256_loadu_si256(indices.as_ptr().cast()));
            _mm256_storeu_si256(found.as_mut_ptr().cast(), chosen);
        }
        done += 32;
    }
    done
}

/// The table in registers, each half of it twice.
pub(in crate::arch) struct ContextTable {
    low: __m256i,
    high: __m256i,
}

impl ContextTable {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn new(table: &[u8; 32]) -> Self {
        // SAFETY: both halves of the table are inside it.
        unsafe {
            Self {
                low: _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())),
                high: _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().add(16).cast())),
            }
        }
    }

    /// The bytes at 32 indices, modulo 32.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn look_up(&self, indices: __m256i) -> __m256i {
        let index = _mm256_and_si256(indices, _mm256_set1_epi8(31));
        // Bit 4 of an index, moved to bit 7, chooses the half.
        let half = _mm256_slli_epi16::<3>(index);
        let (first, second) = (_mm256_shuffle_epi8(self.low, index), _mm256_shuffle_epi8(self.high, index));
        _mm256_blendv_epi8(first, second, half)
    }
}
