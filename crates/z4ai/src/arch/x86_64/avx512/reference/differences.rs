//! Floats against those of a reference with AVX-512: differences, their symbols and the numbers of the
//! reference's exponents, 64 elements at a time.
#![allow(unsafe_code)]

use super::raw_bits::TOP_BITS;
use crate::transform::reference::{Alphabet, Movement, Word};
use std::arch::asm;
use std::arch::x86_64::*;

/// Elements of a step.
const ELEMENTS_PER_STEP: usize = 64;

/// The differences of whole steps, with symbols and exponent numbers; returns how many elements those have,
/// and how many bits their differences.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx2")]
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
    let steps =
        [current.len() / W::BYTES, base.len() / W::BYTES, differences.len(), symbols.len(), numbers.len()];
    let steps = steps.into_iter().min().unwrap_or(0) / ELEMENTS_PER_STEP;
    let (split, numbering) =
        (SymbolSplit::new(Alphabet::of_width(W::BYTES)), ExponentNumbering::new(movement));
    let mut zeros = _mm512_setzero_si512();
    for step in 0..steps {
        let start = step * ELEMENTS_PER_STEP;
        // SAFETY: there are STEP elements from `start` on in all five; they take as many registers as an
        // element has bytes.
        unsafe {
            let new = current.as_ptr().add(start * W::BYTES).cast::<__m512i>();
            let old = base.as_ptr().add(start * W::BYTES).cast::<__m512i>();
            let place = differences.as_mut_ptr().add(start).cast::<__m512i>();
            let (found, exponents) = if W::BYTES == 2 {
                let mut all = [_mm512_setzero_si512(); 2];
                let mut exponents = all;
                for half in 0..2 {
                    let base = _mm512_loadu_si512(old.add(half));
                    all[half] = short(_mm512_loadu_si512(new.add(half)), base, movement);
                    _mm512_storeu_si512(place.add(half), all[half]);
                    exponents[half] = numbering.short_exponents(base);
                }
                (split.of_short(all, &mut zeros), pack_shorts(exponents))
            } else {
                let mut all = [_mm512_setzero_si512(); 4];
                let mut exponents = all;
                for quarter in 0..4 {
                    let base = _mm512_loadu_si512(old.add(quarter));
                    all[quarter] = long(_mm512_loadu_si512(new.add(quarter)), base, movement);
                    _mm512_storeu_si512(place.add(quarter), all[quarter]);
                    exponents[quarter] = numbering.long_exponents(base);
                }
                (pack_longs(split.of(all, &mut zeros)), pack_longs(exponents))
            };
            _mm512_storeu_si512(symbols.as_mut_ptr().add(start).cast(), found);
            _mm512_storeu_si512(numbers.as_mut_ptr().add(start).cast(), numbering.numbers(exponents));
        }
    }
    // What is not a leading zero of 32 bits is a bit of the difference.
    let bits = (steps * ELEMENTS_PER_STEP * 32) as i32 - _mm512_reduce_add_epi32(zeros);
    (steps * ELEMENTS_PER_STEP, bits as u32)
}

/// Differences of 32 elements of two bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn short(current: __m512i, base: __m512i, movement: Movement) -> __m512i {
    let magnitude = _mm512_set1_epi16(i16::MAX);
    // A magnitude of the other sign is one below zero.
    let other = _mm512_srai_epi16::<15>(_mm512_xor_si512(current, base));
    let order = _mm512_xor_si512(_mm512_and_si512(current, magnitude), other);
    let mut steps = _mm512_sub_epi16(order, _mm512_and_si512(base, magnitude));
    if movement.rate != 0 {
        steps = _mm512_sub_epi16(steps, short_decay(base, movement));
    }
    _mm512_xor_si512(_mm512_add_epi16(steps, steps), _mm512_srai_epi16::<15>(steps))
}

/// The steps by which 32 elements of two bytes decay. The product of a mantissa and the rate has 48 bits, of
/// which those above the lowest 32 count; it is put together from products with both halves of the rate.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::arch) fn short_decay(base: __m512i, movement: Movement) -> __m512i {
    let implicit = 1i16 << movement.mantissa_bits;
    let mantissa = _mm512_and_si512(base, _mm512_set1_epi16(implicit - 1));
    let mantissa = _mm512_or_si512(mantissa, _mm512_set1_epi16(implicit));
    let high = _mm512_set1_epi16((movement.rate >> 16) as i16);
    let carried = _mm512_mulhi_epu16(mantissa, in_place(_mm512_set1_epi16(movement.rate as i16)));
    let sum = _mm512_add_epi16(_mm512_mullo_epi16(mantissa, high), carried);
    let rounded = _mm512_add_epi16(_mm512_mulhi_epi16(mantissa, high), _mm512_srli_epi16::<15>(sum));
    // One more where the sum wrapped.
    let wrapped = _mm512_cmplt_epu16_mask(sum, carried);
    _mm512_mask_add_epi16(rounded, wrapped, rounded, _mm512_set1_epi16(1))
}

