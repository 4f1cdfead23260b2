//! Exponents and the planes of signs and mantissas put together with AVX-512: a byte plane is widened and
//! shifted as a whole, and the bits of a bit plane become a mask of the elements that have them.
#![allow(unsafe_code)]

use crate::transform::nested::{NESTED_CHUNK, NESTED_GROUP, Tail, TailSign};
use std::arch::x86_64::*;

/// The most planes of single bits.
pub(super) const BIT_PLANES: usize = 7;

/// What the elements of a chunk are made from, and how.
struct Sources<'a> {
    exponents: &'a [u8],
    /// Planes of single bits, each of `bit_plane` bytes.
    bits: &'a [u8],
    bit_plane: usize,
    /// What the bits of each plane stand for in an element.
    bit_values: [u32; BIT_PLANES],
    bit_planes: usize,
    /// Planes of whole bytes, each of a byte per element.
    bytes: &'a [u8],
    /// By how much mantissas are shifted to the left.
    trailing_zeros: u32,
    /// The bits of an element that byte planes may set.
    mask: u32,
    exponent_shift: u32,
    exponent_mask: u32,
    /// The bits that all elements have.
    common: u32,
}

/// See [`crate::transform::nested::merge`]. Does nothing and says so unless elements have two or four bytes
/// and the planes the right length.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn merge(exponents: &[u8], tail: Tail, planes: &[u8], out: &mut [u8]) -> bool {
    let (geometry, kept, count) = (tail.geometry, tail.kept_mantissa(), exponents.len());
    if out.len() != count * geometry.width
        || count > NESTED_CHUNK
        || planes.len() != tail.stored_length(count)
    {
        return false;
    }
    let sign = 1 << geometry.sign_bit();
    let first_bit = 8 * tail.byte_planes() as u32;
    let bit_plane = count.div_ceil(NESTED_GROUP) * (NESTED_GROUP / 8);
    let (bits, bytes) = planes.split_at(tail.bit_planes() * bit_plane);
    let sources = Sources {
        exponents,
        bits,
        bit_plane,
        bit_values: std::array::from_fn(|plane| match first_bit + plane as u32 {
            bit if bit < kept => 1 << (bit + tail.trailing_zeros),
            _ => sign,
        }),
        bit_planes: tail.bit_planes(),
        bytes,
        trailing_zeros: tail.trailing_zeros,
        mask: ((1 << kept) - 1) << tail.trailing_zeros | if tail.sign == TailSign::Stored { sign } else { 0 },
        exponent_shift: geometry.mantissa_bits,
        exponent_mask: geometry.exponent_mask() << geometry.mantissa_bits,
        common: if tail.sign == TailSign::Set { sign } else { 0 },
    };
    // SAFETY: the planes have the bytes that the tail says they have, and the output those of all elements.
    unsafe {
        match (geometry.width, tail.byte_planes(), tail.bit_planes() > 0) {
            (2, 0, _) => sources.merge_short::<0, true>(out),
            (2, 1, false) => sources.merge_short::<1, false>(out),
            (2, 1, true) => sources.merge_short::<1, true>(out),
            (4, 0, _) => sources.merge_long::<0, true>(out),
            (4, 1, false) => sources.merge_long::<1, false>(out),
            (4, 1, true) => sources.merge_long::<1, true>(out),
            (4, 2, false) => sources.merge_long::<2, false>(out),
            (4, 2, true) => sources.merge_long::<2, true>(out),
            (4, 3, false) => sources.merge_long::<3, false>(out),
            _ => return false,
        }
    }
    true
}

