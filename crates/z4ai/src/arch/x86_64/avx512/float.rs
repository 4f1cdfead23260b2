//! Float heads with AVX-512: as with AVX2, with sixteen states in a register and 32 heads at once.
#![allow(unsafe_code)]

mod signs;

use super::Avx512;
use super::rans::step::{SpilledIndices, TableLookup};
use super::rans::{load_states, reach, store_states};
use crate::arch::heads::{Checked, HeadCall, HeadLoops, decode_chunk};
use crate::arch::x86_64::avx2::{low_bits, low_bits_from};
use crate::arch::x86_64::{PREFETCHED, prefetch};
use crate::entropy::rans::LANES;
use crate::error::Result;
use crate::transform::float::{HeadChunk, HeadFormat, HeadInputs, HeadSign, JOINT_BITS, Steps};
use std::arch::x86_64::*;

impl Steps for Avx512 {
    fn decode_heads(self, chunk: &mut HeadChunk, heads: &mut [u16]) -> Result<()> {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { decode_chunk::<HeadLoopSet>(self, chunk, heads) }
    }

    fn pack_signs(self, heads: &[u16], packed: &mut [u8]) {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { signs::pack(heads, packed) }
    }

    fn set_signs(self, packed: &[u8], elements: &mut [[u8; 2]]) {
        // SAFETY: an `Avx512` exists only where the CPU has these instructions.
        unsafe { signs::set(packed, elements) }
    }
}

/// The loops for this instruction set.
struct HeadLoopSet;

