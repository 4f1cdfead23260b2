//! Elements put between zeros with NEON: a byte of a bitmap chooses the shuffle that moves the next elements
//! to their places.

use super::Neon;
use crate::arch::shuffles::{BYTES_OF_WORDS, ByteShuffle, SPREAD_LONGS, SPREAD_WORDS};
use crate::transform::sparse::{self, Steps};
use std::arch::aarch64::*;

impl Steps for Neon {
    fn spread<const WIDTH: usize>(self, bitmap: &[u8], dense: &[[u8; WIDTH]], elements: &mut [[u8; WIDTH]]) {
        // SAFETY: a `Neon` exists only where the CPU has these instructions.
        let (groups, taken) = unsafe { spread(bitmap, dense, elements) };
        sparse::spread(&bitmap[groups..], &dense[taken..], &mut elements[8 * groups..]);
    }
}

/// Makes groups of eight for which `dense` certainly suffices; returns how many groups and how many elements
/// of `dense` those took.
#[target_feature(enable = "neon")]
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
            let place = elements.as_mut_ptr().add(8 * group).cast::<u8>();
            let next = dense.as_ptr().add(taken);
            if WIDTH == 2 {
                vst1q_u8(place, moved(next.cast(), &SPREAD_WORDS[set]));
            } else {
                let (low, high) = (set & 15, set >> 4);
                vst1q_u8(place, moved(next.cast(), &SPREAD_LONGS[low]));
                let next = next.add(usize::from(BYTES_OF_WORDS[low] / 2));
                vst1q_u8(place.add(16), moved(next.cast(), &SPREAD_LONGS[high]));
            }
        }
        taken += usize::from(BYTES_OF_WORDS[set] / 2);
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
#[target_feature(enable = "neon")]
unsafe fn moved(bytes: *const u8, shuffle: &ByteShuffle) -> uint8x16_t {
    // SAFETY: the caller vouches for the bytes; a shuffle has as many.
    unsafe { vqtbl1q_u8(vld1q_u8(bytes), vld1q_u8(shuffle.0.as_ptr())) }
}
