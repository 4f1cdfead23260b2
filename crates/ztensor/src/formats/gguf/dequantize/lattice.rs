//! The IQ1, IQ2 and IQ3 types: groups of four or eight elements are points of a lattice, stored as an index into a codebook and,
//! for IQ2 and IQ3, as signs.

use super::grids::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use super::{half_at, u16_at, u32_at};

/// What IQ1 adds to or takes from every point of a group.
const IQ1_SHIFT: f32 = 0.125;

/// The factors of eight elements, for each byte of signs.
static SIGNS: [[f32; 8]; 256] = {
    let mut table = [[1.0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][bit] = -1.0;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Seven stored signs; the eighth makes the number of minus signs even.
#[inline(always)]
fn even_signs(seven: u32) -> u8 {
    let seven = (seven & 127) as u8;
    seven | ((seven.count_ones() as u8 & 1) << 7)
}

#[inline(always)]
fn signed_point(scale: f32, point: &[i8], signs: &[f32], out: &mut [f32]) {
    for (out, (&coordinate, &sign)) in out.iter_mut().zip(point.iter().zip(signs)) {
        *out = scale * f32::from(coordinate) * sign;
    }
}

pub(in super::super) fn iq2_xxs(block: &[u8; 66], out: &mut [f32; 256]) {
    let scale = half_at(block, 0);
    for (words, out) in block[2..].as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let packed = u32_at(words, 4);
        let scale = scale * (0.5 + (packed >> 28) as f32) * 0.25;
        for (group, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let signs = even_signs(packed >> (7 * group));
            signed_point(scale, &IQ2_XXS[usize::from(words[group])], &SIGNS[usize::from(signs)], out);
        }
    }
}

pub(in super::super) fn iq2_xs(block: &[u8; 74], out: &mut [f32; 256]) {
    let scale = half_at(block, 0);
    for (group, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bits = block[66 + group / 4] >> (group / 2 % 2 * 4) & 15;
        let scale = scale * (0.5 + f32::from(bits)) * 0.25;
        let word = u16_at(block, 2 + 2 * group);
        let signs = even_signs(u32::from(word >> 9));
        signed_point(scale, &IQ2_XS[usize::from(word & 511)], &SIGNS[usize::from(signs)], out);
    }
}

pub(in super::super) fn iq2_s(block: &[u8; 82], out: &mut [f32; 256]) {
    let scale = half_at(block, 0);
    for (group, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bits = block[74 + group / 4] >> (group / 2 % 2 * 4) & 15;
        let scale = scale * (0.5 + f32::from(bits)) * 0.25;
        let high = block[66 + group / 4] >> (group % 4 * 2) & 3;
        let index = usize::from(block[2 + group]) | usize::from(high) << 8;
        signed_point(scale, &IQ2_S[index], &SIGNS[usize::from(block[34 + group])], out);
    }
}

pub(in super::super) fn iq3_xxs(block: &[u8; 98], out: &mut [f32; 256]) {
    let scale = half_at(block, 0);
    for (group, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let packed = u32_at(block, 66 + group / 4 * 4);
        let scale = scale * (0.5 + (packed >> 28) as f32) * 0.5;
        let signs = &SIGNS[usize::from(even_signs(packed >> (group % 4 * 7)))];
        for half in 0..2 {
            let point = &IQ3_XXS[usize::from(block[2 + 2 * group + half])];
            signed_point(scale, point, &signs[4 * half..4 * half + 4], &mut out[4 * half..4 * half + 4]);
        }
    }
}

pub(in super::super) fn iq3_s(block: &[u8; 110], out: &mut [f32; 256]) {
    let scale = half_at(block, 0);
    for (group, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bits = block[106 + group / 8] >> (group / 4 % 2 * 4) & 15;
        let scale = scale * f32::from(1 + 2 * bits);
        let signs = &SIGNS[usize::from(block[74 + group])];
        for half in 0..2 {
            let number = 2 * group + half;
            let high = block[66 + number / 8] >> (number % 8) & 1;
            let point = &IQ3_S[usize::from(block[2 + number]) | usize::from(high) << 8];
            signed_point(scale, point, &signs[4 * half..4 * half + 4], &mut out[4 * half..4 * half + 4]);
        }
    }
}

pub(in super::super) fn iq1_s(block: &[u8; 50], out: &mut [f32; 256]) {
    let scale = half_at(block, 0);
    for (group, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let packed = u16_at(block, 34 + group / 4 * 2);
        let scale = scale * f32::from(2 * (packed >> 12 & 7) + 1);
        let shift = if packed & 0x8000 == 0 { IQ1_SHIFT } else { -IQ1_SHIFT };
        let high = packed >> (group % 4 * 3) & 7;
        shifted_point(scale, usize::from(block[2 + group]) | usize::from(high) << 8, shift, out);
    }
}

pub(in super::super) fn iq1_m(block: &[u8; 56], out: &mut [f32; 256]) {
    let scales: [u16; 4] = std::array::from_fn(|at| u16_at(block, 48 + 2 * at));
    // The top nibbles of the four words make up the f16.
    let bits = scales[0] >> 12 | scales[1] >> 12 << 4 | scales[2] >> 12 << 8 | scales[3] >> 12 << 12;
    let scale = half_at(&bits.to_le_bytes(), 0);
    for (group, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let scale = scale * f32::from(2 * (scales[group / 8] >> (group / 2 % 4 * 3) & 7) + 1);
        let packed = block[32 + group / 2] >> (group % 2 * 4);
        let shift = if packed & 8 == 0 { IQ1_SHIFT } else { -IQ1_SHIFT };
        shifted_point(scale, usize::from(block[group]) | usize::from(packed & 7) << 8, shift, out);
    }
}

#[inline(always)]
fn shifted_point(scale: f32, index: usize, shift: f32, out: &mut [f32; 8]) {
    for (out, &coordinate) in out.iter_mut().zip(&IQ1[index]) {
        *out = scale * (f32::from(coordinate) + shift);
    }
}
