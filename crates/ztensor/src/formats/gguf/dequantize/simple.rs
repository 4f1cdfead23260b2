//! The first generation of block types: one scale, sometimes one offset, and one to eight bits for each element.

use super::{half_at, u32_at};

/// A sign bit per element.
pub(in super::super) fn q1_0(block: &[u8; 18], out: &mut [f32; 128]) {
    let scale = half_at(block, 0);
    let signs = [-scale, scale];
    for (&byte, out) in block[2..].iter().zip(out.as_chunks_mut::<8>().0) {
        for (bit, out) in out.iter_mut().enumerate() {
            *out = signs[usize::from(byte >> bit & 1)];
        }
    }
}

/// Two bits per element, four to a byte. The type has had two lengths, which differ in nothing else.
pub(in super::super) fn q2_0<const BYTES: usize, const ELEMENTS: usize>(
    block: &[u8; BYTES],
    out: &mut [f32; ELEMENTS],
) {
    let scale = half_at(block, 0);
    for (&byte, out) in block[2..].iter().zip(out.as_chunks_mut::<4>().0) {
        for (pair, out) in out.iter_mut().enumerate() {
            *out = scale * (f32::from(byte >> (2 * pair) & 3) - 1.0);
        }
    }
}

pub(in super::super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    let (low, high) = out.split_at_mut(16);
    for (&byte, (low, high)) in block[2..].iter().zip(low.iter_mut().zip(high)) {
        *low = scale * f32::from((byte & 15) as i8 - 8);
        *high = scale * f32::from((byte >> 4) as i8 - 8);
    }
}

pub(in super::super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    let (low, high) = out.split_at_mut(16);
    for (&byte, (low, high)) in block[4..].iter().zip(low.iter_mut().zip(high)) {
        *low = scale * f32::from(byte & 15) + offset;
        *high = scale * f32::from(byte >> 4) + offset;
    }
}

pub(in super::super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (out, quant) in out.iter_mut().zip(five_bits(u32_at(block, 2), &block[6..])) {
        *out = scale * f32::from(quant as i8 - 16);
    }
}

pub(in super::super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    for (out, quant) in out.iter_mut().zip(five_bits(u32_at(block, 4), &block[8..])) {
        *out = scale * f32::from(quant) + offset;
    }
}

/// Low nibbles first, then high nibbles, each with its fifth bit.
#[inline(always)]
fn five_bits(fifth: u32, nibbles: &[u8]) -> [u8; 32] {
    let mut quants = [0; 32];
    let (low, high) = quants.split_at_mut(16);
    for (at, (&byte, (low, high))) in nibbles.iter().zip(low.iter_mut().zip(high)).enumerate() {
        *low = byte & 15 | (fifth >> at << 4) as u8 & 16;
        *high = byte >> 4 | (fifth >> (at + 16) << 4) as u8 & 16;
    }
    quants
}

pub(in super::super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    eight_bits(half_at(block, 0), &block[2..], out);
}

/// Behind the scale stands the sum of the quants, which only matrix products use.
pub(in super::super) fn q8_1(block: &[u8; 36], out: &mut [f32; 32]) {
    eight_bits(half_at(block, 0), &block[4..], out);
}

/// The same with an f32 scale and sum.
pub(in super::super) fn q8_1_wide(block: &[u8; 40], out: &mut [f32; 32]) {
    eight_bits(f32::from_bits(u32_at(block, 0)), &block[8..], out);
}

#[inline(always)]
pub(super) fn eight_bits(scale: f32, quants: &[u8], out: &mut [f32]) {
    for (out, &quant) in out.iter_mut().zip(quants) {
        *out = scale * f32::from(quant.cast_signed());
    }
}
