//! Floats against those of a reference with AVX2: differences, their symbols and the numbers of the
//! reference's exponents, 32 elements at a time.
#![allow(unsafe_code)]

use super::symbols::SymbolSplit;
use crate::arch::x86_64::avx2::rans::pack_symbols;
use crate::transform::reference::{Alphabet, Movement, RAW_PIECE, Word};
use std::arch::asm;
use std::arch::x86_64::*;

/// The differences of whole pieces, with symbols and exponent numbers; returns how many elements those have,
/// and how many bits their differences.
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn differences<W: Word>(
    movement: Movement,
    current: &[u8],
    base: &[u8],
    differences: &mut [W],
    symbols: &mut [u8],
    numbers: &mut [u8],
) -> (usize, u32) {
    if W::BYTES != 2 && W::BYTES != 4 {
        return (0, 0);
    }
    let pieces =
        [current.len() / W::BYTES, base.len() / W::BYTES, differences.len(), symbols.len(), numbers.len()];
    let pieces = pieces.into_iter().min().unwrap_or(0) / RAW_PIECE;
    let alphabet = Alphabet::of_width(W::BYTES);
    let (split, lengths) = (SymbolSplit::new(alphabet), Lengths::new(alphabet));
    let numbering = ExponentNumbering::new(movement);
    let mut bits = _mm256_setzero_si256();
    for piece in 0..pieces {
        let start = piece * RAW_PIECE;
        // SAFETY: there are PIECE elements from `start` on in all five.
        unsafe {
            let (new, old) = (current.as_ptr().add(start * W::BYTES), base.as_ptr().add(start * W::BYTES));
            let place = differences.as_mut_ptr().add(start).cast::<__m256i>();
            let (found, exponents) = if W::BYTES == 2 {
                let mut all = [_mm256_setzero_si256(); 2];
                let mut exponents = all;
                for half in 0..2 {
                    let base = _mm256_loadu_si256(old.cast::<__m256i>().add(half));
                    all[half] = short(_mm256_loadu_si256(new.cast::<__m256i>().add(half)), base, movement);
                    _mm256_storeu_si256(place.add(half), all[half]);
                    exponents[half] = numbering.short_exponents(base);
                }
                let any = _mm256_or_si256(all[0], all[1]);
                let found = if split.are_short_symbols(any) {
                    pack_shorts(all)
                } else {
                    let wide = |half: usize| {
                        let (low, high) =
                            (_mm256_castsi256_si128(all[half]), _mm256_extracti128_si256::<1>(all[half]));
                        (split.of(_mm256_cvtepu16_epi32(low)), split.of(_mm256_cvtepu16_epi32(high)))
                    };
                    let ((a, b), (c, d)) = (wide(0), wide(1));
                    pack_symbols([a, b, c, d])
                };
                (found, pack_shorts(exponents))
            } else {
                let mut all = [_mm256_setzero_si256(); 4];
                let mut exponents = all;
                for quarter in 0..4 {
                    let base = _mm256_loadu_si256(old.cast::<__m256i>().add(quarter));
                    all[quarter] =
                        long(_mm256_loadu_si256(new.cast::<__m256i>().add(quarter)), base, movement);
                    _mm256_storeu_si256(place.add(quarter), all[quarter]);
                    exponents[quarter] = numbering.long_exponents(base);
                }
                (pack_symbols(split.of_all(all)), pack_symbols(exponents))
            };
            _mm256_storeu_si256(symbols.as_mut_ptr().add(start).cast(), found);
            _mm256_storeu_si256(numbers.as_mut_ptr().add(start).cast(), numbering.numbers(exponents));
            bits = _mm256_add_epi64(bits, lengths.sums(found));
        }
    }
    let halves = _mm_add_epi64(_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits));
    let bits = _mm_cvtsi128_si64(halves) + _mm_extract_epi64::<1>(halves);
    (pieces * RAW_PIECE, bits as u32)
}

/// Differences of sixteen elements of two bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn short(current: __m256i, base: __m256i, movement: Movement) -> __m256i {
    let magnitude = _mm256_set1_epi16(i16::MAX);
    // A magnitude of the other sign is one below zero.
    let other = _mm256_srai_epi16::<15>(_mm256_xor_si256(current, base));
    let order = _mm256_xor_si256(_mm256_and_si256(current, magnitude), other);
    let mut steps = _mm256_sub_epi16(order, _mm256_and_si256(base, magnitude));
    if movement.rate != 0 {
        steps = _mm256_sub_epi16(steps, short_decay(base, movement));
    }
    _mm256_xor_si256(_mm256_slli_epi16::<1>(steps), _mm256_srai_epi16::<15>(steps))
}

/// The steps by which sixteen elements of two bytes decay. The product of a mantissa and the rate has 48
/// bits, of which those above the lowest 32 count; it is put together from products with both halves of the
/// rate.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn short_decay(base: __m256i, movement: Movement) -> __m256i {
    let implicit = 1i16 << movement.mantissa_bits;
    let mantissa = _mm256_and_si256(base, _mm256_set1_epi16(implicit - 1));
    let mantissa = _mm256_or_si256(mantissa, _mm256_set1_epi16(implicit));
    let high = _mm256_set1_epi16((movement.rate >> 16) as i16);
    let carried = _mm256_mulhi_epu16(mantissa, in_place(_mm256_set1_epi16(movement.rate as i16)));
    let sum = _mm256_add_epi16(_mm256_mullo_epi16(mantissa, high), carried);
    // All bits set where the sum did not wrap, which takes back the one that is added for all.
    let whole = _mm256_cmpeq_epi16(_mm256_max_epu16(sum, carried), sum);
    let rounded = _mm256_add_epi16(_mm256_srli_epi16::<15>(sum), _mm256_set1_epi16(1));
    _mm256_add_epi16(_mm256_add_epi16(_mm256_mulhi_epi16(mantissa, high), rounded), whole)
}

