//! AVX2 versions of the hot loops: eight lanes per register.
#![allow(unsafe_code)]

use crate::entropy::rans::{DecoderTables, LANES, STATE_MIN};
use std::arch::x86_64::*;

/// For each 8-bit mask of lanes that want a word: which of the next words each lane takes, one byte per lane.
static WORD_OF_LANE: [u64; 256] = word_of_lane();

const fn word_of_lane() -> [u64; 256] {
    let mut table = [0u64; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut word, mut entry) = (0, 0u64, 0u64);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                entry |= word << (8 * lane);
                word += 1;
            }
            lane += 1;
        }
        table[mask] = entry;
        mask += 1;
    }
    table
}

/// See [`super::Kernel::vectorised`].
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// See [`super::Kernel::rans_decode`].
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) fn rans_decode(
    tables: &DecoderTables,
    states: &mut [u32; LANES],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    if offsets.is_empty() {
        decode::<false>(tables, states, offsets, words, out)
    } else {
        decode::<true>(tables, states, offsets, words, out)
    }
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn decode<const OFFSETS: bool>(
    tables: &DecoderTables,
    states: &mut [u32; LANES],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    const VECTORS: usize = LANES / 8;
    /// A group reads at most one word per lane, and each load reaches 16 bytes.
    const REACH: usize = 2 * LANES + 16;
    let slots = tables.slots();
    assert!(slots.len().is_power_of_two() && slots.len() >= 1 << tables.precision());
    let mut groups = out.len() / LANES;
    if OFFSETS {
        groups = groups.min(offsets.len() / LANES);
    }
    let index_mask = _mm256_set1_epi32((slots.len() - 1) as i32);
    let slot_mask = _mm256_set1_epi32((1 << tables.precision()) - 1);
    let shift = _mm_cvtsi32_si128(tables.precision() as i32);
    let low12 = _mm256_set1_epi32(0xfff);
    let state_min = _mm256_set1_epi32(STATE_MIN as i32);
    let byte_mask = _mm256_set1_epi32(0xff);
    let mut state = [_mm256_setzero_si256(); VECTORS];
    for (vector, lanes) in state.iter_mut().zip(states.chunks_exact(8)) {
        // SAFETY: `lanes` holds eight u32.
        *vector = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
    }
    let (mut group, mut bytes) = (0, 0usize);
    while group < groups && words.len() - bytes >= REACH {
        let mut symbols = [_mm256_setzero_si256(); VECTORS];
        for (vector, x) in state.iter_mut().enumerate() {
            let mut index = _mm256_and_si256(*x, slot_mask);
            if OFFSETS {
                // SAFETY: group < offsets.len() / LANES, so eight values at this place are inside.
                let offset =
                    unsafe { _mm_loadu_si128(offsets.as_ptr().add(group * LANES + vector * 8).cast()) };
                index = _mm256_or_si256(index, _mm256_cvtepu16_epi32(offset));
                index = _mm256_and_si256(index, index_mask);
            }
            // SAFETY: the index is masked below the power-of-two length of `slots`, which holds all of slot_mask's range.
            let entry = unsafe { lookup(slots, index) };
            symbols[vector] = _mm256_and_si256(entry, byte_mask);
            let frequency = _mm256_srli_epi32::<20>(entry);
            let offset = _mm256_and_si256(_mm256_srli_epi32::<8>(entry), low12);
            let next = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srl_epi32(*x, shift)), offset);
            // States are below 2^31, so the signed comparison is right.
            let small = _mm256_cmpgt_epi32(state_min, next);
            let mask = _mm256_movemask_ps(_mm256_castsi256_ps(small)) as u32;
            // SAFETY: `bytes` grew by at most 16 for each earlier vector of this group, and REACH bytes were left before them.
            let fresh = unsafe { _mm_loadu_si128(words.as_ptr().add(bytes).cast()) };
            let order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(WORD_OF_LANE[mask as usize & 0xff] as i64));
            let word = _mm256_permutevar8x32_epi32(_mm256_cvtepu16_epi32(fresh), order);
            let refilled = _mm256_or_si256(_mm256_slli_epi32::<16>(next), word);
            *x = _mm256_blendv_epi8(next, refilled, small);
            bytes += 2 * mask.count_ones() as usize;
        }
        let low = _mm256_packus_epi32(symbols[0], symbols[1]);
        let high = _mm256_packus_epi32(symbols[2], symbols[3]);
        // Packing works per 128-bit half; the permutation puts the groups of four back in order.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
        // SAFETY: group < out.len() / LANES.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(group * LANES).cast(), packed) };
        group += 1;
    }
    for (vector, lanes) in state.iter().zip(states.chunks_exact_mut(8)) {
        // SAFETY: `lanes` holds eight u32.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *vector) };
    }
    (group * LANES, bytes)
}

/// `slots[index]` for eight indices. Eight plain loads beat the gather instruction on the CPUs where that is microcoded, and are not slower elsewhere.
///
/// # Safety
///
/// Every index must be inside `slots`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lookup(slots: &[u32], index: __m256i) -> __m256i {
    let mut indices = [0u32; 8];
    // SAFETY: the array holds eight u32.
    unsafe { _mm256_storeu_si256(indices.as_mut_ptr().cast(), index) };
    // SAFETY: the caller vouches for the indices.
    let [a, b, c, d, e, f, g, h] =
        indices.map(|index| unsafe { *slots.get_unchecked(index as usize) } as i32);
    _mm256_setr_epi32(a, b, c, d, e, f, g, h)
}
