//! Signs and mantissas taken apart into planes with AVX-512, the reverse of `merge.rs`.
#![allow(unsafe_code)]

use super::merge::BIT_PLANES;
use crate::transform::nested::{NESTED_CHUNK, NESTED_GROUP, Tail, TailSign};
use std::arch::x86_64::*;

/// Elements whose bits are next to each other in a plane.
const STRIDE: usize = 32;

/// Which bits of an element are stored, and where their planes are.
struct Targets {
    mantissa: u32,
    trailing_zeros: u32,
    /// The sign goes so far to the right, to this bit, or nowhere.
    sign_shift: u32,
    sign: u32,
    byte_planes: usize,
    bit_planes: usize,
    bits: *mut u8,
    bit_plane: usize,
    bytes: *mut u8,
    count: usize,
}

/// See [`crate::transform::nested::store`]. Does nothing and says so unless elements have two or four bytes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn store(elements: &[u8], tail: Tail, out: &mut Vec<u8>) -> bool {
    let (geometry, kept) = (tail.geometry, tail.kept_mantissa());
    let count = elements.len() / geometry.width;
    if geometry.width == 1 || count > NESTED_CHUNK {
        return false;
    }
    let length = tail.stored_length(count);
    out.reserve(length);
    let bit_plane = count.div_ceil(NESTED_GROUP) * (NESTED_GROUP / 8);
    // SAFETY: there is room for all planes, the bit planes first.
    let (bits, bytes) = unsafe {
        let start = out.as_mut_ptr().add(out.len());
        (start, start.add(tail.bit_planes() * bit_plane))
    };
    let targets = Targets {
        mantissa: geometry.mantissa_mask(),
        trailing_zeros: tail.trailing_zeros,
        sign_shift: geometry.sign_bit() - kept,
        sign: u32::from(tail.sign == TailSign::Stored) << kept,
        byte_planes: tail.byte_planes(),
        bit_planes: tail.bit_planes(),
        bits,
        bit_plane,
        bytes,
        count,
    };
    // SAFETY: there is room for all planes of these elements, all of which are written.
    unsafe {
        match geometry.width {
            2 => targets.store::<2>(elements),
            _ => targets.store::<4>(elements),
        }
        out.set_len(out.len() + length);
    }
    true
}

impl Targets {
    /// Writes the planes of elements of `WIDTH` bytes.
    ///
    /// # Safety
    ///
    /// There must be room for the planes, and `count` elements.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn store<const WIDTH: usize>(&self, elements: &[u8]) {
        for group in 0..self.count.div_ceil(NESTED_GROUP) {
            let mut planes = [_mm256_setzero_si256(); BIT_PLANES];
            for place in 0..NESTED_GROUP / STRIDE {
                let start = group * NESTED_GROUP + place * STRIDE;
                let lanes = match self.count.saturating_sub(start) {
                    0 => break,
                    left @ 1..STRIDE => (1_u32 << left) - 1,
                    _ => u32::MAX,
                };
                // SAFETY: nothing is read or written beyond the lanes that there are.
                let odd = unsafe {
                    let source = elements.as_ptr().add(start * WIDTH);
                    if WIDTH == 2 {
                        self.short(source, start, lanes)
                    } else {
                        self.long(source, start, lanes)
                    }
                };
                let bit = _mm256_set1_epi8((1_u8 << place) as i8);
                for (plane, sum) in planes.iter_mut().enumerate().take(self.bit_planes) {
                    let set = _mm256_test_epi8_mask(odd, _mm256_set1_epi8((1_u8 << plane) as i8));
                    *sum = _mm256_mask_add_epi8(*sum, set, *sum, bit);
                }
            }
            for (plane, &sum) in planes.iter().enumerate().take(self.bit_planes) {
                // SAFETY: bit planes have 32 bytes for each started group.
                unsafe {
                    let place = self.bits.add(plane * self.bit_plane + group * (NESTED_GROUP / 8));
                    _mm256_storeu_si256(place.cast(), sum);
                }
            }
        }
    }

    /// Writes the bytes of 32 elements of two bytes, and returns the bits above these.
    ///
    /// # Safety
    ///
    /// There must be as many elements at `source` as `lanes` has bits, and room for these from `start` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn short(&self, source: *const u8, start: usize, lanes: __mmask32) -> __m256i {
        // SAFETY: the caller vouches for the lanes.
        let elements = unsafe { _mm512_maskz_loadu_epi16(lanes, source.cast()) };
        let mantissa = _mm512_and_si512(elements, _mm512_set1_epi16(self.mantissa as i16));
        let mantissa = _mm512_srl_epi16(mantissa, _mm_cvtsi32_si128(self.trailing_zeros as i32));
        let sign = _mm512_srl_epi16(elements, _mm_cvtsi32_si128(self.sign_shift as i32));
        let kept = _mm512_ternarylogic_epi32::<0xf8>(mantissa, sign, _mm512_set1_epi16(self.sign as i16));
        let low = _mm512_cvtepi16_epi8(kept);
        if self.byte_planes == 0 {
            return low;
        }
        // SAFETY: the caller vouches for the room.
        unsafe { _mm256_mask_storeu_epi8(self.bytes.add(start).cast(), lanes, low) };
        _mm512_cvtepi16_epi8(_mm512_srli_epi16::<8>(kept))
    }

    /// Stores elements of four bytes.
    ///
    /// # Safety
    ///
    /// There must be as many elements at `source` as `lanes` has bits, and room for these from `start` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn long(&self, source: *const u8, start: usize, lanes: __mmask32) -> __m256i {
        let [first, second] = [0, 1].map(|half| {
            // SAFETY: the caller vouches for the lanes.
            let elements = unsafe {
                _mm512_maskz_loadu_epi32((lanes >> (16 * half)) as u16, source.add(64 * half).cast())
            };
            let mantissa = _mm512_and_si512(elements, _mm512_set1_epi32(self.mantissa as i32));
            let mantissa = _mm512_srl_epi32(mantissa, _mm_cvtsi32_si128(self.trailing_zeros as i32));
            let sign = _mm512_srl_epi32(elements, _mm_cvtsi32_si128(self.sign_shift as i32));
            _mm512_ternarylogic_epi32::<0xf8>(mantissa, sign, _mm512_set1_epi32(self.sign as i32))
        });
        let byte = |number: usize| {
            let shift = _mm_cvtsi32_si128(8 * number as i32);
            let [low, high] = [first, second].map(|kept| _mm512_cvtepi32_epi8(_mm512_srl_epi32(kept, shift)));
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
        };
        for plane in 0..self.byte_planes {
            // SAFETY: the caller vouches for the room.
            unsafe {
                let place = self.bytes.add(plane * self.count + start);
                _mm256_mask_storeu_epi8(place.cast(), lanes, byte(plane));
            }
        }
        byte(self.byte_planes)
    }
}
