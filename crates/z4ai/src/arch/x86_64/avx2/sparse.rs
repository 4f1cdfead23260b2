//! Elements put between zeros with AVX2: a byte of a bitmap chooses the shuffle that moves the next elements
//! to their places.
#![allow(unsafe_code)]

use super::Avx2;
use crate::arch::shuffles::{ByteShuffle, SPREAD_LONGS, SPREAD_WORDS};
use crate::transform::sparse::{self, Steps};
use std::arch::x86_64::*;

impl Steps for Avx2 {
    fn spread<const WIDTH: usize>(self, bitmap: &[u8], dense: &[[u8; WIDTH]], elements: &mut [[u8; WIDTH]]) {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        let (groups, taken) = unsafe { spread(bitmap, dense, elements) };
        sparse::spread(&bitmap[groups..], &dense[taken..], &mut elements[8 * groups..]);
    }
}

/// Makes groups of eight for which `dense` certainly suffices; returns how many groups and how many elements
/// of `dense` those took.
#[target_feature(enable = "avx2,popcnt")]
fn spread<const WIDTH: usize>(
    bitmap: &[u8],
    dense: &[[u8; WIDTH]],
    elements: &mut [[u8; WIDTH]],
) -> (usize, usize) {
    if WIDTH != 2 && WIDTH != 4 {
        return (0, 0);
    }
    let groups = bitmap.len().min(elements.len() / 8);
    let (mut group, mut taken) = (0, 0);
    while group < groups && dense.len() - taken >= 8 {
        let set = usize::from(bitmap[group]);
        // SAFETY: there are eight elements from `8 * group` on and eight dense ones from `taken` on; the
        // tables have an entry for each set of bits.
        unsafe {
            let place = elements.as_mut_ptr().add(8 * group).cast::<__m128i>();
            let next = dense.as_ptr().add(taken);
            if WIDTH == 2 {
                _mm_storeu_si128(place, moved(next.cast(), &SPREAD_WORDS[set]));
            } else {
                let (low, high) = (set & 15, set >> 4);
                _mm_storeu_si128(place, moved(next.cast(), &SPREAD_LONGS[low]));
                let next = next.add(low.count_ones() as usize);
                _mm_storeu_si128(place.add(1), moved(next.cast(), &SPREAD_LONGS[high]));
            }
        }
        taken += set.count_ones() as usize;
        group += 1;
    }
    (group, taken)
}

/// Sixteen bytes, shuffled.
///
/// # Safety
///
/// Sixteen bytes must be readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn moved(bytes: *const __m128i, shuffle: &ByteShuffle) -> __m128i {
    // SAFETY: the caller vouches for the bytes; a shuffle has as many.
    unsafe { _mm_shuffle_epi8(_mm_loadu_si128(bytes), _mm_load_si128(shuffle.0.as_ptr().cast())) }
}
