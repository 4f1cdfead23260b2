//! The levels of the nested coder, decoded with AVX-512. The elements of a chunk stay in the order of their
//! streams, a byte for each: the bits of a level are then dealt to those that escaped the levels before by
//! one bit deposit (or one byte expansion) for 64 of them, and a permutation at the end puts all into their
//! places.
#![allow(unsafe_code)]

use crate::arch::x86_64::prefetch;
use crate::transform::nested::{Code, Cursor, NESTED_CHUNK, NESTED_GROUP};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Elements that share a mask.
pub(in crate::arch) const MASK_LANES: usize = 64;
/// Masks per chunk.
pub(in crate::arch) const MASKS: usize = NESTED_CHUNK / MASK_LANES;
/// Elements whose places are mixed with each other in the streams.
pub(in crate::arch) const MIXED_ELEMENTS: usize = 128;

/// Sixty-four bytes that start on a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::arch) struct Line(pub [u8; MASK_LANES]);

/// For each of 128 elements, where it is in the order of the streams.
static PLACE_OF_ELEMENT: [Line; 2] = places();

const fn places() -> [Line; 2] {
    let mut places = [Line([0; MASK_LANES]); 2];
    let mut element = 0;
    while element < MIXED_ELEMENTS {
        let (field, word, byte) = (element / 32, element / 8 % 4, element % 8);
        places[element / MASK_LANES].0[element % MASK_LANES] = (32 * word + 4 * byte + field) as u8;
        element += 1;
    }
    places
}

/// For each of 128 places in the order of the streams, the element that is there.
pub(in crate::arch) static ELEMENT_AT_PLACE: [Line; 2] = elements();

const fn elements() -> [Line; 2] {
    let mut elements = [Line([0; MASK_LANES]); 2];
    let mut element = 0;
    while element < MIXED_ELEMENTS {
        let place = places()[element / MASK_LANES].0[element % MASK_LANES] as usize;
        elements[place / MASK_LANES].0[place % MASK_LANES] = element as u8;
        element += 1;
    }
    elements
}

/// Byte `8 i + k` of a register whose qwords hold the bytes from the `2 i`-th of a stream on.
static PAIRS_OF_BYTES: Line = pairs_of_bytes();

const fn pairs_of_bytes() -> Line {
    let mut indices = [0; MASK_LANES];
    let mut index = 0;
    while index < MASK_LANES {
        indices[index] = (index / 8 * 2 + index % 8) as u8;
        index += 1;
    }
    Line(indices)
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::arch) fn line(line: &Line) -> __m512i {
    // SAFETY: a line has 64 bytes and starts on a multiple of 64.
    unsafe { _mm512_load_si512(line.0.as_ptr().cast()) }
}

/// Elements from `count` on are there to fill a group and are not spelled out, whatever their bits say.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::arch) fn drop_padding(escapes: &mut [u64; MASKS], count: usize) {
    for (index, escapes) in escapes.iter_mut().enumerate().skip(count / MIXED_ELEMENTS * 2) {
        let left = count.saturating_sub(index / 2 * MIXED_ELEMENTS).min(MIXED_ELEMENTS);
        *escapes &=
            _mm512_cmplt_epu8_mask(line(&ELEMENT_AT_PLACE[index % 2]), _mm512_set1_epi8(left as u8 as i8));
    }
}

/// The elements of a chunk while the levels are read: which still escape, and the ranks summed so far.
struct RankMasks {
    escapes: [u64; MASKS],
    ranks: [MaybeUninit<Line>; MASKS],
}

/// Memory that is needed after the levels, prefetched line by line while they are read.
#[derive(Clone, Copy)]
struct Soon([*const u8; 2]);

impl Soon {
    /// The share of one level: a cache line for each mask, or one that is in the cache anyway where nothing
    /// is left to prefetch.
    fn share(level: usize, masks: usize, soon: [&[u8]; 2], at_hand: *const u8) -> Self {
        let start = level * masks * MASK_LANES;
        Self(soon.map(|bytes| bytes.get(start..).map_or(at_hand, <[u8]>::as_ptr)))
    }

    #[inline(always)]
    fn fetch(self, index: usize) {
        for start in self.0 {
            prefetch::<_MM_HINT_T0, _>(start.wrapping_add(index * MASK_LANES));
        }
    }
}

