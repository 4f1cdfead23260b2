//! Float heads with AVX2: rANS symbols, scales and verbatim bits put together in registers. The entropy coder waits for memory and multiplications much of
//! the time; the rest of the work fills these gaps.
#![allow(unsafe_code)]

use super::avx2::{Lookup, Places, REACH};
use super::{Expected, HeadFormat, HeadInputs};
use crate::entropy::rans::{DecoderTables, LANES};
use crate::transform::float::JOINT_BITS;
use std::arch::x86_64::*;
use std::ops::Range;

/// See [`super::Kernel::decode_heads`].
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) fn decode_heads(
    tables: &DecoderTables,
    inputs: HeadInputs,
    states: &mut [u32; LANES],
    words: &[u8],
    range: Range<usize>,
    escaped: &mut [u32],
    heads: &mut [u16],
) -> Option<(usize, usize)> {
    // The numbers of bits that the layouts of floats have, with and without a sign, get loops of their own.
    let made = match inputs.format.low_bits {
        2 => choose::<2>(tables, inputs, states, words, range, escaped, heads),
        3 => choose::<3>(tables, inputs, states, words, range, escaped, heads),
        5 => choose::<5>(tables, inputs, states, words, range, escaped, heads),
        6 => choose::<6>(tables, inputs, states, words, range, escaped, heads),
        8 => choose::<8>(tables, inputs, states, words, range, escaped, heads),
        9 => choose::<9>(tables, inputs, states, words, range, escaped, heads),
        _ => return None,
    };
    Some(made)
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn choose<const BITS: usize>(
    tables: &DecoderTables,
    inputs: HeadInputs,
    states: &mut [u32; LANES],
    words: &[u8],
    range: Range<usize>,
    escaped: &mut [u32],
    heads: &mut [u16],
) -> (usize, usize) {
    let scales = match inputs.expected {
        Expected::Each(scales) | Expected::Group(scales) => scales,
    };
    match (tables.slots().len() > 1 << tables.precision(), inputs.expected) {
        (false, Expected::Each(_)) => {
            decode::<false, false, BITS>(tables, inputs, scales, states, words, range, escaped, heads)
        }
        (false, Expected::Group(_)) => {
            decode::<false, true, BITS>(tables, inputs, scales, states, words, range, escaped, heads)
        }
        (true, Expected::Each(_)) => {
            decode::<true, false, BITS>(tables, inputs, scales, states, words, range, escaped, heads)
        }
        (true, Expected::Group(_)) => {
            decode::<true, true, BITS>(tables, inputs, scales, states, words, range, escaped, heads)
        }
    }
}

#[expect(clippy::too_many_arguments)]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn decode<const CONTEXTS: bool, const GROUPS: bool, const BITS: usize>(
    tables: &DecoderTables,
    inputs: HeadInputs,
    scales: &[i16],
    states: &mut [u32; LANES],
    words: &[u8],
    range: Range<usize>,
    escaped: &mut [u32],
    heads: &mut [u16],
) -> (usize, usize) {
    let HeadInputs { format, packed, .. } = inputs;
    let count = heads.len();
    assert!(count.is_multiple_of(8 * LANES) && escaped.len() == count / LANES);
    assert!(range.start.is_multiple_of(LANES) && range.end <= count && range.end.is_multiple_of(LANES));
    assert!(scales.len() == if GROUPS { count / LANES } else { count });
    assert!(packed.len() >= count / 8 * BITS);
    let lookup = Lookup::new(tables);
    let assembly = Assembly::new(format);
    let mut state = [_mm256_setzero_si256(); LANES / 8];
    for (vector, lanes) in state.iter_mut().zip(states.chunks_exact(8)) {
        // SAFETY: `lanes` holds eight u32.
        *vector = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
    }
    let [mut first, mut second, mut third, mut fourth] = state;
    let mut parts = Parts::<BITS>::new(count, range.start);
    let (mut done, mut bytes) = (range.start, 0usize);
    // Where in the scales those of a group are, and where in the slots its contexts begin.
    let scale_at = |group: usize| if GROUPS { group / LANES } else { group };
    let offset = |group: usize, vector: usize| {
        // SAFETY: the callers' groups begin before `count`, with which the length of `scales` agrees.
        unsafe {
            let scale = scales.as_ptr().add(scale_at(group));
            match (CONTEXTS, GROUPS) {
                (false, _) => _mm256_setzero_si256(),
                (true, false) => lookup.context_offsets(_mm_loadu_si128(scale.add(8 * vector).cast())),
                (true, true) => lookup.context_offset(*scale),
            }
        }
    };
    let mut places = [Places::default(); LANES / 8];
    if done < range.end {
        for (vector, (places, state)) in places.iter_mut().zip(state).enumerate() {
            places.store(lookup.index(state, offset(done, vector)));
        }
    }
    while done < range.end && words.len() - bytes >= REACH {
        if done == parts.end {
            parts = Parts::new(count, done);
        }
        // SAFETY: `done` is a multiple of 32 below `count`, the length of `heads`, with which those of `scales` and `escaped` agree; REACH bytes of words are
        // left, and each refill takes at most 16 of them; `packed` holds `count` fields, and `done` is between where the parts begin and end.
        unsafe {
            let scale = scales.as_ptr().add(scale_at(done));
            let a = lookup.entry_at(first, &places[0]);
            let b = lookup.entry_at(second, &places[1]);
            let c = lookup.entry_at(third, &places[2]);
            let d = lookup.entry_at(fourth, &places[3]);
            // The places of the next group are on their way while this one is put together. Behind the last they are not used.
            let next = (done + LANES).min(count - LANES);
            first = lookup.refill(a.1, words.as_ptr(), &mut bytes);
            places[0].store(lookup.index(first, offset(next, 0)));
            second = lookup.refill(b.1, words.as_ptr(), &mut bytes);
            places[1].store(lookup.index(second, offset(next, 1)));
            third = lookup.refill(c.1, words.as_ptr(), &mut bytes);
            places[2].store(lookup.index(third, offset(next, 2)));
            fourth = lookup.refill(d.1, words.as_ptr(), &mut bytes);
            places[3].store(lookup.index(fourth, offset(next, 3)));
            let symbols = [symbols_of(a.0, b.0), symbols_of(c.0, d.0)];
            *escaped.as_mut_ptr().add(done / LANES) = escapes_of(symbols);

            let one = parts.ones.at(packed, done);
            let low = if BITS >= 8 {
                parts.eights.at(packed, done)
            } else {
                let (fours, twos) = (parts.fours.at(packed, done), parts.twos.at(packed, done));
                _mm256_or_si256(_mm256_or_si256(fours, twos), one)
            };
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
                    field = _mm256_or_si256(field, _mm256_slli_epi16::<8>(bytes_of(one)));
                }
                let scale = if GROUPS {
                    _mm256_set1_epi16(*scale)
                } else {
                    _mm256_loadu_si256(scale.add(16 * half).cast())
                };
                _mm256_storeu_si256(
                    target.add(16 * half).cast(),
                    assembly.head::<BITS>(symbols, field, scale),
                );
            }
        }
        done += LANES;
    }
    for (vector, lanes) in [first, second, third, fourth].iter().zip(states.chunks_exact_mut(8)) {
        // SAFETY: `lanes` holds eight u32.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *vector) };
    }
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
    let bytes = _mm256_packus_epi16(symbols[0], symbols[1]);
    let escaped = _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(bytes, last), bytes));
    // Most groups have none, whose order does not matter.
    if escaped == 0 {
        return 0;
    }
    let [first, third, second, fourth] = escaped.to_le_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}

