//! Float heads with AVX2: rANS symbols, scales and verbatim bits put together in registers. The entropy coder waits for memory and multiplications much of
//! the time; the rest of the work fills these gaps.
#![allow(unsafe_code)]

use super::avx2::Lookup;
use super::{HeadFormat, HeadInputs};
use crate::entropy::rans::{DecoderTables, LANES};
use std::arch::x86_64::*;

/// A group reads at most one word per lane, and each load reaches 16 bytes.
const REACH: usize = 2 * LANES + 16;

/// See [`super::Kernel::decode_heads`].
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) fn decode_heads(
    tables: &DecoderTables,
    inputs: HeadInputs,
    states: &mut [u32; LANES],
    words: &[u8],
    symbols: &mut [u8],
    heads: &mut [u16],
) -> (usize, usize) {
    // The numbers of bits that the layouts of floats have, with and without a sign, get loops of their own.
    match (tables.slots().len() > 1 << tables.precision(), inputs.format.low_bits) {
        (false, 2) => decode::<false, 2>(tables, inputs, states, words, symbols, heads),
        (false, 3) => decode::<false, 3>(tables, inputs, states, words, symbols, heads),
        (false, 5) => decode::<false, 5>(tables, inputs, states, words, symbols, heads),
        (false, 6) => decode::<false, 6>(tables, inputs, states, words, symbols, heads),
        (false, 8) => decode::<false, 8>(tables, inputs, states, words, symbols, heads),
        (false, 9) => decode::<false, 9>(tables, inputs, states, words, symbols, heads),
        (true, 2) => decode::<true, 2>(tables, inputs, states, words, symbols, heads),
        (true, 3) => decode::<true, 3>(tables, inputs, states, words, symbols, heads),
        (true, 5) => decode::<true, 5>(tables, inputs, states, words, symbols, heads),
        (true, 6) => decode::<true, 6>(tables, inputs, states, words, symbols, heads),
        (true, 8) => decode::<true, 8>(tables, inputs, states, words, symbols, heads),
        (true, 9) => decode::<true, 9>(tables, inputs, states, words, symbols, heads),
        _ => (0, 0),
    }
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn decode<const CONTEXTS: bool, const BITS: usize>(
    tables: &DecoderTables,
    inputs: HeadInputs,
    states: &mut [u32; LANES],
    words: &[u8],
    symbols: &mut [u8],
    heads: &mut [u16],
) -> (usize, usize) {
    let HeadInputs { format, expected, packed } = inputs;
    let count = heads.len();
    assert!(
        count.is_power_of_two() && count >= 8 * LANES && expected.len() == count && symbols.len() == count
    );
    assert!(packed.len() >= count / 8 * BITS);
    let lookup = Lookup::new(tables);
    let assembly = Assembly::new(format);
    let mut state = [_mm256_setzero_si256(); LANES / 8];
    for (vector, lanes) in state.iter_mut().zip(states.chunks_exact(8)) {
        // SAFETY: `lanes` holds eight u32.
        *vector = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
    }
    let [mut first, mut second, mut third, mut fourth] = state;
    let (mut done, mut bytes) = (0, 0usize);
    while done < count && words.len() - bytes >= REACH {
        // SAFETY: `done` is a multiple of 32 below `count`, the length of `expected`, `symbols` and `heads`; REACH bytes of words are left, and each
        // refill takes at most 16 of them; a part holds `stride` bytes, a multiple of 32, inside `packed`.
        unsafe {
            let scale = expected.as_ptr().add(done);
            let a = lookup.next::<CONTEXTS>(first, scale);
            let b = lookup.next::<CONTEXTS>(second, scale.add(8));
            let c = lookup.next::<CONTEXTS>(third, scale.add(16));
            let d = lookup.next::<CONTEXTS>(fourth, scale.add(24));
            first = lookup.refill(a.1, words.as_ptr(), &mut bytes);
            second = lookup.refill(b.1, words.as_ptr(), &mut bytes);
            third = lookup.refill(c.1, words.as_ptr(), &mut bytes);
            fourth = lookup.refill(d.1, words.as_ptr(), &mut bytes);
            let found = super::avx2::pack_symbols([a.0, b.0, c.0, d.0]);
            _mm256_storeu_si256(symbols.as_mut_ptr().add(done).cast(), found);

            let low = if BITS >= 8 {
                part::<BITS, 8>(packed, count, done)
            } else {
                let low = _mm256_or_si256(
                    part::<BITS, 4>(packed, count, done),
                    part::<BITS, 2>(packed, count, done),
                );
                _mm256_or_si256(low, part::<BITS, 1>(packed, count, done))
            };
            let target = heads.as_mut_ptr().add(done);
            for half in 0..2 {
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
                    let high = bytes_of(part::<BITS, 1>(packed, count, done));
                    field = _mm256_or_si256(field, _mm256_slli_epi16::<8>(high));
                }
                let scale = _mm256_loadu_si256(scale.add(16 * half).cast());
                let head = assembly.head(bytes_of(found), field, scale);
                _mm256_storeu_si256(target.add(16 * half).cast(), head);
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

/// The part of WIDTH bits of 32 fields from `done` on, in its place below bit 8 or (of nine bits) at bit 0; zero if fields of BITS bits have no such part. See
/// `low_bits` for how `count` fields are stored.
///
/// # Safety
///
/// `done` must be a multiple of 32 below `count`, a power of two, and `packed` hold `count` fields.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn part<const BITS: usize, const WIDTH: usize>(packed: &[u8], count: usize, done: usize) -> __m256i {
    if BITS & WIDTH == 0 {
        return _mm256_setzero_si256();
    }
    let position = BITS & !(2 * WIDTH - 1);
    let stride = count / 8 * WIDTH;
    let (turn, place) = (done >> stride.trailing_zeros(), done & (stride - 1));
    // SAFETY: wider parts take `position` bits of each field and come first; `place` is a multiple of 32 below `stride`.
    let stored = unsafe { _mm256_loadu_si256(packed.as_ptr().add(count / 8 * position + place).cast()) };
    let bits = _mm256_srl_epi16(stored, _mm_cvtsi32_si128((turn * WIDTH) as i32));
    let bits = _mm256_and_si256(bits, _mm256_set1_epi8(((1u16 << WIDTH) - 1) as u8 as i8));
    _mm256_sll_epi16(bits, _mm_cvtsi32_si128((position & 7) as i32))
}

/// The constants of putting heads together.
struct Assembly {
    exponent_mask: __m256i,
    mantissa_bits: __m128i,
    low_mantissa: __m128i,
    mantissa_mask: __m256i,
    sign_shift: __m128i,
    sign: __m256i,
    centre: __m256i,
}

impl Assembly {
    #[target_feature(enable = "avx2")]
    fn new(format: HeadFormat) -> Self {
        let low = format.low_mantissa as i32;
        Self {
            exponent_mask: _mm256_set1_epi16((1 << format.exponent_bits) - 1),
            mantissa_bits: _mm_cvtsi32_si128(15 - format.exponent_bits as i32),
            low_mantissa: _mm_cvtsi32_si128(low),
            mantissa_mask: _mm256_set1_epi16((1 << low) - 1),
            sign_shift: _mm_cvtsi32_si128(15 - low),
            sign: _mm256_set1_epi16(format.sign as i16),
            centre: _mm256_set1_epi16(format.centre),
        }
    }

    /// Sixteen heads.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn head(&self, symbol: __m256i, field: __m256i, scale: __m256i) -> __m256i {
        let octave = _mm256_sub_epi16(_mm256_srai_epi16::<2>(scale), self.centre);
        let exponent = _mm256_add_epi16(_mm256_srli_epi16::<2>(symbol), octave);
        let exponent = _mm256_sll_epi16(_mm256_and_si256(exponent, self.exponent_mask), self.mantissa_bits);
        let joint = _mm256_sll_epi16(_mm256_and_si256(symbol, _mm256_set1_epi16(3)), self.low_mantissa);
        let sign = _mm256_sll_epi16(_mm256_andnot_si256(self.mantissa_mask, field), self.sign_shift);
        let low = _mm256_or_si256(_mm256_and_si256(field, self.mantissa_mask), self.sign);
        _mm256_or_si256(_mm256_or_si256(exponent, joint), _mm256_or_si256(sign, low))
    }
}