impl Sources<'_> {
    /// Elements of two bytes, of which `BYTES` planes are whole bytes, and others if `BITS`.
    ///
    /// # Safety
    ///
    /// There must be as many planes as the numbers say, each for all elements, and two bytes of `out` for
    /// each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn merge_short<const BYTES: usize, const BITS: bool>(&self, out: &mut [u8]) {
        const MASK_LANES: usize = 32;
        let (count, target) = (self.exponents.len(), out.as_mut_ptr());
        let shift = _mm_cvtsi32_si128(self.trailing_zeros as i32);
        let mask = _mm512_set1_epi16(self.mask as i16);
        let exponent_shift = _mm_cvtsi32_si128(self.exponent_shift as i32);
        let exponent_mask = _mm512_set1_epi16(self.exponent_mask as i16);
        let common = _mm512_set1_epi16(self.common as i16);
        let values = self.bit_values.map(|value| value as i16);
        // The elements from `start` on, of which `lanes` says how many there are.
        let piece = |start: usize, lanes: __mmask32| {
            // SAFETY: nothing is read or written beyond the lanes that there are, except in bit planes, which
            // are padded.
            unsafe {
                let mut element = common;
                if BYTES == 1 {
                    let bytes = _mm256_maskz_loadu_epi8(lanes, self.bytes.as_ptr().add(start).cast());
                    // A sign in the byte's top bit spreads to the element's.
                    let wide = if BITS { _mm512_cvtepu8_epi16(bytes) } else { _mm512_cvtepi8_epi16(bytes) };
                    let moved = _mm512_sll_epi16(wide, shift);
                    element = _mm512_ternarylogic_epi32::<0xf8>(element, moved, mask);
                }
                if BITS {
                    let bit = _mm256_set1_epi8((1_u8 << (start / MASK_LANES % 8)) as i8);
                    for plane in 0..self.bit_planes {
                        let place = self
                            .bits
                            .as_ptr()
                            .add(plane * self.bit_plane + start / NESTED_GROUP * (NESTED_GROUP / 8));
                        let set = _mm256_test_epi8_mask(_mm256_loadu_si256(place.cast()), bit);
                        let value = _mm512_set1_epi16(*values.get_unchecked(plane));
                        element = _mm512_mask_add_epi16(element, set, element, value);
                    }
                }
                let exponents = _mm256_maskz_loadu_epi8(lanes, self.exponents.as_ptr().add(start).cast());
                let exponents = _mm512_sll_epi16(_mm512_cvtepu8_epi16(exponents), exponent_shift);
                element = _mm512_ternarylogic_epi32::<0xf8>(element, exponents, exponent_mask);
                _mm512_mask_storeu_epi16(target.add(2 * start).cast(), lanes, element);
            }
        };
        for start in (0..count / MASK_LANES).map(|index| index * MASK_LANES) {
            piece(start, !0);
        }
        if !count.is_multiple_of(MASK_LANES) {
            piece(count / MASK_LANES * MASK_LANES, (1 << (count % MASK_LANES)) - 1);
        }
    }

    /// Elements of four bytes, of which `BYTES` planes are whole bytes, and others if `BITS`.
    ///
    /// # Safety
    ///
    /// There must be as many planes as the numbers say, each for all elements, and four bytes of `out` for
    /// each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn merge_long<const BYTES: usize, const BITS: bool>(&self, out: &mut [u8]) {
        const MASK_LANES: usize = 16;
        let (count, target) = (self.exponents.len(), out.as_mut_ptr());
        let shifts: [__m128i; BYTES] =
            std::array::from_fn(|plane| _mm_cvtsi32_si128((self.trailing_zeros + 8 * plane as u32) as i32));
        let mask = _mm512_set1_epi32(self.mask as i32);
        let exponent_shift = _mm_cvtsi32_si128(self.exponent_shift as i32);
        let exponent_mask = _mm512_set1_epi32(self.exponent_mask as i32);
        let common = _mm512_set1_epi32(self.common as i32);
        let values = self.bit_values.map(|value| value as i32);
        let piece = |start: usize, lanes: __mmask16| {
            // SAFETY: nothing is read or written beyond the lanes that there are, except in bit planes, which
            // are padded.
            unsafe {
                let mut element = _mm512_setzero_si512();
                for (plane, &shift) in shifts.iter().enumerate() {
                    let place = self.bytes.as_ptr().add(plane * count + start);
                    let bytes = _mm_maskz_loadu_epi8(lanes, place.cast());
                    // A sign in the top bit of the last byte spreads to the element's.
                    let wide = if BITS || plane + 1 < BYTES {
                        _mm512_cvtepu8_epi32(bytes)
                    } else {
                        _mm512_cvtepi8_epi32(bytes)
                    };
                    element = _mm512_or_si512(element, _mm512_sll_epi32(wide, shift));
                }
                element = _mm512_ternarylogic_epi32::<0xf8>(common, element, mask);
                if BITS {
                    let bit = _mm_set1_epi8((1_u8 << (start / (2 * MASK_LANES) % 8)) as i8);
                    for plane in 0..self.bit_planes {
                        let place = plane * self.bit_plane
                            + start / NESTED_GROUP * (NESTED_GROUP / 8)
                            + start % (2 * MASK_LANES);
                        let bytes = _mm_loadu_si128(self.bits.as_ptr().add(place).cast());
                        let set = _mm_test_epi8_mask(bytes, bit);
                        let value = _mm512_set1_epi32(*values.get_unchecked(plane));
                        element = _mm512_mask_or_epi32(element, set, element, value);
                    }
                }
                let exponents = _mm_maskz_loadu_epi8(lanes, self.exponents.as_ptr().add(start).cast());
                let exponents = _mm512_sll_epi32(_mm512_cvtepu8_epi32(exponents), exponent_shift);
                element = _mm512_ternarylogic_epi32::<0xf8>(element, exponents, exponent_mask);
                _mm512_mask_storeu_epi32(target.add(4 * start).cast(), lanes, element);
            }
        };
        for start in (0..count / MASK_LANES).map(|index| index * MASK_LANES) {
            piece(start, !0);
        }
        if !count.is_multiple_of(MASK_LANES) {
            piece(count / MASK_LANES * MASK_LANES, (1 << (count % MASK_LANES)) - 1);
        }
    }
}
