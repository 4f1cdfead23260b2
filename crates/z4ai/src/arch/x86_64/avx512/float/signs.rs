//! Signs that are coded apart, with AVX-512: a mask of 32 for each register.
#![allow(unsafe_code)]

use crate::transform::float;
use std::arch::x86_64::*;

/// Elements of a register, and bytes of their signs.
const SIGNS_OF_MASK: usize = 32;
const BYTES: usize = SIGNS_OF_MASK / 8;

#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn pack(heads: &[u16], packed: &mut [u8]) {
    let (groups, rest) = heads.as_chunks::<SIGNS_OF_MASK>();
    let (bytes, last) = packed.split_at_mut(groups.len() * BYTES);
    for (heads, bytes) in groups.iter().zip(bytes.as_chunks_mut::<BYTES>().0) {
        // SAFETY: there are as many heads as a register has.
        let heads = unsafe { _mm512_loadu_si512(heads.as_ptr().cast()) };
        *bytes = _mm512_movepi16_mask(heads).to_le_bytes();
    }
    float::pack_signs(rest, last);
}

#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn set(packed: &[u8], elements: &mut [[u8; 2]]) {
    let (groups, rest) = elements.as_chunks_mut::<SIGNS_OF_MASK>();
    let (bytes, last) = packed.split_at(packed.len().min(groups.len() * BYTES));
    let minus = _mm512_set1_epi16(i16::MIN);
    for (elements, &signs) in groups.iter_mut().zip(bytes.as_chunks::<BYTES>().0) {
        let place = elements.as_mut_ptr();
        let signs = _mm512_maskz_mov_epi16(u32::from_le_bytes(signs), minus);
        // SAFETY: there are as many elements as a register has.
        unsafe {
            let magnitudes = _mm512_loadu_si512(place.cast());
            _mm512_storeu_si512(place.cast(), _mm512_or_si512(magnitudes, signs));
        }
    }
    float::set_signs(last, rest);
}
