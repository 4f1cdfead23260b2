//! Elements put between zeros with AVX2: a byte of a bitmap chooses the shuffle that moves the next elements to their places.
#![allow(unsafe_code)]

use super::Avx2;
use crate::transform::sparse::{self, Steps};
use std::arch::x86_64::*;

impl Steps for Avx2 {
    fn spread<const WIDTH: usize>(self, bitmap: &[u8], dense: &[[u8; WIDTH]], elements: &mut [[u8; WIDTH]]) {
        // SAFETY: an `Avx2` exists only where the CPU has these instructions.
        let (groups, taken) = unsafe { spread(bitmap, dense, elements) };
        sparse::spread(&bitmap[groups..], &dense[taken..], &mut elements[8 * groups..]);
    }
}

/// For each set of four numbers of four bytes: the byte shuffle that moves the next ones to their places, and zeros to the others.
static LONG: [ElementShuffle; 16] = shuffles::<16>(4);
/// The same for eight numbers of two bytes.
static SHORT: [ElementShuffle; 256] = shuffles::<256>(2);

/// A byte shuffle.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct ElementShuffle([u8; 16]);

const fn shuffles<const SETS: usize>(width: usize) -> [ElementShuffle; SETS] {
    let mut table = [ElementShuffle([0x80; 16]); SETS];
    let mut set = 0;
    while set < SETS {
        let (mut byte, mut taken) = (0, 0);
        while byte < 16 {
            if set >> (byte / width) & 1 == 1 {
                table[set].0[byte] = taken;
                taken += 1;
            }
            byte += 1;
        }
        set += 1;
    }
    table
}

/// Makes groups of eight for which `dense` certainly suffices; returns how many groups and how many elements of `dense` those took.
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
        // SAFETY: there are eight elements from `8 * group` on and eight dense ones from `taken` on; the tables have an entry for each set of bits.
        unsafe {
            let place = elements.as_mut_ptr().add(8 * group).cast::<__m128i>();
            let next = dense.as_ptr().add(taken);
            if WIDTH == 2 {
                _mm_storeu_si128(place, moved(next.cast(), &SHORT[set]));
            } else {
                let (low, high) = (set & 15, set >> 4);
                _mm_storeu_si128(place, moved(next.cast(), &LONG[low]));
                let next = next.add(low.count_ones() as usize);
                _mm_storeu_si128(place.add(1), moved(next.cast(), &LONG[high]));
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
unsafe fn moved(bytes: *const __m128i, shuffle: &ElementShuffle) -> __m128i {
    // SAFETY: the caller vouches for the bytes; a shuffle has as many.
    unsafe { _mm_shuffle_epi8(_mm_loadu_si128(bytes), _mm_load_si128(shuffle.0.as_ptr().cast())) }
}