/// Where the parts of packed fields are, for as many fields as the shifts stay the same. See `low_bits` for how fields are stored.
struct Parts<const BITS: usize> {
    eights: Part<BITS, 8>,
    fours: Part<BITS, 4>,
    twos: Part<BITS, 2>,
    ones: Part<BITS, 1>,
    /// The first field that this is not true for.
    end: usize,
}

impl<const BITS: usize> Parts<BITS> {
    /// The parts of `count` fields, a multiple of 256, from field `start` on, a multiple of 32.
    #[target_feature(enable = "avx2")]
    fn new(count: usize, start: usize) -> Self {
        // Narrower parts are in fewer bytes, and go over to the next bits of these sooner.
        let narrowest = BITS & BITS.wrapping_neg();
        let stride = (count / 8 * narrowest).max(1);
        Self {
            eights: Part::new(count, start),
            fours: Part::new(count, start),
            twos: Part::new(count, start),
            ones: Part::new(count, start),
            end: (start / stride + 1) * stride,
        }
    }
}

/// Where the parts of WIDTH bits of packed fields are, if fields of BITS bits have such parts.
struct Part<const BITS: usize, const WIDTH: usize> {
    /// Where the byte of field 0 would be, if its bits were in the place of these; may lie before the packed fields.
    start: isize,
    shift: __m128i,
}

