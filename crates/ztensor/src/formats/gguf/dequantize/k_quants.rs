//! The K types: 256 elements in groups of 16 or 32, whose small integer scales (and offsets) multiply one f16 for the whole block.

use super::simple::eight_bits;
use super::{half_at, u32_at};

pub(in super::super) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 80), half_at(block, 82));
    let quants = &block[16..80];
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = scale * f32::from(block[group] & 15);
        let offset = offset * f32::from(block[group] >> 4);
        let (start, shift) = two_bit_place(group);
        for (out, &byte) in out.iter_mut().zip(&quants[start..start + 16]) {
            *out = scale * f32::from(byte >> shift & 3) - offset;
        }
    }
}

pub(in super::super) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let scale = half_at(block, 108);
    let (third, quants, packed) = (&block[..32], &block[32..96], &block[96..108]);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // Six bits: the low four from a nibble, the high two from the last four bytes.
        let low = packed[group % 8] >> (group / 8 * 4) & 15;
        let high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
        let scale = scale * f32::from((low | high << 4) as i8 - 32);
        let (start, shift) = two_bit_place(group);
        let thirds = &third[group % 2 * 16..][..16];
        for (out, (&byte, &third)) in out.iter_mut().zip(quants[start..start + 16].iter().zip(thirds)) {
            let quant = byte >> shift & 3 | (third >> (group / 2) & 1) << 2;
            *out = scale * f32::from(quant as i8 - 4);
        }
    }
}

/// Where the two-bit quants of a group of 16 lie: each half of 128 elements takes 32 bytes, filled from the low bits up.
#[inline(always)]
fn two_bit_place(group: usize) -> (usize, usize) {
    (group / 8 * 32 + group % 2 * 16, group / 2 % 4 * 2)
}

pub(in super::super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    let quants = &block[16..];
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, offset) = six_bit_pair(block, group, scale, offset);
        let bytes = &quants[group / 2 * 32..][..32];
        for (out, &byte) in out.iter_mut().zip(bytes) {
            *out = scale * f32::from(byte >> (group % 2 * 4) & 15) - offset;
        }
    }
}

pub(in super::super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    let (fifth, quants) = (&block[16..48], &block[48..]);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, offset) = six_bit_pair(block, group, scale, offset);
        let bytes = &quants[group / 2 * 32..][..32];
        for (out, (&byte, &fifth)) in out.iter_mut().zip(bytes.iter().zip(fifth)) {
            let quant = byte >> (group % 2 * 4) & 15 | (fifth >> group & 1) << 4;
            *out = scale * f32::from(quant) - offset;
        }
    }
}

/// The scale and offset of a group of 32, from the twelve bytes behind the two f16: the first four groups have six plain bits in
/// each of the first eight bytes; the others take a nibble from the last four bytes and the two bits left over in the first eight.
#[inline(always)]
fn six_bit_pair(block: &[u8], group: usize, scale: f32, offset: f32) -> (f32, f32) {
    let packed = &block[4..16];
    let at = group % 4;
    let (scale_bits, offset_bits) = if group < 4 {
        (packed[at] & 63, packed[4 + at] & 63)
    } else {
        (packed[8 + at] & 15 | packed[at] >> 6 << 4, packed[8 + at] >> 4 | packed[4 + at] >> 6 << 4)
    };
    (scale * f32::from(scale_bits), offset * f32::from(offset_bits))
}

pub(in super::super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let scale = half_at(block, 208);
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = scale * f32::from(scales[group].cast_signed());
        let (half, within) = (group / 8, group % 8);
        let low = &low[half * 64 + within % 4 * 16..][..16];
        let high = &high[half * 32 + within % 2 * 16..][..16];
        for (out, (&low, &high)) in out.iter_mut().zip(low.iter().zip(high)) {
            let quant = low >> (within / 4 * 4) & 15 | (high >> (within / 2 * 2) & 3) << 4;
            *out = scale * f32::from(quant as i8 - 32);
        }
    }
}

/// Behind the quants stand the sums of each 16, which only matrix products use.
pub(in super::super) fn q8_k(block: &[u8; 292], out: &mut [f32; 256]) {
    eight_bits(f32::from_bits(u32_at(block, 0)), &block[4..260], out);
}
