//! The step of an rANS decoder with AVX-512: sixteen lanes per register.
#![allow(unsafe_code)]

use crate::entropy::rans::{DecoderTables, STATE_MIN};
use std::arch::asm;
use std::arch::x86_64::*;

/// Sixteen table indices, spilled to memory: loading an index from there takes fewer instructions than
/// extracting it from a register, and stored early, the dependent loads overlap with the next group's
/// arithmetic.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(in crate::arch) struct SpilledIndices([u64; 8]);

impl SpilledIndices {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn store(&mut self, index: __m512i) {
        // SAFETY: there are as many numbers, aligned like a register. Compilers would move what is not
        // volatile out of the register all the same.
        unsafe { self.0.as_mut_ptr().cast::<__m512i>().write_volatile(index) }
    }

    /// Two neighbours: one load is enough for both.
    #[inline(always)]
    fn pair(&self, at: usize) -> u64 {
        // SAFETY: a reference to a number can be read from.
        unsafe { std::ptr::from_ref(&self.0[at % 8]).read_volatile() }
    }
}

/// The decoder's table with the constants of a step.
pub(in crate::arch) struct TableLookup<'a> {
    slots: &'a [u32],
    slot_mask: __m512i,
    precision: __m128i,
}

impl<'a> TableLookup<'a> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn new(tables: &'a DecoderTables) -> Self {
        let slots = tables.slots();
        assert!(slots.len().is_power_of_two() && slots.len() >= 1 << tables.precision());
        Self {
            slots,
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

    /// The entries at these places.
    ///
    /// # Safety
    ///
    /// The places must have been made by [`TableLookup::index`] with offsets of contexts that the table has.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    pub unsafe fn entries(&self, places: &SpilledIndices) -> __m512i {
        let table = self.slots.as_ptr();
        // In assembly, because compilers hoist the loads, spill their results and insert them from the stack.
        let four = |at: usize| {
            let (first, second) = (places.pair(at), places.pair(at + 1));
            let entries: __m128i;
            // SAFETY: the caller vouches for the places.
            unsafe {
                asm!(
                    "vmovd {entries}, dword ptr [{table} + 4 * {a}]",
                    "vpinsrd {entries}, {entries}, dword ptr [{table} + 4 * {b}], 1",
                    "vpinsrd {entries}, {entries}, dword ptr [{table} + 4 * {c}], 2",
                    "vpinsrd {entries}, {entries}, dword ptr [{table} + 4 * {d}], 3",
                    entries = out(xmm_reg) entries,
                    table = in(reg) table,
                    a = in(reg) first & 0xffff_ffff,
                    b = in(reg) first >> 32,
                    c = in(reg) second & 0xffff_ffff,
                    d = in(reg) second >> 32,
                    options(readonly, nostack, preserves_flags),
                );
            }
            entries
        };
        let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(0)), four(2));
        let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(4)), four(6));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }

    /// The states after their symbols, which have these entries, have been decoded.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn without(&self, state: __m512i, entries: __m512i) -> __m512i {
        let frequency = _mm512_srli_epi32::<20>(entries);
        // An entry without its symbol is `frequency << 12 | offset`. Rather than masking the frequency out,
        // 2^12 is taken off its factor, the quotient, which is ready before the entry is.
        let quotient = _mm512_sub_epi32(_mm512_srl_epi32(state, self.precision), _mm512_set1_epi32(1 << 12));
        _mm512_add_epi32(_mm512_mullo_epi32(frequency, quotient), _mm512_srli_epi32::<8>(entries))
    }

    /// Refills the states that are too small with a word from the stream.
    ///
    /// # Safety
    ///
    /// 32 bytes must be readable at `words + bytes`; `bytes` grows by at most as many.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub unsafe fn refill(&self, state: __m512i, words: *const u8, bytes: &mut usize) -> __m512i {
        let small = _mm512_cmplt_epu32_mask(state, _mm512_set1_epi32(STATE_MIN as i32));
        // SAFETY: the caller vouches for the words.
        let fresh = _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(words.add(*bytes).cast()) });
        *bytes += 2 * small.count_ones() as usize;
        let shifted = _mm512_mask_slli_epi32::<16>(state, small, state);
        _mm512_or_si512(shifted, _mm512_maskz_expand_epi32(small, fresh))
    }
}