/// Decodes the next `count` symbols of a chunk into the front of `symbols`, or does nothing and says so:
/// where the block might end before the streams do, whose errors the portable code finds. `soon` is memory
/// that the caller needs afterwards.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn decode_symbols(
    cursor: &mut Cursor<'_>,
    code: &Code,
    count: usize,
    symbols: &mut [u8; NESTED_CHUNK],
    soon: [&[u8]; 2],
) -> bool {
    let masks = count.next_multiple_of(NESTED_GROUP) / MASK_LANES;
    let block = cursor.block;
    // A register is read at a time.
    let has = |start: usize, length: usize| start.saturating_add(length + MASK_LANES) <= block.len();
    if masks > MASKS
        || code.widths.is_empty()
        || !cursor
            .levels
            .iter()
            .zip(&code.widths)
            .all(|(&bits, &width)| has(bits / 8, masks * 8 * width as usize))
        || code.spelled && !has(cursor.spelled, masks * MASK_LANES)
    {
        return false;
    }
    let mut ranks = RankMasks { escapes: [0; MASKS], ranks: [MaybeUninit::uninit(); MASKS] };
    for (level, (&width, position)) in code.widths.iter().zip(&mut cursor.levels).enumerate() {
        let soon = Soon::share(level, masks, soon, ranks.ranks.as_ptr().cast());
        // SAFETY: for each level the block has as many bytes as can be read, and there are at most `MASKS`
        // masks.
        unsafe {
            match (level, width) {
                (0, 1) => ranks.first_narrow(block, position, masks, soon),
                (0, _) => ranks.first_wide(block, position, masks, soon),
                (_, 1) => ranks.descend_narrow(block, position, masks, soon),
                (_, _) => ranks.descend_wide(block, position, masks, soon),
            }
        }
    }
    if code.spelled {
        drop_padding(&mut ranks.escapes, count);
        // SAFETY: the block has at least as many bytes from there on as there are elements, and a register
        // more.
        cursor.spelled +=
            unsafe { ranks.look_up::<true>(&code.symbols, block, cursor.spelled, masks, symbols) };
    } else {
        // SAFETY: nothing of the block is read.
        unsafe { ranks.look_up::<false>(&code.symbols, block, 0, masks, symbols) };
    }
    true
}

