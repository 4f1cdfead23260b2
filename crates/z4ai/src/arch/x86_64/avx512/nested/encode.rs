//! The levels of the nested coder, encoded with AVX-512, and what the code is chosen by: how often each
//! symbol occurs. As in decoding, a byte for each element stays in the order of the streams, and a mask says
//! which of 64 elements escaped the levels before.
#![allow(unsafe_code)]

use super::levels::{ELEMENT_AT_PLACE, Line, MASK_LANES, MASKS, MIXED_ELEMENTS, drop_padding, line};
use crate::transform::nested::{BitStream, Code, NESTED_CHUNK, NESTED_GROUP, histogram as plain_histogram};
use std::arch::x86_64::*;

/// Symbols that are counted by comparing; the others one by one.
const COMPARED_SYMBOLS: usize = 12;

/// A byte for each of the 256 symbols.
struct RankTable([__m512i; 4]);

impl RankTable {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(bytes: &[u8; 256]) -> Self {
        // SAFETY: there are four times 64 bytes.
        Self(std::array::from_fn(|quarter| unsafe {
            _mm512_loadu_si512(bytes.as_ptr().add(quarter * MASK_LANES).cast())
        }))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn look_up(&self, symbols: __m512i) -> __m512i {
        let low = _mm512_permutex2var_epi8(self.0[0], symbols, self.0[1]);
        let high = _mm512_permutex2var_epi8(self.0[2], symbols, self.0[3]);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(symbols), low, high)
    }
}

/// See [`crate::transform::nested::histogram`]: most elements have one of a few symbols, which are the most
/// frequent ones of the first chunk.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn histogram(symbols: &[u8]) -> [u32; 256] {
    let first = symbols.get(..NESTED_CHUNK).map(plain_histogram);
    let Some(first) = first.filter(|_| symbols.len() >= 4 * NESTED_CHUNK) else {
        return plain_histogram(symbols);
    };
    let mut order: [u8; 256] = std::array::from_fn(|symbol| symbol as u8);
    order.sort_unstable_by_key(|&symbol| std::cmp::Reverse(first[usize::from(symbol)]));
    let compared: [u8; COMPARED_SYMBOLS] = std::array::from_fn(|index| order[index]);
    let covered: u32 = compared.iter().map(|&symbol| first[usize::from(symbol)]).sum();
    if covered < NESTED_CHUNK as u32 / 16 * 15 {
        return plain_histogram(symbols);
    }
    let mut others = [0xff; 256];
    compared.iter().for_each(|&symbol| others[usize::from(symbol)] = 0);
    let others = RankTable::new(&others);
    let wanted = compared.map(|symbol| _mm512_set1_epi8(symbol as i8));
    let mut counts = [0_u32; 256];
    let (registers, rest) = symbols.as_chunks::<MASK_LANES>();
    // Counts of a byte do not overflow in so many registers.
    for registers in registers.chunks(255) {
        let mut sums = [_mm512_setzero_si512(); COMPARED_SYMBOLS];
        for register in registers {
            // SAFETY: a register has 64 bytes.
            let symbols = unsafe { _mm512_loadu_si512(register.as_ptr().cast()) };
            for (sum, &wanted) in sums.iter_mut().zip(&wanted) {
                let equal = _mm512_cmpeq_epi8_mask(symbols, wanted);
                *sum = _mm512_mask_add_epi8(*sum, equal, *sum, _mm512_set1_epi8(1));
            }
            let mut left = _mm512_movepi8_mask(others.look_up(symbols));
            while left != 0 {
                counts[usize::from(register[left.trailing_zeros() as usize])] += 1;
                left &= left - 1;
            }
        }
        for (sum, symbol) in sums.into_iter().zip(compared) {
            let sum = _mm512_reduce_add_epi64(_mm512_sad_epu8(sum, _mm512_setzero_si512()));
            counts[usize::from(symbol)] += sum as u32;
        }
    }
    rest.iter().for_each(|&symbol| counts[usize::from(symbol)] += 1);
    counts
}

/// The elements of a chunk while its levels are written.
struct Chunk {
    escapes: [u64; MASKS],
    ranks: [Line; MASKS],
    /// The symbols, in the order of the streams.
    symbols: [Line; MASKS],
}

/// See [`crate::transform::nested::encode_symbols`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn encode_symbols(
    symbols: &[u8],
    code: &Code,
    levels: &mut [BitStream],
    spelled: &mut Vec<u8>,
) {
    let rank_of = RankTable::new(&code.ranks());
    let none = Line([0; MASK_LANES]);
    let mut state = Chunk { escapes: [0; MASKS], ranks: [none; MASKS], symbols: [none; MASKS] };
    // The padding has rank 0.
    let mut padded = [code.symbols[0]; NESTED_CHUNK];
    for chunk in symbols.chunks(NESTED_CHUNK) {
        let masks = chunk.len().next_multiple_of(NESTED_GROUP) / MASK_LANES;
        let whole = if let Ok(whole) = chunk.try_into() {
            whole
        } else {
            padded[..chunk.len()].copy_from_slice(chunk);
            &padded
        };
        state.put_in_order(whole, &rank_of, masks);
        let mut base = 0;
        for (&width, stream) in code.widths.iter().zip(levels.iter_mut()) {
            if width == 1 {
                state.write_level::<1>(base, stream, masks);
            } else {
                state.write_level::<2>(base, stream, masks);
            }
            base += (1 << width) - 1;
        }
        if code.spelled {
            drop_padding(&mut state.escapes, chunk.len());
            state.spell_out(spelled, masks);
        }
    }
}