/// Hides a constant factor from the optimiser, which would widen it before a loop and then have to multiply
/// in wide registers.
#[inline]
#[target_feature(enable = "avx2")]
fn in_place(mut factor: __m256i) -> __m256i {
    // SAFETY: the assembly is a comment.
    unsafe { asm!("/* {} */", inout(ymm_reg) factor, options(nomem, nostack, preserves_flags)) };
    factor
}

/// Differences of eight elements of four bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn long(current: __m256i, base: __m256i, movement: Movement) -> __m256i {
    let magnitude = _mm256_set1_epi32(i32::MAX);
    let other = _mm256_srai_epi32::<31>(_mm256_xor_si256(current, base));
    let order = _mm256_xor_si256(_mm256_and_si256(current, magnitude), other);
    let mut steps = _mm256_sub_epi32(order, _mm256_and_si256(base, magnitude));
    if movement.rate != 0 {
        steps = _mm256_sub_epi32(steps, long_decay(base, movement));
    }
    _mm256_xor_si256(_mm256_slli_epi32::<1>(steps), _mm256_srai_epi32::<31>(steps))
}

/// The steps by which eight elements of four bytes decay.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn long_decay(base: __m256i, movement: Movement) -> __m256i {
    let implicit = 1i32 << movement.mantissa_bits;
    let mantissa = _mm256_and_si256(base, _mm256_set1_epi32(implicit - 1));
    let mantissa = _mm256_or_si256(mantissa, _mm256_set1_epi32(implicit));
    let (rate, half) = (_mm256_set1_epi32(movement.rate), _mm256_set1_epi64x(1 << 31));
    let even = _mm256_add_epi64(_mm256_mul_epi32(mantissa, rate), half);
    let odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64::<32>(mantissa), rate), half);
    _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(even), odd)
}

/// 32 numbers of two bytes, all below 256, as bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) fn pack_shorts(shorts: [__m256i; 2]) -> __m256i {
    // Packing works per 128-bit half; the permutation puts the groups of eight back in order.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(shorts[0], shorts[1]))
}

/// How exponents are numbered.
pub(in crate::arch) struct ExponentNumbering {
    shift: __m128i,
    top: __m256i,
}

impl ExponentNumbering {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn new(movement: Movement) -> Self {
        Self {
            shift: _mm_cvtsi32_si128(movement.mantissa_bits as i32),
            top: _mm256_set1_epi8(movement.top_exponent as i8),
        }
    }

    /// The exponents of sixteen elements of two bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn short_exponents(&self, base: __m256i) -> __m256i {
        _mm256_srl_epi16(_mm256_and_si256(base, _mm256_set1_epi16(i16::MAX)), self.shift)
    }

    /// The exponents of eight elements of four bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn long_exponents(&self, base: __m256i) -> __m256i {
        _mm256_srl_epi32(_mm256_and_si256(base, _mm256_set1_epi32(i32::MAX)), self.shift)
    }

    /// The numbers of 32 exponents.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn numbers(&self, exponents: __m256i) -> __m256i {
        let beyond = |from: __m256i, start: i8, most: i8| {
            _mm256_min_epu8(_mm256_subs_epu8(from, _mm256_set1_epi8(start)), _mm256_set1_epi8(most))
        };
        let below = _mm256_subs_epu8(self.top, exponents);
        let quarters = _mm256_srli_epi16::<2>(beyond(below, 16, 32));
        let eighths = _mm256_srli_epi16::<3>(beyond(below, 48, 56));
        // Shifts are of two bytes together: what comes from the upper one is cut off.
        let steps = _mm256_and_si256(quarters, _mm256_set1_epi8(15));
        let steps = _mm256_add_epi8(steps, _mm256_and_si256(eighths, _mm256_set1_epi8(7)));
        _mm256_add_epi8(_mm256_min_epu8(below, _mm256_set1_epi8(16)), steps)
    }
}

/// How many bits differences have, told from their symbols.
struct Lengths {
    direct: __m256i,
    /// What is added to a third of the position of symbols with raw bits.
    bias: __m256i,
}

impl Lengths {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(alphabet: Alphabet) -> Self {
        let direct = alphabet.direct();
        Self {
            direct: _mm256_set1_epi8(direct as u8 as i8),
            bias: _mm256_set1_epi8((alphabet.direct_bits + 1) as i8 - (direct >> alphabet.top_bits) as i8),
        }
    }

    /// The sums of the bits of 32 differences, in four parts.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sums(&self, symbols: __m256i) -> __m256i {
        let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4));
        let high = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 5, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8));
        let nibble = _mm256_set1_epi8(15);
        let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(symbols), nibble);
        let lower = _mm256_and_si256(symbols, nibble);
        let small = _mm256_max_epu8(_mm256_shuffle_epi8(low, lower), _mm256_shuffle_epi8(high, upper));
        // Three top bits, which alphabets of two and of four bytes have.
        let octave = _mm256_and_si256(_mm256_srli_epi16::<3>(symbols), _mm256_set1_epi8(31));
        let large = _mm256_add_epi8(octave, self.bias);
        let is_large = _mm256_cmpeq_epi8(_mm256_max_epu8(symbols, self.direct), symbols);
        let lengths = _mm256_blendv_epi8(small, large, is_large);
        _mm256_sad_epu8(lengths, _mm256_setzero_si256())
    }
}