/// Hides a constant factor from the optimiser, which would widen it before a loop and then have to multiply
/// in wide registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_place(mut factor: __m512i) -> __m512i {
    // SAFETY: the assembly is a comment.
    unsafe { asm!("/* {} */", inout(zmm_reg) factor, options(nomem, nostack, preserves_flags)) };
    factor
}

/// Differences of sixteen elements of four bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn long(current: __m512i, base: __m512i, movement: Movement) -> __m512i {
    let magnitude = _mm512_set1_epi32(i32::MAX);
    let other = _mm512_srai_epi32::<31>(_mm512_xor_si512(current, base));
    let order = _mm512_xor_si512(_mm512_and_si512(current, magnitude), other);
    let mut steps = _mm512_sub_epi32(order, _mm512_and_si512(base, magnitude));
    if movement.rate != 0 {
        steps = _mm512_sub_epi32(steps, long_decay(base, movement));
    }
    _mm512_xor_si512(_mm512_add_epi32(steps, steps), _mm512_srai_epi32::<31>(steps))
}

/// The steps by which sixteen elements of four bytes decay.
#[inline]
#[target_feature(enable = "avx512f")]
fn long_decay(base: __m512i, movement: Movement) -> __m512i {
    let implicit = 1i32 << movement.mantissa_bits;
    let mantissa = _mm512_and_si512(base, _mm512_set1_epi32(implicit - 1));
    let mantissa = _mm512_or_si512(mantissa, _mm512_set1_epi32(implicit));
    let (rate, half) = (_mm512_set1_epi32(movement.rate), _mm512_set1_epi64(1 << 31));
    let even = _mm512_add_epi64(_mm512_mul_epi32(mantissa, rate), half);
    let odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64::<32>(mantissa), rate), half);
    _mm512_mask_blend_epi32(0b1010_1010_1010_1010, _mm512_srli_epi64::<32>(even), odd)
}

/// The low bytes of 64 numbers of two bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn pack_shorts(shorts: [__m512i; 2]) -> __m512i {
    _mm512_permutex2var_epi8(shorts[0], every::<2>(), shorts[1])
}

/// The low bytes of 64 numbers of four bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn pack_longs(longs: [__m512i; 4]) -> __m512i {
    let [a, b, c, d] = longs;
    let first = _mm512_permutex2var_epi8(a, every::<4>(), b);
    let second = _mm512_permutex2var_epi8(c, every::<4>(), d);
    _mm512_inserti64x4::<1>(first, _mm512_castsi512_si256(second))
}

/// The indices of every `STRIDE`-th byte of 128.
#[inline]
#[target_feature(enable = "avx512f")]
fn every<const STRIDE: usize>() -> __m512i {
    let indices = const {
        let (mut indices, mut at) = ([0u8; 64], 0);
        while at < 128 / STRIDE {
            indices[at] = (at * STRIDE) as u8;
            at += 1;
        }
        indices
    };
    // SAFETY: the array is as long as a register.
    unsafe { _mm512_loadu_si512(indices.as_ptr().cast()) }
}

/// How exponents are numbered.
pub(in crate::arch) struct ExponentNumbering {
    shift: __m128i,
    top: __m512i,
}

/// Exponents so far below the top have one of these numbers; those that are further below have the last.
pub(in crate::arch) static NUMBERS: [u8; 128] = {
    let (mut numbers, mut below) = ([0; 128], 0usize);
    while below < 128 {
        let (mut number, mut start) = (0, 0);
        // The first 16 have a number each, the next 32 in fours, the next 56 in eights.
        let mut part = 0;
        while part < 3 {
            let (length, together) = [(16, 1), (32, 4), (56, 8)][part];
            let inside = below.saturating_sub(start);
            number += if inside < length { inside / together } else { length / together };
            start += length;
            part += 1;
        }
        numbers[below] = number as u8;
        below += 1;
    }
    numbers
};