impl<const BITS: usize, const WIDTH: usize> Part<BITS, WIDTH> {
    /// Where the part is in a field; wider parts are below it.
    const POSITION: usize = BITS & !(2 * WIDTH - 1);

    #[target_feature(enable = "avx2")]
    fn new(count: usize, field: usize) -> Self {
        let stride = (count / 8 * WIDTH).max(1);
        let turn = field / stride;
        let start = (count / 8 * Self::POSITION) as isize - (turn * stride) as isize;
        Self { start, shift: _mm_cvtsi32_si128((turn * WIDTH) as i32) }
    }

    /// The parts of the 32 fields from `field` on, in their place below bit 8, or at bit 0 if that is bit 8; zero if there are none.
    ///
    /// # Safety
    ///
    /// `packed` must hold `count` fields, of which these are some, and the shifts must be theirs.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn at(&self, packed: &[u8], field: usize) -> __m256i {
        if BITS & WIDTH == 0 {
            return _mm256_setzero_si256();
        }
        // SAFETY: wider parts take POSITION bits of each field and come first; of the bytes that follow, those of 32 fields are inside.
        let stored =
            unsafe { _mm256_loadu_si256(packed.as_ptr().offset(self.start + field as isize).cast()) };
        let bits = _mm256_srl_epi16(stored, self.shift);
        let bits = _mm256_and_si256(bits, _mm256_set1_epi8(((1u16 << WIDTH) - 1) as u8 as i8));
        _mm256_sll_epi16(bits, _mm_cvtsi32_si128((Self::POSITION & 7) as i32))
    }
}

/// The constants of putting heads together.
struct Assembly {
    /// By which symbols are shifted to where the exponent and the joint mantissa bits are.
    low_mantissa: __m128i,
    /// The exponent and the joint mantissa bits.
    top_mask: __m256i,
    /// By which the sign is shifted from above the low mantissa to the top.
    sign_shift: __m128i,
    /// The low mantissa.
    low_mask: __m256i,
    /// The sign and the low mantissa.
    field_mask: __m256i,
    /// The constant sign.
    sign: __m256i,
    /// What is taken from the scale, without its fraction.
    centre: __m256i,
}

impl Assembly {
    #[target_feature(enable = "avx2")]
    fn new(format: HeadFormat) -> Self {
        let low = format.low_mantissa;
        let low_mask = (1u16 << low) - 1;
        let field_mask = low_mask | 0x8000;
        Self {
            low_mantissa: _mm_cvtsi32_si128(low as i32),
            top_mask: _mm256_set1_epi16(!field_mask as i16),
            sign_shift: _mm_cvtsi32_si128(15 - low as i32),
            low_mask: _mm256_set1_epi16(low_mask as i16),
            field_mask: _mm256_set1_epi16(field_mask as i16),
            sign: _mm256_set1_epi16(format.sign as i16),
            centre: _mm256_set1_epi16(format.centre << JOINT_BITS),
        }
    }

    /// Sixteen heads. Scales have as many fraction bits as symbols have mantissa bits, so that whole octaves can be added as they are.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn head<const BITS: usize>(&self, symbols: __m256i, fields: __m256i, scales: __m256i) -> __m256i {
        let octaves = _mm256_sub_epi16(_mm256_and_si256(scales, _mm256_set1_epi16(!3)), self.centre);
        let top = _mm256_sll_epi16(_mm256_add_epi16(symbols, octaves), self.low_mantissa);
        // The sign is the field's top bit, or zero. In wide fields the bits below it must not go along.
        let signs = if BITS < 8 { fields } else { _mm256_andnot_si256(self.low_mask, fields) };
        let fields = _mm256_or_si256(_mm256_sll_epi16(signs, self.sign_shift), fields);
        let fields = _mm256_or_si256(_mm256_and_si256(fields, self.field_mask), self.sign);
        _mm256_or_si256(_mm256_and_si256(top, self.top_mask), fields)
    }
}
