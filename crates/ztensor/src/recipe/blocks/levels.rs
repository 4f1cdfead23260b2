//! Levels: what remains of an element once it is divided by its scale and rounded.

use super::super::number::{clamp, nearest};

/// NEAREST(CLAMP((x + offset) / scale, low, high)) + added; 0 where the scale is.
#[inline(always)]
pub(super) fn affine(values: &[f32], offset: f32, scale: f32, (low, high): (i8, i8), levels: &mut [u8]) {
    if scale == 0.0 {
        return levels.fill(0);
    }
    let (from, to, added) = (f32::from(low), f32::from(high), -i32::from(low));
    for (value, level) in values.iter().zip(levels) {
        *level = (nearest(clamp((value + offset) / scale, from, to)) + added) as u8;
    }
}

/// Puts two-bit levels of 128 elements into 32 bytes: byte i has elements i, i + 32, i + 64 and i + 96, from the low bits up.
#[inline(always)]
pub(super) fn pack_quarters(levels: &[u8; 128], out: &mut [u8]) {
    for (at, byte) in out.iter_mut().take(32).enumerate() {
        *byte =
            levels[at] & 3 | (levels[at + 32] & 3) << 2 | (levels[at + 64] & 3) << 4 | levels[at + 96] << 6;
    }
}

/// Puts the levels of two halves into nibbles: byte i has element i below, element i of the second half above.
#[inline(always)]
pub(super) fn pack_nibbles(levels: &[u8], out: &mut [u8]) {
    let (low, high) = levels.split_at(levels.len() / 2);
    for (byte, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
        *byte = low & 15 | high << 4;
    }
}