impl Chunk {
    /// Begins a chunk, all of whose elements are to be named by the first level.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn put_in_order(&mut self, symbols: &[u8; NESTED_CHUNK], rank_of: &RankTable, masks: usize) {
        self.escapes = [u64::MAX; MASKS];
        let order = [line(&ELEMENT_AT_PLACE[0]), line(&ELEMENT_AT_PLACE[1])];
        let ranks = self.ranks.as_chunks_mut::<2>().0.iter_mut().zip(self.symbols.as_chunks_mut::<2>().0);
        for (mixed, (ranks, ordered)) in
            symbols.as_chunks::<MIXED_ELEMENTS>().0.iter().zip(ranks).take(masks / 2)
        {
            // SAFETY: there are 128 bytes, and 64 in each line.
            unsafe {
                let first = _mm512_loadu_si512(mixed.as_ptr().cast());
                let second = _mm512_loadu_si512(mixed.as_ptr().add(MASK_LANES).cast());
                for (half, &order) in order.iter().enumerate() {
                    let symbols = _mm512_permutex2var_epi8(first, order, second);
                    _mm512_store_si512(ordered[half].0.as_mut_ptr().cast(), symbols);
                    _mm512_store_si512(ranks[half].0.as_mut_ptr().cast(), rank_of.look_up(symbols));
                }
            }
        }
    }

    /// Writes a level of `WIDTH` bits, which names the ranks from `base` on, for the elements that still
    /// escape.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
    fn write_level<const WIDTH: u32>(&mut self, base: u8, stream: &mut BitStream, masks: usize) {
        let top = (1_u8 << WIDTH) - 1;
        let (lowest, escape) = (_mm512_set1_epi8(base as i8), _mm512_set1_epi8((base + top) as i8));
        // Two bits for each element at most, and a word that is not full.
        stream.bytes.reserve(masks * 16 + 16);
        let mut bits = LevelBits {
            // SAFETY: the end of the vector.
            next: unsafe { stream.bytes.as_mut_ptr().add(stream.bytes.len()) },
            pending: stream.pending,
            filled: stream.filled,
        };
        let start = bits.next;
        for (escapes, ranks) in self.escapes.iter_mut().zip(&self.ranks).take(masks) {
            let ranks = line(ranks);
            let deeper = _mm512_cmpge_epu8_mask(ranks, escape);
            let count = escapes.count_ones();
            // SAFETY: there is room for two bits for each element and a word.
            unsafe {
                if WIDTH == 1 {
                    bits.push(_pext_u64(deeper, *escapes), count);
                } else {
                    let fields = _mm512_min_epu8(_mm512_subs_epu8(ranks, lowest), _mm512_set1_epi8(3));
                    let fields = _mm512_maskz_compress_epi8(*escapes, fields);
                    let pairs = _mm512_maddubs_epi16(fields, _mm512_set1_epi16(0x0401));
                    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0010_0001));
                    let packed = _mm512_cvtepi32_epi8(fours);
                    bits.push(_mm_cvtsi128_si64(packed) as u64, (2 * count).min(64));
                    if count > 32 {
                        bits.push(_mm_extract_epi64::<1>(packed) as u64, 2 * count - 64);
                    }
                }
            }
            *escapes &= deeper;
        }
        // SAFETY: so many bytes more have been written, inside what was reserved.
        unsafe { stream.bytes.set_len(stream.bytes.len() + bits.next.offset_from_unsigned(start)) };
        (stream.pending, stream.filled) = (bits.pending, bits.filled);
    }

    /// Appends the symbols of the elements that escape every level.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vbmi2,popcnt")]
    fn spell_out(&self, spelled: &mut Vec<u8>, masks: usize) {
        spelled.reserve(masks * MASK_LANES + MASK_LANES);
        let mut length = spelled.len();
        for (&escapes, symbols) in self.escapes.iter().zip(&self.symbols).take(masks) {
            // SAFETY: there is room for all elements and a register more.
            unsafe {
                let taken = _mm512_maskz_compress_epi8(escapes, line(symbols));
                _mm512_storeu_si512(spelled.as_mut_ptr().add(length).cast(), taken);
            }
            length += escapes.count_ones() as usize;
        }
        // SAFETY: so many bytes have been written, inside what was reserved.
        unsafe { spelled.set_len(length) };
    }
}

/// The end of a bit stream, in registers.
struct LevelBits {
    next: *mut u8,
    pending: u64,
    filled: u32,
}

impl LevelBits {
    /// Appends `count` bits, above which there are zeros. Branch-free: whether a word fills up is
    /// unpredictable.
    ///
    /// # Safety
    ///
    /// There must be room for a word.
    #[inline(always)]
    unsafe fn push(&mut self, bits: u64, count: u32) {
        let pending = self.pending | bits << self.filled;
        // SAFETY: the caller vouches for the room.
        unsafe { self.next.cast::<u64>().write_unaligned(pending.to_le()) };
        let full = self.filled + count >= 64;
        let spilled = bits >> 1 >> (63 - self.filled);
        self.pending = if full { spilled } else { pending };
        self.next = self.next.wrapping_add(if full { 8 } else { 0 });
        self.filled = (self.filled + count) % 64;
    }
}
