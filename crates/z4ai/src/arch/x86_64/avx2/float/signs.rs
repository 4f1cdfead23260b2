//! Signs that are coded apart, with AVX2: 32 at a time.
#![allow(unsafe_code)]

use crate::transform::float;
use std::arch::x86_64::*;

/// Elements of a turn, and bytes of their signs.
const SIGNS_OF_TURN: usize = 32;
const BYTES: usize = SIGNS_OF_TURN / 8;

#[target_feature(enable = "avx2")]
pub(super) fn pack(heads: &[u16], packed: &mut [u8]) {
    let (groups, rest) = heads.as_chunks::<SIGNS_OF_TURN>();
    let (bytes, last) = packed.split_at_mut(groups.len() * BYTES);
    for (heads, bytes) in groups.iter().zip(bytes.as_chunks_mut::<BYTES>().0) {
        // SAFETY: there are two registers of heads.
        let [low, high] = [0, 16].map(|at| unsafe { _mm256_loadu_si256(heads.as_ptr().add(at).cast()) });
        // Saturation keeps signs. Packing works per 128-bit half; the permutation puts the groups of eight
        // back in order.
        let signs = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
        *bytes = _mm256_movemask_epi8(signs).to_le_bytes();
    }
    float::pack_signs(rest, last);
}

#[target_feature(enable = "avx2")]
pub(super) fn set(packed: &[u8], elements: &mut [[u8; 2]]) {
    let (groups, rest) = elements.as_chunks_mut::<SIGNS_OF_TURN>();
    let (bytes, last) = packed.split_at(packed.len().min(groups.len() * BYTES));
    let places =
        _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
    let minus = _mm256_set1_epi16(i16::MIN);
    for (elements, bytes) in groups.iter_mut().zip(bytes.as_chunks::<BYTES>().0) {
        for (half, &signs) in bytes.as_chunks::<2>().0.iter().enumerate() {
            let bits = _mm256_and_si256(_mm256_set1_epi16(i16::from_le_bytes(signs)), places);
            let signs = _mm256_and_si256(_mm256_cmpeq_epi16(bits, places), minus);
            // SAFETY: there are two registers of elements.
            unsafe {
                let place = elements.as_mut_ptr().add(16 * half).cast();
                _mm256_storeu_si256(place, _mm256_or_si256(_mm256_loadu_si256(place), signs));
            }
        }
    }
    float::set_signs(last, rest);
}
