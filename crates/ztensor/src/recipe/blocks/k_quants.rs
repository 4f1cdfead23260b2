//! The K types: 256 elements in groups of 16 or 32, whose small integer scales (and offsets) multiply one f16 for the whole block.

use super::super::number::from_f16;
use super::levels::{affine, pack_nibbles, pack_quarters};

pub(super) fn split_q2_k(block: &[u8; 84]) -> [u8; 20] {
    let mut fields = [0; 20];
    fields[..4].copy_from_slice(&block[80..]);
    fields[4..].copy_from_slice(&block[..16]);
    fields
}

pub(super) fn q2_k(values: &[f32; 256], fields: &[u8; 20], block: &mut [u8; 84]) {
    let (scale, offset) = (from_f16([fields[0], fields[1]]), from_f16([fields[2], fields[3]]));
    let mut levels = [0; 256];
    let groups = values.as_chunks::<16>().0.iter().zip(levels.as_chunks_mut::<16>().0);
    for ((values, levels), small) in groups.zip(&fields[4..]) {
        affine(values, offset * f32::from(small >> 4), scale * f32::from(small & 15), (0, 3), levels);
    }
    block[..16].copy_from_slice(&fields[4..]);
    for (levels, out) in levels.as_chunks().0.iter().zip(block[16..80].chunks_exact_mut(32)) {
        pack_quarters(levels, out);
    }
    block[80..].copy_from_slice(&fields[..4]);
}

pub(super) fn split_q3_k(block: &[u8; 110]) -> [u8; 18] {
    let mut fields = [0; 18];
    fields[..2].copy_from_slice(&block[108..]);
    let packed = &block[96..108];
    for (group, small) in fields[2..].iter_mut().enumerate() {
        *small =
            packed[group % 8] >> (group / 8 * 4) & 15 | (packed[8 + group % 4] >> (group / 4 * 2) & 3) << 4;
    }
    fields
}

pub(super) fn q3_k(values: &[f32; 256], fields: &[u8; 18], block: &mut [u8; 110]) {
    let scale = from_f16([fields[0], fields[1]]);
    let mut levels = [0; 256];
    let groups = values.as_chunks::<16>().0.iter().zip(levels.as_chunks_mut::<16>().0);
    for ((values, levels), small) in groups.zip(&fields[2..]) {
        affine(values, 0.0, scale * (f32::from(small & 63) - 32.0), (-4, 3), levels);
    }
    let (thirds, rest) = block.split_at_mut(32);
    for (at, third) in thirds.iter_mut().enumerate() {
        *third = (0..8).fold(0, |byte, group| byte | (levels[group * 32 + at] >> 2 & 1) << group);
    }
    let (quants, rest) = rest.split_at_mut(64);
    for (levels, out) in levels.as_chunks().0.iter().zip(quants.chunks_exact_mut(32)) {
        pack_quarters(levels, out);
    }
    let (packed, last) = rest.split_at_mut(12);
    packed.fill(0);
    for (group, small) in fields[2..].iter().enumerate() {
        packed[group % 8] |= (small & 15) << (group / 8 * 4);
        packed[8 + group % 4] |= (small >> 4 & 3) << (group / 4 * 2);
    }
    last.copy_from_slice(&fields[..2]);
}

/// The fields of `q4_k` and `q5_k`: two f16, then eight scales and eight offsets of six bits in twelve bytes.
pub(super) fn split_pairs<const BYTES: usize>(block: &[u8; BYTES]) -> [u8; 20] {
    let mut fields = [0; 20];
    fields[..4].copy_from_slice(&block[..4]);
    let packed = &block[4..16];
    for at in 0..4 {
        fields[4 + at] = packed[at] & 63;
        fields[12 + at] = packed[4 + at] & 63;
        fields[8 + at] = packed[8 + at] & 15 | packed[at] >> 6 << 4;
        fields[16 + at] = packed[8 + at] >> 4 | packed[4 + at] >> 6 << 4;
    }
    fields
}

fn put_pairs(fields: &[u8; 20], block: &mut [u8]) {
    block[..4].copy_from_slice(&fields[..4]);
    for at in 0..4 {
        let (scale, later_scale) = (fields[4 + at], fields[8 + at]);
        let (offset, later_offset) = (fields[12 + at], fields[16 + at]);
        block[4 + at] = scale & 63 | later_scale >> 4 << 6;
        block[8 + at] = offset & 63 | later_offset >> 4 << 6;
        block[12 + at] = later_scale & 15 | later_offset << 4;
    }
}

fn pair_levels(values: &[f32; 256], fields: &[u8; 20], most: i8) -> [u8; 256] {
    let (scale, offset) = (from_f16([fields[0], fields[1]]), from_f16([fields[2], fields[3]]));
    let mut levels = [0; 256];
    let groups = values.as_chunks::<32>().0.iter().zip(levels.as_chunks_mut::<32>().0);
    for (group, (values, levels)) in groups.enumerate() {
        let (small, offset_bits) = (fields[4 + group] & 63, fields[12 + group] & 63);
        affine(values, offset * f32::from(offset_bits), scale * f32::from(small), (0, most), levels);
    }
    levels
}

pub(super) fn q4_k(values: &[f32; 256], fields: &[u8; 20], block: &mut [u8; 144]) {
    let levels = pair_levels(values, fields, 15);
    put_pairs(fields, block);
    for (levels, out) in levels.chunks_exact(64).zip(block[16..].chunks_exact_mut(32)) {
        pack_nibbles(levels, out);
    }
}

pub(super) fn q5_k(values: &[f32; 256], fields: &[u8; 20], block: &mut [u8; 176]) {
    let levels = pair_levels(values, fields, 31);
    put_pairs(fields, block);
    let (fifths, quants) = block[16..].split_at_mut(32);
    fifths.fill(0);
    for (group, levels) in levels.as_chunks::<32>().0.iter().enumerate() {
        fifths.iter_mut().zip(levels).for_each(|(byte, level)| *byte |= (level >> 4 & 1) << group);
    }
    for (levels, out) in levels.chunks_exact(64).zip(quants.chunks_exact_mut(32)) {
        pack_nibbles(levels, out);
    }
}

pub(super) fn split_q6_k(block: &[u8; 210]) -> [u8; 18] {
    let mut fields = [0; 18];
    fields[..2].copy_from_slice(&block[208..]);
    fields[2..].copy_from_slice(&block[192..208]);
    fields
}

pub(super) fn q6_k(values: &[f32; 256], fields: &[u8; 18], block: &mut [u8; 210]) {
    let scale = from_f16([fields[0], fields[1]]);
    let mut levels = [0; 256];
    let groups = values.as_chunks::<16>().0.iter().zip(levels.as_chunks_mut::<16>().0);
    for ((values, levels), small) in groups.zip(&fields[2..]) {
        affine(values, 0.0, scale * f32::from(small.cast_signed()), (-32, 31), levels);
    }
    let (low, rest) = block.split_at_mut(128);
    let (high, last) = rest.split_at_mut(64);
    let halves =
        levels.as_chunks::<128>().0.iter().zip(low.chunks_exact_mut(64).zip(high.chunks_exact_mut(32)));
    for (levels, (low, high)) in halves {
        pack_nibbles(levels, low);
        let above = levels.map(|level| level >> 4);
        pack_quarters(&above, high);
    }
    last[..16].copy_from_slice(&fields[2..]);
    last[16..].copy_from_slice(&fields[..2]);
}