impl HeadLoops for HeadLoopSet {
    unsafe fn decode<const PARTS: usize, const CONTEXTS: bool, const GROUPS: bool, const BITS: usize>(
        call: HeadCall,
    ) -> (usize, usize) {
        // SAFETY: the caller vouches for the instructions.
        unsafe { decode::<PARTS, CONTEXTS, GROUPS, BITS>(call) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2,popcnt")]
fn decode<const PARTS: usize, const CONTEXTS: bool, const GROUPS: bool, const BITS: usize>(
    call: HeadCall,
) -> (usize, usize) {
    let Checked { octaves, offsets, line_octaves, line_places } =
        call.check::<PARTS, CONTEXTS, GROUPS, BITS>();
    let HeadCall { tables, inputs: HeadInputs { format, packed, .. }, states, words, range, escaped, heads } =
        call;
    let (count, lanes) = (heads.len(), PARTS * LANES);
    let lookup = TableLookup::new(tables);
    let assembly = Assembly::<BITS>::new(format);
    let registers = load_states::<PARTS>(states);
    let ([mut first, mut second], [mut third, mut fourth]) = (registers[0], registers[PARTS - 1]);
    let mut parts = low_bits_from::<BITS>(count, range.start);
    let (mut done, mut bytes) = (range.start, 0usize);
    // Where a group is in what is expected, and where in the slots its contexts begin.
    let place_of = |element: usize| {
        let group = element / LANES;
        // SAFETY: the callers' elements are before `count`, with which the number of places agrees.
        if GROUPS { group } else { unsafe { *line_places.get_unchecked(group) as usize } }
    };
    let offset = |element: usize, vector: usize| {
        // SAFETY: from the place of a group on there are as many offsets as the group needs.
        unsafe {
            let offset = offsets.as_ptr().add(place_of(element));
            match (CONTEXTS, GROUPS) {
                (false, _) => _mm512_setzero_si512(),
                (true, false) => _mm512_cvtepu16_epi32(_mm256_loadu_si256(offset.add(16 * vector).cast())),
                (true, true) => _mm512_set1_epi32(i32::from(*offset)),
            }
        }
    };
    let mut places = [[SpilledIndices::default(); LANES / 16]; PARTS];
    if done < range.end {
        for (part, (places, state)) in places.iter_mut().zip(&registers).enumerate() {
            for (vector, (places, &state)) in places.iter_mut().zip(state).enumerate() {
                places.store(lookup.index(state, offset(done + part * LANES, vector)));
            }
        }
    }
    while done < range.end && words.len() - bytes >= reach(lanes) {
        // Software pipelining: the table indices of the next groups are computed and stored while the heads
        // of these are assembled. Behind the last group they are not used.
        let ahead = if done + lanes < count { lanes } else { 0 };
        for places in &mut places {
            if done == parts.end {
                parts = low_bits_from(count, done);
            }
            // Words, heads and fields are more streams than the hardware prefetcher tracks. The next chunk's
            // fields follow these.
            let ahead_of_fields = packed.as_ptr().wrapping_add(count / 8 * BITS + done / 8 * BITS);
            prefetch::<_MM_HINT_T0, _>(ahead_of_fields);
            prefetch::<_MM_HINT_T0, _>(words.as_ptr().wrapping_add(bytes + PREFETCHED));
            prefetch::<_MM_HINT_ET0, _>(heads.as_ptr().wrapping_add(done + PREFETCHED));
            // SAFETY: `done` is a multiple of 32 below `count`, the length of `heads`, with which those of
            // `octaves` and `escaped` agree; there were words for all parts, and each refill takes at most 32
            // bytes of them; `packed` holds `count` fields, and `done` is between where the parts begin and
            // end.
            unsafe {
                let low = lookup.entries(&places[0]);
                let high = lookup.entries(&places[1]);
                let next_first = lookup.refill(lookup.without(first, low), words.as_ptr(), &mut bytes);
                places[0].store(lookup.index(next_first, offset(done + ahead, 0)));
                let next_second = lookup.refill(lookup.without(second, high), words.as_ptr(), &mut bytes);
                places[1].store(lookup.index(next_second, offset(done + ahead, 1)));
                // The registers of both parts are swapped after each, so that all states stay in registers
                // and the loop need not be unrolled.
                (first, second, third, fourth) = if PARTS == 1 {
                    (next_first, next_second, third, fourth)
                } else {
                    (third, fourth, next_first, next_second)
                };
                let symbols = symbols_of(low, high);
                let escape = _mm512_cmplt_epu16_mask(symbols, _mm512_set1_epi16(1 << JOINT_BITS));
                *escaped.as_mut_ptr().add(done / LANES) = escape;

                let mut octave = _mm512_set1_epi16(*octaves.as_ptr().add(done / LANES));
                if !GROUPS {
                    let line = line_octaves.as_ptr().add(place_of(done));
                    octave = _mm512_add_epi16(octave, _mm512_loadu_si512(line.cast()));
                }
                let (low, above) = low_bits(&parts, packed, done);
                let mut fields = _mm512_cvtepu8_epi16(low);
                if BITS > 8 {
                    fields = _mm512_or_si512(fields, _mm512_slli_epi16::<8>(_mm512_cvtepu8_epi16(above)));
                }
                let heads = heads.as_mut_ptr().add(done);
                _mm512_storeu_si512(heads.cast(), assembly.heads(symbols, fields, octave));
            }
            done += LANES;
        }
    }
    store_states::<2>(&[[first, second], [third, fourth]], states);
    (done, bytes)
}

/// The symbols of 32 entries, 16 bits each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn symbols_of(low: __m512i, high: __m512i) -> __m512i {
    /// The lower half of each entry.
    static EVEN_WORDS: [u16; 32] = {
        let mut even = [0; 32];
        let mut at = 0;
        while at < 32 {
            even[at] = 2 * at as u16;
            at += 1;
        }
        even
    };
    // SAFETY: there are as many numbers as a register has.
    let even = unsafe { _mm512_loadu_si512(EVEN_WORDS.as_ptr().cast()) };
    _mm512_and_si512(_mm512_permutex2var_epi16(low, even, high), _mm512_set1_epi16(0xff))
}

/// How heads of BITS stored bits are put together.
struct Assembly<const BITS: usize> {
    /// The constant sign.
    sign: __m512i,
}

impl<const BITS: usize> Assembly<BITS> {
    /// Two, five or eight mantissa bits are stored, and the sign above them or not.
    const HAS_SIGN: bool = BITS.is_multiple_of(3);
    const LOW: usize = BITS - Self::HAS_SIGN as usize;

    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(format: HeadFormat) -> Self {
        let sign = if let HeadSign::Constant(true) = format.sign { 0x8000u16 } else { 0 };
        Self { sign: _mm512_set1_epi16(sign as i16) }
    }

    /// Heads. Octaves are above as many zero bits as symbols have mantissa bits, so that they can be added as
    /// they are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn heads(&self, symbols: __m512i, fields: __m512i, octaves: __m512i) -> __m512i {
        let shift_left = |numbers, bits: usize| _mm512_sll_epi16(numbers, _mm_cvtsi32_si128(bits as i32));
        let top = shift_left(_mm512_add_epi16(symbols, octaves), Self::LOW);
        let low = (1u16 << Self::LOW) - 1;
        // Bits of the first where those of the mask are set, and of the second elsewhere.
        let pick = |mask: u16, first, second| {
            _mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi16(mask as i16), first, second)
        };
        if !Self::HAS_SIGN {
            // The fields end where the top begins.
            return pick(0x8000, self.sign, _mm512_or_si512(top, fields));
        }
        // The sign is the field's top bit. In wide fields the bits below it must not go along.
        let signs =
            if BITS < 8 { fields } else { _mm512_andnot_si512(_mm512_set1_epi16(low as i16), fields) };
        pick(low | 0x8000, _mm512_or_si512(shift_left(signs, 15 - Self::LOW), fields), top)
    }
}