impl RankMasks {
    /// A first level of single bits is the masks themselves.
    ///
    /// # Safety
    ///
    /// The block must have the bits of `masks` masks from `position` on, and there are at most `MASKS`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn first_narrow(&mut self, block: &[u8], position: &mut usize, masks: usize, soon: Soon) {
        // SAFETY: the caller vouches for the bytes.
        let start = unsafe { block.as_ptr().add(*position / 8) }.cast::<u64>();
        for index in 0..masks {
            // SAFETY: as above, and for the number of masks.
            unsafe {
                let mask = start.add(index).read_unaligned();
                soon.fetch(index);
                *self.escapes.get_unchecked_mut(index) = mask;
                let place = self.ranks.as_mut_ptr().add(index).cast();
                _mm512_store_si512(place, _mm512_maskz_set1_epi8(mask, 1));
            }
        }
        *position += masks * MASK_LANES;
    }

    /// A first level of two bits has them for all elements.
    ///
    /// # Safety
    ///
    /// The block must have the bits of `masks` masks from `position` on, and there are at most `MASKS`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn first_wide(&mut self, block: &[u8], position: &mut usize, masks: usize, soon: Soon) {
        let shifts = _mm512_set1_epi64(0x0e0c_0a08_0604_0200);
        let three = _mm512_set1_epi8(3);
        // SAFETY: the caller vouches for the bytes.
        let start = unsafe { block.as_ptr().add(*position / 8) }.cast::<__m128i>();
        for index in 0..masks {
            // SAFETY: as above, and for the number of masks.
            unsafe {
                let eights = _mm512_cvtepu16_epi64(_mm_loadu_si128(start.add(index)));
                soon.fetch(index);
                let fields = _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, eights), three);
                *self.escapes.get_unchecked_mut(index) = _mm512_cmpeq_epi8_mask(fields, three);
                _mm512_store_si512(self.ranks.as_mut_ptr().add(index).cast(), fields);
            }
        }
        *position += masks * MASK_LANES * 2;
    }

    /// A level of single bits for the elements that still escape.
    ///
    /// # Safety
    ///
    /// The block must have a bit for each element of `masks` masks from `position` on and 16 bytes more, and
    /// there are at most `MASKS`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
    unsafe fn descend_narrow(&mut self, block: &[u8], position: &mut usize, masks: usize, soon: Soon) {
        let mut next = *position;
        for index in 0..masks {
            // SAFETY: the caller vouches for the bytes and the number of masks.
            unsafe {
                let escapes = *self.escapes.get_unchecked(index);
                let count = escapes.count_ones();
                let start = block.as_ptr().add(next / 8);
                let skip = (next % 8) as u32;
                let mut bits = start.cast::<u64>().read_unaligned() >> skip;
                if count > 56 {
                    bits |= u64::from(*start.add(8)) << 1 << (63 - skip);
                }
                let mask = _pdep_u64(bits, escapes);
                soon.fetch(index);
                *self.escapes.get_unchecked_mut(index) = mask;
                let place = self.ranks.as_mut_ptr().add(index).cast();
                let ranks = _mm512_load_si512(place);
                _mm512_store_si512(place, _mm512_mask_add_epi8(ranks, mask, ranks, _mm512_set1_epi8(1)));
                next += count as usize;
            }
        }
        *position = next;
    }

    /// A level of two bits for the elements that still escape.
    ///
    /// # Safety
    ///
    /// The block must have two bits for each element of `masks` masks from `position` on and a register more,
    /// and there are at most `MASKS`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    unsafe fn descend_wide(&mut self, block: &[u8], position: &mut usize, masks: usize, soon: Soon) {
        let shifts = _mm512_set1_epi64(0x0e0c_0a08_0604_0200);
        let three = _mm512_set1_epi8(3);
        let pairs = line(&PAIRS_OF_BYTES);
        let mut next = *position;
        for index in 0..masks {
            // SAFETY: the caller vouches for the bytes and the number of masks.
            unsafe {
                let escapes = *self.escapes.get_unchecked(index);
                let bytes = _mm256_loadu_si256(block.as_ptr().add(next / 8).cast());
                let eights = _mm512_permutexvar_epi8(pairs, _mm512_castsi256_si512(bytes));
                let shifts = _mm512_add_epi8(shifts, _mm512_set1_epi8((next % 8) as i8));
                let fields = _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, eights), three);
                let fields = _mm512_maskz_expand_epi8(escapes, fields);
                soon.fetch(index);
                *self.escapes.get_unchecked_mut(index) = _mm512_cmpeq_epi8_mask(fields, three);
                let place = self.ranks.as_mut_ptr().add(index).cast();
                _mm512_store_si512(place, _mm512_add_epi8(_mm512_load_si512(place), fields));
                next += 2 * escapes.count_ones() as usize;
            }
        }
        *position = next;
    }

    /// Turns ranks into symbols in their places; those that escape every level are taken from `spelled` on,
    /// and how many these are is returned.
    ///
    /// # Safety
    ///
    /// If `SPELLED`, the block must have a byte for each element of `masks` masks from `spelled` on and a
    /// register more. There are at most `MASKS`, an even number.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    unsafe fn look_up<const SPELLED: bool>(
        &self,
        table: &[u8; 16],
        block: &[u8],
        spelled: usize,
        masks: usize,
        symbols: &mut [u8; NESTED_CHUNK],
    ) -> usize {
        let mut taken = 0;
        // SAFETY: the table has 16 bytes; the caller vouches for the rest.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            let places = [line(&PLACE_OF_ELEMENT[0]), line(&PLACE_OF_ELEMENT[1])];
            let mut found = [_mm512_setzero_si512(); 2];
            for pair in 0..masks / 2 {
                for (half, found) in found.iter_mut().enumerate() {
                    let ranks = _mm512_load_si512(self.ranks.as_ptr().add(2 * pair + half).cast());
                    *found = _mm512_shuffle_epi8(table, ranks);
                    if SPELLED {
                        let escapes = *self.escapes.get_unchecked(2 * pair + half);
                        let next = _mm512_loadu_si512(block.as_ptr().add(spelled + taken).cast());
                        *found = _mm512_mask_expand_epi8(*found, escapes, next);
                        taken += escapes.count_ones() as usize;
                    }
                }
                for (half, &places) in places.iter().enumerate() {
                    let ordered = _mm512_permutex2var_epi8(found[0], places, found[1]);
                    let place = symbols.as_mut_ptr().add(pair * MIXED_ELEMENTS + half * MASK_LANES);
                    _mm512_storeu_si512(place.cast(), ordered);
                }
            }
        }
        taken
    }
}
