//! What the AVX-512 versions of the hot loops share. They want the instructions that CPUs have had since Ice Lake and Zen 4, among them byte permutations and expansion. Loops
//! without a version of their own run as for AVX2.
#![allow(unsafe_code)]

pub(super) mod differences;
pub(super) mod encode;
pub(super) mod encode_mixed;
pub(super) mod heads;
pub(super) mod lanes;
pub(super) mod nested;
pub(super) mod nested_encode;
pub(super) mod nested_levels;
pub(super) mod nested_store;
pub(super) mod nested_tails;
pub(super) mod raw_bits;
pub(super) mod restore;
pub(super) mod signs;
pub(super) mod step;
pub(super) mod subnormals;

use crate::entropy::rans::{DecoderTables, LANES};
use std::arch::x86_64::*;
use step::{Lookup, Places};

/// Whether this CPU has the instructions of this level, and those of AVX2 below it.
pub(super) fn runs() -> bool {
    super::avx2::runs()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
}

/// See [`super::Kernel::vectorised`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(super) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Bytes of words that a group of so many symbols may look at: it reads at most one word per lane, and no load reaches further than the words of its own lanes.
pub(super) const fn reach(lanes: usize) -> usize {
    2 * lanes
}

/// See [`super::Kernel::rans_decode`]; there are [`LANES`] or twice as many states.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2,popcnt")]
pub(super) fn rans_decode(
    tables: &DecoderTables,
    states: &mut [u32],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    match (states.len() > LANES, offsets.is_empty()) {
        (false, true) => decode::<1, false>(tables, states, offsets, words, out),
        (false, false) => decode::<1, true>(tables, states, offsets, words, out),
        (true, true) => decode::<2, false>(tables, states, offsets, words, out),
        (true, false) => decode::<2, true>(tables, states, offsets, words, out),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2,popcnt")]
fn decode<const PARTS: usize, const OFFSETS: bool>(
    tables: &DecoderTables,
    states: &mut [u32],
    offsets: &[u16],
    words: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    let lanes = PARTS * LANES;
    let mut groups = out.len() / lanes;
    if OFFSETS {
        groups = groups.min(offsets.len() / lanes);
    }
    let lookup = Lookup::new(tables);
    let index_mask = _mm512_set1_epi32((tables.slots().len() - 1) as i32);
    let mut registers = load_states::<PARTS>(states);
    let (mut group, mut bytes) = (0, 0usize);
    while group < groups && words.len() - bytes >= reach(lanes) {
        for (vector, state) in registers.as_flattened_mut().iter_mut().enumerate() {
            let start = group * lanes + 16 * vector;
            // SAFETY: `group` is below the number of whole groups in `offsets` (if it is used) and `out`; each refill takes at most 32 bytes of words, of which
            // there were enough for all lanes of the group.
            unsafe {
                let offset = if OFFSETS {
                    let offsets = _mm256_loadu_si256(offsets.as_ptr().add(start).cast());
                    _mm512_and_si512(_mm512_cvtepu16_epi32(offsets), index_mask)
                } else {
                    _mm512_setzero_si512()
                };
                let mut places = Places::default();
                places.store(lookup.index(*state, offset));
                let entries = lookup.entries(&places);
                *state = lookup.refill(lookup.without(*state, entries), words.as_ptr(), &mut bytes);
                _mm_storeu_si128(out.as_mut_ptr().add(start).cast(), _mm512_cvtepi32_epi8(entries));
            }
        }
        group += 1;
    }
    store_states(&registers, states);
    (group * lanes, bytes)
}

/// States in registers, by parts of [`LANES`].
pub(super) type States<const PARTS: usize> = [[__m512i; LANES / 16]; PARTS];

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_states<const PARTS: usize>(states: &[u32]) -> States<PARTS> {
    let mut registers = [[_mm512_setzero_si512(); LANES / 16]; PARTS];
    for (register, lanes) in registers.as_flattened_mut().iter_mut().zip(states.chunks_exact(16)) {
        // SAFETY: `lanes` holds sixteen u32.
        *register = unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) };
    }
    registers
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_states<const PARTS: usize>(registers: &States<PARTS>, states: &mut [u32]) {
    for (register, lanes) in registers.as_flattened().iter().zip(states.chunks_exact_mut(16)) {
        // SAFETY: `lanes` holds sixteen u32.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), *register) };
    }
}
