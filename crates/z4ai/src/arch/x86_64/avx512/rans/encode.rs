//! The rANS encoder with AVX-512: sixteen lanes per register, and tables in registers too.
#![allow(unsafe_code)]

use super::encode_contexts;
use crate::entropy::rans::{COMPACT_HALF, CompactTable, CompactTables, LANES};
use std::arch::x86_64::*;

/// One in so many groups of [`LANES`] symbols may have several contexts here; each of its contexts takes as
/// long as a group. A round number.
const MIXED_GROUPS: usize = 8;

/// Whether contexts change seldom.
fn change_seldom(contexts: &[u8]) -> bool {
    let groups = contexts.as_chunks::<LANES>().0;
    let mixed = groups.iter().filter(|group| **group != [group[0]; LANES]).count();
    mixed * MIXED_GROUPS <= groups.len()
}

/// Encodes whole groups, whose words end at `end`; there are [`LANES`] or twice as many states. `None` if
/// that would not be quicker than with tables in memory.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")]
pub(in crate::arch) fn encode_groups(
    tables: &CompactTables,
    precision: u32,
    states: &mut [u32],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    end: usize,
) -> Option<usize> {
    if !change_seldom(contexts) {
        let (planes, states) = (tables.planes.as_ref()?, states.try_into().ok()?);
        let stream = encode_contexts::ContextStream { planes, moved: tables.moved, precision };
        return Some(stream.encode(states, symbols, contexts, words, end));
    }
    Some(match (states.len() > LANES, tables.is_half) {
        (true, true) => encode::<2, true>(tables, precision, states, symbols, contexts, words, end),
        (true, false) => encode::<2, false>(tables, precision, states, symbols, contexts, words, end),
        (false, true) => encode::<1, true>(tables, precision, states, symbols, contexts, words, end),
        (false, false) => encode::<1, false>(tables, precision, states, symbols, contexts, words, end),
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,avx2,bmi2,popcnt")]
fn encode<const PARTS: usize, const HALF: bool>(
    tables: &CompactTables,
    precision: u32,
    states: &mut [u32],
    symbols: &[u8],
    contexts: &[u8],
    words: &mut [u8],
    end: usize,
) -> usize {
    assert!(contexts.is_empty() || contexts.len() == symbols.len());
    // Each part stores 64 bytes that end where the words so far begin, and moves that place by two bytes per
    // symbol at most.
    assert!(end <= words.len() && end >= 2 * symbols.len() + 2 * LANES);
    let constants = EncoderRegisters::new(tables, precision);
    let mut registers = [[_mm512_setzero_si512(); 2]; PARTS];
    for (register, lanes) in registers.iter_mut().zip(states.as_chunks().0) {
        *register = load_states(lanes);
    }
    let mut start = end;
    for group in (0..symbols.len() / (PARTS * LANES)).rev() {
        for (part, state) in registers.iter_mut().enumerate().rev() {
            let place = (group * PARTS + part) * LANES;
            // SAFETY: the part's 32 symbols are inside.
            let symbols = unsafe { _mm256_loadu_si256(symbols.as_ptr().add(place).cast()) };
            let entries = match contexts.get(place..place + LANES).and_then(<[u8]>::first_chunk) {
                None => constants.entries::<HALF>(constants.places(symbols), &tables.tables[0]),
                Some(contexts) => constants.entries_in::<HALF>(symbols, contexts, tables),
            };
            // SAFETY: `start` is at least 64 before each part (see above).
            unsafe { constants.step(state, entries, words.as_mut_ptr(), &mut start) };
        }
    }
    for (register, lanes) in registers.iter().zip(states.as_chunks_mut().0) {
        store_states(*register, lanes);
    }
    start
}

/// The states of 32 lanes: of each eight the first four in one register and the others in another, which is
/// how words of 16 bits are put together to numbers of 32.
type PartStates = [__m512i; 2];

#[inline]
#[target_feature(enable = "avx512f")]
fn load_states(lanes: &[u32; LANES]) -> PartStates {
    // SAFETY: there are 32 numbers.
    let (first, second) = unsafe {
        (_mm512_loadu_si512(lanes.as_ptr().cast()), _mm512_loadu_si512(lanes.as_ptr().add(16).cast()))
    };
    let low = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    let high = _mm512_add_epi32(low, _mm512_set1_epi32(4));
    [_mm512_permutex2var_epi32(first, low, second), _mm512_permutex2var_epi32(first, high, second)]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_states([low, high]: PartStates, lanes: &mut [u32; LANES]) {
    let first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    // SAFETY: there are 32 numbers.
    unsafe {
        let (target, last) = (lanes.as_mut_ptr(), lanes.as_mut_ptr().add(16));
        _mm512_storeu_si512(target.cast(), _mm512_permutex2var_epi32(low, first, high));
        _mm512_storeu_si512(last.cast(), _mm512_permutex2var_epi32(low, second, high));
    }
}

/// The words of 32 entries, in the order of [`CompactTable::words`].
type Entries = [__m512i; 4];

/// What the steps of a stream share.
struct EncoderRegisters {
    escapes: __m512i,
    moved: __m512i,
    /// Where the low words of states are, in the order of lanes.
    low_words: __m512i,
    push: Push,
}

impl EncoderRegisters {
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(tables: &CompactTables, precision: u32) -> Self {
        let low_words: [u16; LANES] = std::array::from_fn(|lane| {
            let place = lane / 8 * 4 + lane % 4;
            2 * place as u16 + if lane % 8 < 4 { 0 } else { LANES as u16 }
        });
        Self {
            escapes: _mm512_set1_epi16(CompactTables::ESCAPE_SYMBOLS as i16),
            moved: _mm512_set1_epi16(tables.moved as i16),
            // SAFETY: there are 32 numbers of two bytes.
            low_words: unsafe { _mm512_loadu_si512(low_words.as_ptr().cast()) },
            push: Push::new(precision),
        }
    }

    /// Where in a table the entries of symbols are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn places(&self, symbols: __m256i) -> __m512i {
        let symbols = _mm512_cvtepu8_epi16(symbols);
        let moves = _mm512_cmpge_epu16_mask(symbols, self.escapes);
        _mm512_mask_sub_epi16(symbols, moves, symbols, self.moved)
    }

    /// The entries at these places of one table.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn entries<const HALF: bool>(&self, places: __m512i, table: &CompactTable) -> Entries {
        let in_second = _mm512_test_epi16_mask(places, _mm512_set1_epi16(COMPACT_HALF as i16));
        let mut entries = [_mm512_setzero_si512(); 4];
        for (entry, words) in entries.iter_mut().zip(&table.words) {
            let (first, second) = words.split_at(COMPACT_HALF);
            let look_up = |words: &[u16]| {
                let (first, second) = words[..COMPACT_HALF].split_at(LANES);
                // SAFETY: each part has 32 words of two bytes.
                let (first, second) = unsafe {
                    (_mm512_loadu_si512(first.as_ptr().cast()), _mm512_loadu_si512(second.as_ptr().cast()))
                };
                _mm512_permutex2var_epi16(first, places, second)
            };
            *entry = look_up(first);
            if !HALF {
                *entry = _mm512_mask_mov_epi16(*entry, in_second, look_up(second));
            }
        }
        entries
    }

    /// The entries of symbols in these contexts.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn entries_in<const HALF: bool>(
        &self,
        symbols: __m256i,
        contexts: &[u8; LANES],
        tables: &CompactTables,
    ) -> Entries {
        let (places, mask) = (self.places(symbols), tables.tables.len() - 1);
        // SAFETY: there are 32 contexts of one byte.
        let all = unsafe { _mm256_loadu_si256(contexts.as_ptr().cast()) };
        let mut lanes = _mm256_cmpeq_epi8_mask(all, _mm256_set1_epi8(contexts[0] as i8));
        let mut entries = self.entries::<HALF>(places, &tables.tables[usize::from(contexts[0]) & mask]);
        while lanes != u32::MAX {
            let context = contexts[lanes.trailing_ones() as usize % LANES];
            let these = _mm256_cmpeq_epi8_mask(all, _mm256_set1_epi8(context as i8));
            let others = self.entries::<HALF>(places, &tables.tables[usize::from(context) & mask]);
            for (entry, other) in entries.iter_mut().zip(others) {
                *entry = _mm512_mask_mov_epi16(*entry, these, other);
            }
            lanes |= these;
        }
        entries
    }

    /// Encodes one symbol in each of 32 lanes.
    ///
    /// # Safety
    ///
    /// The 64 bytes before `words + start` must be writable.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
    unsafe fn step(&self, states: &mut PartStates, entries: Entries, words: *mut u8, start: &mut usize) {
        let fields =
            [_mm512_unpacklo_epi16(entries[0], entries[1]), _mm512_unpackhi_epi16(entries[0], entries[1])];
        let reciprocals =
            [_mm512_unpacklo_epi16(entries[2], entries[3]), _mm512_unpackhi_epi16(entries[2], entries[3])];
        let leaving = _mm512_permutex2var_epi16(states[0], self.low_words, states[1]);
        let mut leave = [0; 2];
        for (index, state) in states.iter_mut().enumerate() {
            leave[index] = self.push.sixteen(state, fields[index], reciprocals[index]).into();
        }
        let mask = _pdep_u32(leave[0], 0x0f0f_0f0f) | _pdep_u32(leave[1], 0xf0f0_f0f0);
        // SAFETY: the caller vouches for the place.
        unsafe { self.push.spill(leaving, mask, words, start) };
    }
}

/// What encoding a symbol takes once its entry is there.
pub(in crate::arch) struct Push {
    /// A frequency, shifted left by this, is the least state that spills before its symbol.
    limit_shift: __m128i,
    /// `2^precision`.
    size: __m512i,
    /// 0, 1, 2…
    numbers: __m512i,
}

impl Push {
    #[target_feature(enable = "avx512f")]
    pub fn new(precision: u32) -> Self {
        let numbers: [u16; LANES] = std::array::from_fn(|number| number as u16);
        Self {
            limit_shift: _mm_cvtsi32_si128(31 - precision as i32),
            size: _mm512_set1_epi32(1 << precision),
            // SAFETY: there are 32 numbers of two bytes.
            numbers: unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) },
        }
    }

    /// Encodes one symbol in each of sixteen lanes, and returns which of these spill their low words.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn sixteen(&self, state: &mut __m512i, fields: __m512i, reciprocal: __m512i) -> __mmask16 {
        let frequency = _mm512_and_si512(fields, _mm512_set1_epi32(0xfff));
        let limit = _mm512_sll_epi32(frequency, self.limit_shift);
        let large = _mm512_cmpge_epu32_mask(*state, limit);
        let left = _mm512_mask_srli_epi32::<16>(*state, large, *state);
        let even = _mm512_mul_epu32(left, reciprocal);
        let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(left), _mm512_srli_epi64::<32>(reciprocal));
        let product = _mm512_mask_shuffle_epi32::<0b11_11_01_01>(odd, 0x5555, even);
        let shift = _mm512_and_si512(_mm512_srli_epi32::<12>(fields), _mm512_set1_epi32(15));
        let quotient = _mm512_srlv_epi32(product, shift);
        let complement = _mm512_sub_epi32(self.size, frequency);
        let bias = _mm512_srli_epi32::<16>(fields);
        *state = _mm512_add_epi32(_mm512_add_epi32(left, bias), _mm512_mullo_epi32(quotient, complement));
        large
    }

    /// Spills those of 32 words that a mask names, in front of the words so far.
    ///
    /// # Safety
    ///
    /// The 64 bytes before `words + start` must be writable.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    pub unsafe fn spill(&self, leaving: __m512i, mask: u32, words: *mut u8, start: &mut usize) {
        let count = mask.count_ones();
        // Compressed words are at the front; a rotation puts them at the end.
        let turn = _mm512_add_epi16(self.numbers, _mm512_set1_epi16(count as i16));
        let compressed = _mm512_permutexvar_epi16(turn, _mm512_maskz_compress_epi16(mask, leaving));
        // SAFETY: the caller vouches for the place.
        unsafe { _mm512_storeu_si512(words.add(*start - 64).cast(), compressed) };
        *start -= 2 * count as usize;
    }
}
