//! The rANS encoder with AVX2: eight lanes per register.
#![allow(unsafe_code)]

use super::{load_states, store_states};
use crate::arch::shuffles::WORDS_TO_END;
use crate::entropy::rans::{EncoderTables, LANES};
use crate::entropy::table::EncoderSymbol;
use std::arch::x86_64::*;

/// Encodes whole groups, whose words end at `end`; there are [`LANES`] or twice as many states.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn encode_groups(
    tables: &EncoderTables,
    states: &mut [u32],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    end: usize,
) -> usize {
    if states.len() > LANES {
        encode::<2>(tables, states, symbols, contexts, words, end)
    } else {
        encode::<1>(tables, states, symbols, contexts, words, end)
    }
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn encode<const PARTS: usize>(
    tables: &EncoderTables,
    states: &mut [u32],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    end: usize,
) -> usize {
    let entries = tables.entries();
    assert!(entries.len().is_power_of_two() && entries.len() <= 1 << 16);
    assert!(contexts.is_empty() || contexts.len() == symbols.len());
    // Each vector stores 16 bytes that end where the words so far begin, and moves that place by two bytes
    // per symbol at most.
    assert!(end <= words.len() && end >= 2 * symbols.len() + 16);
    let index_mask = _mm256_set1_epi16((entries.len() - 1) as u16 as i16);
    let constants = EncoderRegisters::new(tables.precision());
    let mut registers = load_states::<PARTS>(states);
    let mut start = end;
    for group in (0..symbols.len() / (PARTS * LANES)).rev() {
        for (part, state) in registers.iter_mut().enumerate().rev() {
            let place = (group * PARTS + part) * LANES;
            // SAFETY: the part's 32 symbols, and as many contexts if there are any, are inside.
            let (symbols, contexts) = unsafe {
                let contexts = match contexts {
                    [] => _mm256_setzero_si256(),
                    _ => _mm256_loadu_si256(contexts.as_ptr().add(place).cast()),
                };
                (_mm256_loadu_si256(symbols.as_ptr().add(place).cast()), contexts)
            };
            let even = _mm256_and_si256(_mm256_unpacklo_epi8(symbols, contexts), index_mask);
            let odd = _mm256_and_si256(_mm256_unpackhi_epi8(symbols, contexts), index_mask);
            // SAFETY: the indices are masked below the power-of-two number of entries, and `start` is at
            // least 16 before each step (see above).
            unsafe {
                let words = words.as_mut_ptr();
                let index = _mm256_extracti128_si256::<1>(odd);
                state[3] = constants.step(entries, state[3], index, words, &mut start);
                let index = _mm256_extracti128_si256::<1>(even);
                state[2] = constants.step(entries, state[2], index, words, &mut start);
                state[1] = constants.step(entries, state[1], _mm256_castsi256_si128(odd), words, &mut start);
                state[0] = constants.step(entries, state[0], _mm256_castsi256_si128(even), words, &mut start);
            }
        }
    }
    store_states(&registers, states);
    start
}

/// What the steps of a stream share.
struct EncoderRegisters {
    /// A frequency, shifted left by this, is the least state that spills before its symbol.
    limit_shift: __m128i,
    /// `2^precision`.
    size: __m256i,
}

impl EncoderRegisters {
    #[target_feature(enable = "avx2")]
    fn new(precision: u32) -> Self {
        Self {
            limit_shift: _mm_cvtsi32_si128(31 - precision as i32),
            size: _mm256_set1_epi32(1 << precision),
        }
    }

    /// Encodes one symbol in each of eight lanes and returns their states.
    ///
    /// # Safety
    ///
    /// The eight 16-bit indices must be inside `entries`, and the 16 bytes before `words + start` writable.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn step(
        &self,
        entries: &[EncoderSymbol],
        state: __m256i,
        index: __m128i,
        words: *mut u8,
        start: &mut usize,
    ) -> __m256i {
        let (few, more) = (_mm_cvtsi128_si64(index) as u64, _mm_extract_epi64::<1>(index) as u64);
        let entry = |indices: u64, place: u32| {
            // SAFETY: the caller vouches for the indices.
            unsafe { entries.as_ptr().add((indices >> (16 * place)) as usize & 0xffff).cast::<f64>() }
        };
        // Loads of eight bytes into the halves of registers: by way of memory, a load of 16 bytes would stall
        // on two stores of eight that cannot be forwarded to it.
        // SAFETY: an entry is eight bytes without padding.
        let pair = |indices: u64, place: u32| unsafe {
            _mm_castpd_ps(_mm_loadh_pd(_mm_load_sd(entry(indices, place)), entry(indices, place + 1)))
        };
        let low = _mm256_setr_m128(pair(few, 0), pair(more, 0));
        let high = _mm256_setr_m128(pair(few, 2), pair(more, 2));
        let reciprocal = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
        let fields = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));

        let frequency = _mm256_and_si256(fields, _mm256_set1_epi32(0xfff));
        let limit = _mm256_sll_epi32(frequency, self.limit_shift);
        // States and limits are below 2^31, so the signed comparison is right.
        let keeps = _mm256_cmpgt_epi32(limit, state);
        let mask = !_mm256_movemask_ps(_mm256_castsi256_ps(keeps)) as u32 & 0xff;
        let leaving = _mm256_and_si256(state, _mm256_set1_epi32(0xffff));
        let leaving =
            _mm_packus_epi32(_mm256_castsi256_si128(leaving), _mm256_extracti128_si256::<1>(leaving));
        // SAFETY: the table has 256 entries of 16 bytes; the caller vouches for the place.
        unsafe {
            let order = _mm_loadu_si128(WORDS_TO_END.as_ptr().add(mask as usize).cast());
            _mm_storeu_si128(words.add(*start - 16).cast(), _mm_shuffle_epi8(leaving, order));
        }
        *start -= 2 * mask.count_ones() as usize;

        let state = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(state), state, keeps);
        let even = _mm256_mul_epu32(state, reciprocal);
        let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(state), _mm256_srli_epi64::<32>(reciprocal));
        let product = _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(even), odd);
        let shift = _mm256_and_si256(_mm256_srli_epi32::<12>(fields), _mm256_set1_epi32(15));
        let quotient = _mm256_srlv_epi32(product, shift);
        let complement = _mm256_sub_epi32(self.size, frequency);
        let bias = _mm256_srli_epi32::<16>(fields);
        _mm256_add_epi32(_mm256_add_epi32(state, bias), _mm256_mullo_epi32(quotient, complement))
    }
}
