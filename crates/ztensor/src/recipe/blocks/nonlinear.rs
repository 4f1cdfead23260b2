//! Four-bit indices into a table of sixteen values: those of the `iq4` types, and E2M1 with a scale of one byte.

use super::super::number::from_f16;
use super::levels::pack_nibbles;

/// Elements whose state stays in registers while a table is gone through: two of 256 bits for each variable.
const LANES: usize = 16;

/// Between each two neighbours of the table.
const MIDPOINTS: [f32; 15] =
    [-115.5, -93.5, -74.0, -57.0, -42.0, -28.5, -16.0, -4.5, 7.0, 19.0, 31.5, 45.5, 61.0, 79.0, 101.0];

/// The magnitudes of E2M1 above zero, doubled.
const DOUBLED: [f32; 7] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];

#[inline(always)]
pub(super) fn iq4_nl(values: &[f32; 32], fields: &[u8; 2], block: &mut [u8; 18]) {
    block[..2].copy_from_slice(fields);
    pack_nibbles(&nearest_of_table(values, from_f16(*fields)), &mut block[2..]);
}

pub(super) fn split_iq4_xs(block: &[u8; 136]) -> [u8; 10] {
    let mut fields = [0; 10];
    fields[..2].copy_from_slice(&block[..2]);
    let high = u16::from_le_bytes([block[2], block[3]]);
    for (group, small) in fields[2..].iter_mut().enumerate() {
        *small = block[4 + group / 2] >> (group % 2 * 4) & 15 | ((high >> (2 * group) & 3) as u8) << 4;
    }
    fields
}

#[inline(always)]
pub(super) fn iq4_xs(values: &[f32; 256], fields: &[u8; 10], block: &mut [u8; 136]) {
    let scale = from_f16([fields[0], fields[1]]);
    let (mut low, mut high) = ([0; 4], 0u16);
    let groups = values.as_chunks::<32>().0.iter().zip(block[8..].chunks_exact_mut(16));
    for (group, ((values, out), small)) in groups.zip(&fields[2..]).enumerate() {
        low[group / 2] |= (small & 15) << (group % 2 * 4);
        high |= u16::from(small >> 4 & 3) << (2 * group);
        pack_nibbles(&nearest_of_table(values, scale * (f32::from(small & 63) - 32.0)), out);
    }
    block[..2].copy_from_slice(&fields[..2]);
    block[2..4].copy_from_slice(&high.to_le_bytes());
    block[4..8].copy_from_slice(&low);
}

/// How many midpoints each element reaches, in units of the scale.
#[inline(always)]
fn nearest_of_table(values: &[f32; 32], scale: f32) -> [u8; 32] {
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let mut levels = [0; 32];
    for (values, levels) in values.as_chunks::<LANES>().0.iter().zip(levels.as_chunks_mut::<LANES>().0) {
        let (mut scaled, mut reached) = ([0.0; LANES], [0u32; LANES]);
        for (scaled, value) in scaled.iter_mut().zip(values) {
            *scaled = value * inverse;
        }
        for midpoint in MIDPOINTS {
            for (count, scaled) in reached.iter_mut().zip(&scaled) {
                *count += u32::from(*scaled >= midpoint);
            }
        }
        for (level, count) in levels.iter_mut().zip(reached) {
            *level = count as u8;
        }
    }
    levels
}

pub(super) fn split_mxfp4(block: &[u8; 17]) -> [u8; 1] {
    [block[0]]
}

#[inline(always)]
pub(super) fn mxfp4(values: &[f32; 32], fields: &[u8; 1], block: &mut [u8; 17]) {
    block[0] = fields[0];
    // Half of 2^(e − 127); the two smallest are subnormal.
    let scale = f32::from_bits(match fields[0] {
        exponent @ 0..=1 => 0x0020_0000 << exponent,
        exponent => u32::from(exponent - 1) << 23,
    });
    pack_nibbles(&nearest_doubled(values, scale), &mut block[1..]);
}

pub(super) fn split_nvfp4(block: &[u8; 36]) -> [u8; 4] {
    [block[0], block[1], block[2], block[3]]
}

#[inline(always)]
pub(super) fn nvfp4(values: &[f32; 64], fields: &[u8; 4], block: &mut [u8; 36]) {
    let (scales, quants) = block.split_at_mut(4);
    scales.copy_from_slice(fields);
    let groups = values.as_chunks::<16>().0.iter().zip(quants.chunks_exact_mut(8));
    for ((values, out), scale) in groups.zip(fields) {
        pack_nibbles(&nearest_doubled(values, half_e4m3(*scale)), out);
    }
}

/// Half of an unsigned E4M3.
#[inline(always)]
fn half_e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (byte >> 3 & 15, f32::from(byte & 7));
    let value = match (byte & 0x7f, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa * f32::from_bits((127 - 9) << 23),
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((u32::from(exponent) + 127 - 7) << 23),
    };
    value * 0.5
}

/// The first of the values that are nearest. Those of the other sign are never nearer than zero, which is the first, so magnitudes decide.
#[inline(always)]
fn nearest_doubled<const COUNT: usize>(values: &[f32; COUNT], scale: f32) -> [u8; COUNT] {
    let mut levels = [0; COUNT];
    let scaled = DOUBLED.map(|doubled| doubled * scale);
    for (values, levels) in values.as_chunks::<LANES>().0.iter().zip(levels.as_chunks_mut::<LANES>().0) {
        let magnitudes = values.map(f32::abs);
        let (mut best, mut index) = (magnitudes, [0u32; LANES]);
        for (number, scaled) in (1u32..).zip(scaled) {
            for ((best, index), magnitude) in best.iter_mut().zip(&mut index).zip(&magnitudes) {
                let distance = (scaled - magnitude).abs();
                let nearer = distance < *best;
                *index = if nearer { number } else { *index };
                *best = if nearer { distance } else { *best };
            }
        }
        for ((level, index), value) in levels.iter_mut().zip(index).zip(values) {
            *level = (index + if *value < 0.0 && index > 0 { 8 } else { 0 }) as u8;
        }
    }
    levels
}
