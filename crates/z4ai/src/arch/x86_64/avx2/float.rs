//! Float heads with AVX2: rANS symbols, scales and verbatim bits put together in registers. The entropy coder
//! is bound by the latency of look-ups and multiplications; the other work fills the execution units
//! meanwhile.
#![allow(unsafe_code)]

mod signs;

use super::Avx2;
use super::rans::{SpilledIndices, TableLookup, load_states, reach, store_states};
use crate::arch::heads::{BitField, Checked, HeadCall, HeadLoops, LowBits, decode_chunk, position};
use crate::arch::x86_64::prefetch;
use crate::entropy::rans::LANES;
use crate::error::Result;
use crate::transform::float::{HeadChunk, HeadFormat, HeadInputs, HeadSign, JOINT_BITS, Steps};
use std::arch::x86_64::*;

impl Steps for Avx2 {
    fn decode_heads(self, chunk: &mut HeadChunk, heads: &mut [u16]) -> Result<()> {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        unsafe { decode_chunk::<HeadLoopSet>(self, chunk, heads) }
    }

    fn pack_signs(self, heads: &[u16], packed: &mut [u8]) {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        unsafe { signs::pack(heads, packed) }
    }

    fn set_signs(self, packed: &[u8], elements: &mut [[u8; 2]]) {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
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

#[target_feature(enable = "avx2,bmi2,popcnt")]
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
    let mut registers = load_states::<PARTS>(states);
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
                (false, _) => _mm256_setzero_si256(),
                (true, false) => _mm256_cvtepu16_epi32(_mm_loadu_si128(offset.add(8 * vector).cast())),
                (true, true) => _mm256_set1_epi32(i32::from(*offset)),
            }
        }
    };
    let mut places = [[SpilledIndices::default(); LANES / 8]; PARTS];
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
        for (state, places) in registers.iter_mut().zip(&mut places) {
            if done == parts.end {
                parts = low_bits_from(count, done);
            }
            // Fields are more streams than the hardware prefetcher tracks. The next chunk's follow these.
            let ahead_of_fields = packed.as_ptr().wrapping_add(count / 8 * BITS + done / 8 * BITS);
            prefetch::<_MM_HINT_T0, _>(ahead_of_fields);
            // SAFETY: `done` is a multiple of 32 below `count`, the length of `heads`, with which those of
            // `octaves` and `escaped` agree; there were words for all parts, and each refill takes at most 16
            // bytes of them; `packed` holds `count` fields, and `done` is between where the parts begin and
            // end.
            unsafe {
                let octave = _mm256_set1_epi16(*octaves.as_ptr().add(done / LANES));
                let mut entries = [_mm256_setzero_si256(); LANES / 8];
                // Two by two, so that no more than two entries are live and none is spilled.
                for pair in [0, 2] {
                    let low = lookup.entry_at(state[pair], &places[pair]);
                    let high = lookup.entry_at(state[pair + 1], &places[pair + 1]);
                    state[pair] = lookup.refill(low.1, words.as_ptr(), &mut bytes);
                    places[pair].store(lookup.index(state[pair], offset(done + ahead, pair)));
                    state[pair + 1] = lookup.refill(high.1, words.as_ptr(), &mut bytes);
                    places[pair + 1].store(lookup.index(state[pair + 1], offset(done + ahead, pair + 1)));
                    (entries[pair], entries[pair + 1]) = (low.0, high.0);
                }
                let [a, b, c, d] = entries;
                let symbols = [symbols_of(a, b), symbols_of(c, d)];
                *escaped.as_mut_ptr().add(done / LANES) = escapes_of(symbols);

                let (low, above) = low_bits(&parts, packed, done);
                let target = heads.as_mut_ptr().add(done);
                for (half, symbols) in symbols.into_iter().enumerate() {
                    let bytes_of = |whole: __m256i| {
                        let half = if half == 0 {
                            _mm256_castsi256_si128(whole)
                        } else {
                            _mm256_extracti128_si256::<1>(whole)
                        };
                        _mm256_cvtepu8_epi16(half)
                    };
                    let mut field = bytes_of(low);
                    if BITS > 8 {
                        field = _mm256_or_si256(field, _mm256_slli_epi16::<8>(bytes_of(above)));
                    }
                    let octave = if GROUPS {
                        octave
                    } else {
                        let line = line_octaves.as_ptr().add(place_of(done) + 16 * half);
                        _mm256_add_epi16(octave, _mm256_loadu_si256(line.cast()))
                    };
                    _mm256_storeu_si256(target.add(16 * half).cast(), assembly.head(symbols, field, octave));
                }
            }
            done += LANES;
        }
    }
    store_states(&registers, states);
    (done, bytes)
}

/// The symbols of sixteen entries, 16 bits each.
#[inline]
#[target_feature(enable = "avx2")]
fn symbols_of(low: __m256i, high: __m256i) -> __m256i {
    let byte = _mm256_set1_epi32(0xff);
    let packed = _mm256_packus_epi32(_mm256_and_si256(low, byte), _mm256_and_si256(high, byte));
    // Packing works per 128-bit half; the permutation puts the groups of four back in order.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
}

