//! What the AVX-512 versions of the hot loops share. They want the instructions that CPUs have had since Ice Lake and Zen 4, among them byte permutations and expansion. Loops
//! without a version of their own run as for AVX2.
#![allow(unsafe_code)]

use crate::entropy::rans::{DecoderTables, LANES, STATE_MIN};
use std::arch::x86_64::*;

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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,popcnt")]
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

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,popcnt")]
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
                    _mm512_and_si512(_mm512_cvtepu16_epi32(offsets), lookup.index_mask)
                } else {
                    _mm512_setzero_si512()
                };
                let mut places = Places::default();
                places.store(lookup.index(*state, offset));
                let (entry, rest) = lookup.entry_at(*state, &places);
                *state = lookup.refill(rest, words.as_ptr(), &mut bytes);
                _mm_storeu_si128(out.as_mut_ptr().add(start).cast(), _mm512_cvtepi32_epi8(entry));
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

/// Sixteen places in a table, in memory, as in [`super::avx2::Places`]. The gather instruction takes longer than plain loads where it is microcoded.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Places([u32; 16]);

impl Places {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn store(&mut self, index: __m512i) {
        // SAFETY: there are as many numbers, aligned like a register. Compilers would move what is not volatile out of the register all the same.
        unsafe { self.0.as_mut_ptr().cast::<__m512i>().write_volatile(index) }
    }

    /// Two places at once, which is one load less.
    #[inline(always)]
    fn pair(&self, at: usize) -> (usize, usize) {
        // SAFETY: the eight pairs are aligned like the whole. x86 has the first number of a pair in its lower half.
        let pair = unsafe { self.0.as_ptr().cast::<u64>().add(at % 8).read_volatile() };
        (pair as u32 as usize, (pair >> 32) as usize)
    }
}

/// The decoder's table with the constants of a step of sixteen lanes.
pub(super) struct Lookup<'a> {
    slots: &'a [u32],
    index_mask: __m512i,
    slot_mask: __m512i,
    precision: __m128i,
}

impl<'a> Lookup<'a> {
    #[target_feature(enable = "avx512f")]
    pub fn new(tables: &'a DecoderTables) -> Self {
        let slots = tables.slots();
        assert!(slots.len().is_power_of_two() && slots.len() >= 1 << tables.precision());
        Self {
            slots,
            index_mask: _mm512_set1_epi32((slots.len() - 1) as i32),
            slot_mask: _mm512_set1_epi32((1 << tables.precision()) - 1),
            precision: _mm_cvtsi32_si128(tables.precision() as i32),
        }
    }

    /// Where the entries of sixteen states are whose contexts begin at these offsets.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn index(&self, state: __m512i, offset: __m512i) -> __m512i {
        _mm512_or_si512(_mm512_and_si512(state, self.slot_mask), offset)
    }

    /// The table's entries for sixteen states whose entries are at these places, and the states without the symbols.
    ///
    /// # Safety
    ///
    /// The places must have been made by [`Lookup::index`] with offsets of contexts that the table has.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub unsafe fn entry_at(&self, state: __m512i, places: &Places) -> (__m512i, __m512i) {
        let [(a, b), (c, d), (e, f), (g, h)] =
            [places.pair(0), places.pair(1), places.pair(2), places.pair(3)];
        let [(i, j), (k, l), (m, n), (o, p)] =
            [places.pair(4), places.pair(5), places.pair(6), places.pair(7)];
        // SAFETY: the caller vouches for the places.
        let at = |place: usize| unsafe { self.slots.as_ptr().cast::<i32>().add(place).read() };
        let entry = _mm512_setr_epi32(
            at(a),
            at(b),
            at(c),
            at(d),
            at(e),
            at(f),
            at(g),
            at(h),
            at(i),
            at(j),
            at(k),
            at(l),
            at(m),
            at(n),
            at(o),
            at(p),
        );
        // Above the offset inside the symbol the frequency is left, which the other factor makes up for: it is ready before the entry is.
        let quotient = _mm512_sub_epi32(_mm512_srl_epi32(state, self.precision), _mm512_set1_epi32(1 << 12));
        let rest = _mm512_mullo_epi32(_mm512_srli_epi32::<20>(entry), quotient);
        (entry, _mm512_add_epi32(rest, _mm512_srli_epi32::<8>(entry)))
    }

    /// The states, those that are too small with a word from the stream.
    ///
    /// # Safety
    ///
    /// 32 bytes must be readable at `words + bytes`; `bytes` grows by at most 32.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub unsafe fn refill(&self, state: __m512i, words: *const u8, bytes: &mut usize) -> __m512i {
        let small = _mm512_cmplt_epu32_mask(state, _mm512_set1_epi32(STATE_MIN as i32));
        // SAFETY: the caller vouches for the words.
        let fresh = _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(words.add(*bytes).cast()) });
        *bytes += 2 * small.count_ones() as usize;
        let word = _mm512_maskz_expand_epi32(small, fresh);
        _mm512_or_si512(_mm512_mask_slli_epi32::<16>(state, small, state), word)
    }
}