impl ExponentNumbering {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn new(movement: Movement) -> Self {
        Self {
            shift: _mm_cvtsi32_si128(movement.mantissa_bits as i32),
            top: _mm512_set1_epi8(movement.top_exponent as i8),
        }
    }

    /// The exponents of 32 elements of two bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn short_exponents(&self, base: __m512i) -> __m512i {
        _mm512_srl_epi16(_mm512_and_si512(base, _mm512_set1_epi16(i16::MAX)), self.shift)
    }

    /// The exponents of sixteen elements of four bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn long_exponents(&self, base: __m512i) -> __m512i {
        _mm512_srl_epi32(_mm512_and_si512(base, _mm512_set1_epi32(i32::MAX)), self.shift)
    }

    /// Where the numbers of 64 exponents are in [`NUMBERS`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn places(&self, exponents: __m512i) -> __m512i {
        _mm512_min_epu8(_mm512_subs_epu8(self.top, exponents), _mm512_set1_epi8(127))
    }

    /// The numbers of 64 exponents.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn numbers(&self, exponents: __m512i) -> __m512i {
        look_up(&NUMBERS, self.places(exponents))
    }
}

/// The bytes at 64 indices, all below 128.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
pub(in crate::arch) fn look_up(table: &[u8; 128], indices: __m512i) -> __m512i {
    // SAFETY: the table is as long as two registers.
    unsafe {
        let (low, high) =
            (_mm512_loadu_si512(table.as_ptr().cast()), _mm512_loadu_si512(table.as_ptr().add(64).cast()));
        _mm512_permutex2var_epi8(low, indices, high)
    }
}

/// How differences become symbols.
struct SymbolSplit {
    last_direct: __m512i,
    last_short_direct: __m512i,
    /// What is added to the first bits of a difference, less eight times its leading zeros.
    bias: __m512i,
}

impl SymbolSplit {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(alphabet: Alphabet) -> Self {
        debug_assert_eq!(alphabet.top_bits, TOP_BITS);
        let direct = alphabet.direct() as i32;
        Self {
            last_direct: _mm512_set1_epi32(direct - 1),
            last_short_direct: _mm512_set1_epi16(direct as i16 - 1),
            bias: _mm512_set1_epi32(direct + ((30 - alphabet.direct_bits as i32) << TOP_BITS)),
        }
    }

    /// The symbols of 64 differences of two bytes; their leading zeros, as numbers of 32 bits, are added to
    /// `zeros`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi")]
    fn of_short(&self, differences: [__m512i; 2], zeros: &mut __m512i) -> __m512i {
        /// The leading zeros, as numbers of 32 bits, of numbers below 128.
        static ZEROS: [u8; 128] = {
            let (mut zeros, mut number) = ([32; 128], 1u32);
            while number < 128 {
                zeros[number as usize] = number.leading_zeros() as u8;
                number += 1;
            }
            zeros
        };
        let any = _mm512_or_si512(differences[0], differences[1]);
        if _mm512_cmpgt_epu16_mask(any, self.last_short_direct) == 0 {
            let found = pack_shorts(differences);
            let sums = _mm512_sad_epu8(look_up(&ZEROS, found), _mm512_setzero_si512());
            *zeros = _mm512_add_epi32(*zeros, sums);
            return found;
        }
        let wide = |differences: __m512i| {
            let (low, high) =
                (_mm512_castsi512_si256(differences), _mm512_extracti64x4_epi64::<1>(differences));
            (_mm512_cvtepu16_epi32(low), _mm512_cvtepu16_epi32(high))
        };
        let ((a, b), (c, d)) = (wide(differences[0]), wide(differences[1]));
        pack_longs(self.of([a, b, c, d], zeros))
    }

    /// The symbols of 64 differences, in the low bytes; their leading zeros are added to `zeros`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512cd")]
    fn of(&self, mut differences: [__m512i; 4], zeros: &mut __m512i) -> [__m512i; 4] {
        for differences in &mut differences {
            let leading = _mm512_lzcnt_epi32(*differences);
            *zeros = _mm512_add_epi32(*zeros, leading);
            let large = _mm512_cmpgt_epu32_mask(*differences, self.last_direct);
            let raw = _mm512_sub_epi32(_mm512_set1_epi32(31 - TOP_BITS as i32), leading);
            let top = _mm512_add_epi32(_mm512_srlv_epi32(*differences, raw), self.bias);
            let eights = _mm512_slli_epi32::<TOP_BITS>(leading);
            *differences = _mm512_mask_sub_epi32(*differences, large, top, eights);
        }
        differences
    }
}
