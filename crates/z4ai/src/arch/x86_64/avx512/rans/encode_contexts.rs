//! The rANS encoder with AVX-512 for symbols whose contexts change from one to the next: the tables of four
//! contexts as byte planes, in which one instruction looks up 64 symbols.
#![allow(unsafe_code)]

use super::encode::Push;
use crate::entropy::rans::{COMPACT_CONTEXTS, COMPACT_HALF, CompactPlanes, CompactTables, MOST_LANES};
use std::arch::x86_64::*;

/// What a stream is encoded with.
pub(in crate::arch) struct ContextStream<'a> {
    pub planes: &'a CompactPlanes,
    /// See [`CompactTables::moved`].
    pub moved: u16,
    pub precision: u32,
}

/// The states of 64 lanes: of each sixteen the first four in the first register, the next four in the
/// second, and so on, which is how bytes are put together to numbers of 32 bits.
type ContextStates = [__m512i; 4];

/// 32-bit numbers in the same order.
type Numbers = [__m512i; 4];

impl ContextStream<'_> {
    /// Encodes whole groups, whose words end at `end`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")]
    pub fn encode(
        &self,
        lanes: &mut [u32; MOST_LANES],
        symbols: &[u8],
        contexts: &[u8],
        words: &mut [u8],
        end: usize,
    ) -> usize {
        assert!(contexts.len() == symbols.len());
        // Each half of a group stores 64 bytes that end where the words so far begin, and moves that place by
        // two bytes per symbol at most.
        assert!(end <= words.len() && end >= 2 * symbols.len() + MOST_LANES);
        let push = Push::new(self.precision);
        let order = WordOrder::new();
        let mut states = load_states(lanes);
        let mut start = end;
        let groups = symbols.as_chunks().0.iter().zip(contexts.as_chunks().0);
        for (symbols, contexts) in groups.rev() {
            let (fields, reciprocals) = self.entries(symbols, contexts);
            let [first, second] = order.low_words(states);
            let mut mask = 0;
            for (index, state) in states.iter_mut().enumerate() {
                let leave = push.sixteen(state, fields[index], reciprocals[index]);
                mask |= _pdep_u64(leave.into(), 0x000f_000f_000f_000f << (4 * index));
            }
            // SAFETY: `start` is at least 64 before each half (see above).
            unsafe {
                push.spill(second, (mask >> 32) as u32, words.as_mut_ptr(), &mut start);
                push.spill(first, mask as u32, words.as_mut_ptr(), &mut start);
            }
        }
        store_states(states, lanes);
        start
    }

    /// The fields and the reciprocals of 64 symbols.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn entries(&self, symbols: &[u8; MOST_LANES], contexts: &[u8; MOST_LANES]) -> (Numbers, Numbers) {
        // SAFETY: there are 64 bytes of each.
        let (symbols, contexts) = unsafe {
            (_mm512_loadu_si512(symbols.as_ptr().cast()), _mm512_loadu_si512(contexts.as_ptr().cast()))
        };
        let escapes = _mm512_set1_epi8(CompactTables::ESCAPE_SYMBOLS as i8);
        let moves = _mm512_cmpge_epu8_mask(symbols, escapes);
        let places = _mm512_mask_sub_epi8(symbols, moves, symbols, _mm512_set1_epi8(self.moved as i8));
        let contexts = _mm512_and_si512(contexts, _mm512_set1_epi8(COMPACT_CONTEXTS as i8 - 1));
        // Contexts are below four, so no bit gets into the next byte.
        let contexts = _mm512_slli_epi16::<{ COMPACT_HALF.trailing_zeros() }>(contexts);
        let places = _mm512_or_si512(places, contexts);
        let in_second = _mm512_movepi8_mask(places);
        let mut bytes = [_mm512_setzero_si512(); 8];
        for (byte, plane) in bytes.iter_mut().zip(&self.planes.0) {
            // SAFETY: a plane has 256 bytes.
            let part = |index: usize| unsafe { _mm512_loadu_si512(plane.as_ptr().add(64 * index).cast()) };
            let first = _mm512_permutex2var_epi8(part(0), places, part(1));
            let second = _mm512_permutex2var_epi8(part(2), places, part(3));
            *byte = _mm512_mask_mov_epi8(first, in_second, second);
        }
        let [a, b, c, d, e, f, g, h] = bytes;
        (numbers([a, b, c, d]), numbers([e, f, g, h]))
    }
}

/// Numbers of 32 bits from their bytes, the lowest first.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn numbers([a, b, c, d]: [__m512i; 4]) -> Numbers {
    let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
    let (last_low, last_high) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(low, high),
        _mm512_unpackhi_epi16(low, high),
        _mm512_unpacklo_epi16(last_low, last_high),
        _mm512_unpackhi_epi16(last_low, last_high),
    ]
}

/// In which lane a state is.
fn lane(register: usize, place: usize) -> usize {
    place / 4 * 16 + register * 4 + place % 4
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_states(lanes: &[u32; MOST_LANES]) -> ContextStates {
    let mut states = [_mm512_setzero_si512(); 4];
    for (register, state) in states.iter_mut().enumerate() {
        let ordered: [u32; 16] = std::array::from_fn(|place| lanes[lane(register, place)]);
        // SAFETY: there are sixteen numbers.
        *state = unsafe { _mm512_loadu_si512(ordered.as_ptr().cast()) };
    }
    states
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_states(states: ContextStates, lanes: &mut [u32; MOST_LANES]) {
    for (register, state) in states.into_iter().enumerate() {
        let mut ordered = [0u32; 16];
        // SAFETY: there are sixteen numbers.
        unsafe { _mm512_storeu_si512(ordered.as_mut_ptr().cast(), state) };
        ordered.iter().enumerate().for_each(|(place, &state)| lanes[lane(register, place)] = state);
    }
}

/// Where the low words of states are.
struct WordOrder {
    /// In two registers, the words of four states of each in turn.
    pairs: __m512i,
    /// In the words of two such pairs, eight of each in turn.
    first: __m512i,
    second: __m512i,
}

impl WordOrder {
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let pairs: [u16; 32] = std::array::from_fn(|word| {
            (2 * (word / 8 * 4 + word % 4) + if word % 8 < 4 { 0 } else { 32 }) as u16
        });
        Self {
            // SAFETY: there are 32 numbers of two bytes.
            pairs: unsafe { _mm512_loadu_si512(pairs.as_ptr().cast()) },
            first: _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
            second: _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15),
        }
    }

    /// The low words of the states, in the order of lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn low_words(&self, [a, b, c, d]: ContextStates) -> [__m512i; 2] {
        let (few, more) =
            (_mm512_permutex2var_epi16(a, self.pairs, b), _mm512_permutex2var_epi16(c, self.pairs, d));
        [_mm512_permutex2var_epi64(few, self.first, more), _mm512_permutex2var_epi64(few, self.second, more)]
    }
}