/// One bit for each of 32 symbols: whether its exponent is an escape.
#[inline]
#[target_feature(enable = "avx2")]
fn escapes_of(symbols: [__m256i; 2]) -> u32 {
    let last = _mm256_set1_epi8((1 << JOINT_BITS) - 1);
    // Packing works per 128-bit half; the permutation puts the groups of eight back in order.
    let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(symbols[0], symbols[1]));
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(bytes, last), bytes)) as u32
}

/// The verbatim bits from field `start` of `count` on.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn low_bits_from<const BITS: usize>(
    count: usize,
    start: usize,
) -> LowBits<__m128i, BITS> {
    LowBits::new(count, start, |bits| _mm_cvtsi32_si128(bits as i32))
}

/// The lower eight bits of the 32 fields from `field` on, and the ninth.
///
/// # Safety
///
/// `packed` must hold the fields, and `field` must lie between where `parts` begins and ends.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) unsafe fn low_bits<const BITS: usize>(
    parts: &LowBits<__m128i, BITS>,
    packed: &[u8],
    field: usize,
) -> (__m256i, __m256i) {
    // SAFETY: the caller vouches for the fields.
    unsafe {
        let one = part::<BITS, 1>(&parts.ones, packed, field);
        if BITS >= 8 {
            return (part::<BITS, 8>(&parts.eights, packed, field), one);
        }
        let fours = part::<BITS, 4>(&parts.fours, packed, field);
        let twos = part::<BITS, 2>(&parts.twos, packed, field);
        (_mm256_or_si256(_mm256_or_si256(fours, twos), one), _mm256_setzero_si256())
    }
}

/// The parts of WIDTH bits of the 32 fields from `field` on, in their place below bit 8, or at bit 0 if that
/// is bit 8; zero if there are none.
///
/// # Safety
///
/// `packed` must hold the fields, and `field` must lie between where `parts` begins and ends.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn part<const BITS: usize, const WIDTH: usize>(
    parts: &BitField<__m128i>,
    packed: &[u8],
    field: usize,
) -> __m256i {
    if BITS & WIDTH == 0 {
        return _mm256_setzero_si256();
    }
    // SAFETY: the caller vouches for the fields, of which these are 32.
    let stored = unsafe { _mm256_loadu_si256(parts.bytes(packed, field).cast()) };
    let bits = _mm256_srl_epi16(stored, parts.shift);
    let bits = _mm256_and_si256(bits, _mm256_set1_epi8(((1u16 << WIDTH) - 1) as u8 as i8));
    _mm256_sll_epi16(bits, _mm_cvtsi32_si128((position(BITS, WIDTH) & 7) as i32))
}

/// How heads of BITS stored bits are put together.
struct Assembly<const BITS: usize> {
    /// The constant sign.
    sign: __m256i,
}

impl<const BITS: usize> Assembly<BITS> {
    /// Two, five or eight mantissa bits are stored, and the sign above them or not.
    const HAS_SIGN: bool = BITS.is_multiple_of(3);
    const LOW: usize = BITS - Self::HAS_SIGN as usize;

    #[target_feature(enable = "avx2")]
    fn new(format: HeadFormat) -> Self {
        let sign = if let HeadSign::Constant(true) = format.sign { 0x8000u16 } else { 0 };
        Self { sign: _mm256_set1_epi16(sign as i16) }
    }

    /// Sixteen heads. Octaves are above as many zero bits as symbols have mantissa bits, so that they can be
    /// added as they are.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn head(&self, symbols: __m256i, fields: __m256i, octaves: __m256i) -> __m256i {
        let top = shift_left(_mm256_add_epi16(symbols, octaves), Self::LOW);
        let low = (1u16 << Self::LOW) - 1;
        if !Self::HAS_SIGN {
            // The fields end where the top begins.
            let top = _mm256_and_si256(top, _mm256_set1_epi16(0x7fff));
            return _mm256_or_si256(_mm256_or_si256(top, fields), self.sign);
        }
        // The sign is the field's top bit. In wide fields the bits below it must not go along.
        let low_mask = _mm256_set1_epi16(low as i16);
        let signs = if BITS < 8 { fields } else { _mm256_andnot_si256(low_mask, fields) };
        let fields = _mm256_or_si256(shift_left(signs, 15 - Self::LOW), fields);
        let field_mask = _mm256_set1_epi16((low | 0x8000) as i16);
        _mm256_or_si256(_mm256_andnot_si256(field_mask, top), _mm256_and_si256(fields, field_mask))
    }
}

/// Sixteen numbers shifted by a number of bits that the compiler knows.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_left(numbers: __m256i, bits: usize) -> __m256i {
    _mm256_sll_epi16(numbers, _mm_cvtsi32_si128(bits as i32))
}
