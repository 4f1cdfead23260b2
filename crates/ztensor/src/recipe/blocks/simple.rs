//! The first generation of block types: one scale, sometimes one offset, for 32 elements. Their own writer takes both from the extremes of the
//! elements and rounds with what they were before they became f16; with importance weights it searches for them.

use super::super::number::{clamp, floor, from_f16, to_f16};
use super::levels::{affine, pack_nibbles};

pub(super) fn scale<const BYTES: usize>(block: &[u8; BYTES]) -> [u8; 2] {
    [block[0], block[1]]
}

pub(super) fn scale_and_offset<const BYTES: usize>(block: &[u8; BYTES]) -> [u8; 4] {
    [block[0], block[1], block[2], block[3]]
}

pub(super) fn q4_0(values: &[f32; 32], fields: &[u8; 2], block: &mut [u8; 18]) {
    let mut levels = [0; 32];
    affine(values, 0.0, from_f16(*fields), (-8, 7), &mut levels);
    put_four(fields, &levels, block);
}

pub(super) fn q4_1(values: &[f32; 32], fields: &[u8; 4], block: &mut [u8; 20]) {
    put_four(fields, &offset_levels(values, fields, 15), block);
}

pub(super) fn q5_0(values: &[f32; 32], fields: &[u8; 2], block: &mut [u8; 22]) {
    let mut levels = [0; 32];
    affine(values, 0.0, from_f16(*fields), (-16, 15), &mut levels);
    put_five(fields, &levels, block);
}

pub(super) fn q5_1(values: &[f32; 32], fields: &[u8; 4], block: &mut [u8; 24]) {
    put_five(fields, &offset_levels(values, fields, 31), block);
}

pub(super) fn q8_0(values: &[f32; 32], fields: &[u8; 2], block: &mut [u8; 34]) {
    let mut levels = [0; 32];
    affine(values, 0.0, from_f16(*fields), (-128, 127), &mut levels);
    let (head, quants) = block.split_at_mut(2);
    head.copy_from_slice(fields);
    let is_zero = from_f16(*fields) == 0.0;
    quants.iter_mut().zip(levels).for_each(|(quant, level)| *quant = if is_zero { 0 } else { level ^ 0x80 });
}

fn offset_levels(values: &[f32; 32], fields: &[u8; 4], most: i8) -> [u8; 32] {
    let [scale_low, scale_high, offset_low, offset_high] = *fields;
    let mut levels = [0; 32];
    let offset = from_f16([offset_low, offset_high]);
    affine(values, -offset, from_f16([scale_low, scale_high]), (0, most), &mut levels);
    levels
}

pub(super) fn computed_q4_0(values: &[f32; 32], block: &mut [u8; 18]) {
    let scale = of_largest_magnitude(values) / -8.0;
    put_four(&to_f16(scale), &lifted_levels(values, 0.0, scale, 8.5, 15.0), block);
}

pub(super) fn computed_q4_1(values: &[f32; 32], block: &mut [u8; 20]) {
    let (least, most) = extremes(values);
    let scale = (most - least) / 15.0;
    put_four(&pair(scale, least), &lifted_levels(values, least, scale, 0.5, 15.0), block);
}

pub(super) fn computed_q5_0(values: &[f32; 32], block: &mut [u8; 22]) {
    let scale = of_largest_magnitude(values) / -16.0;
    put_five(&to_f16(scale), &lifted_levels(values, 0.0, scale, 16.5, 31.0), block);
}

pub(super) fn computed_q5_1(values: &[f32; 32], block: &mut [u8; 24]) {
    let (least, most) = extremes(values);
    let scale = (most - least) / 31.0;
    put_five(&pair(scale, least), &lifted_levels(values, least, scale, 0.5, 31.0), block);
}

pub(super) fn computed_q8_0(values: &[f32; 32], block: &mut [u8; 34]) {
    let mut largest = 0f32;
    for value in values {
        largest = if value.abs() > largest { value.abs() } else { largest };
    }
    let scale = largest / 127.0;
    let inverse = inverse(scale);
    let (head, quants) = block.split_at_mut(2);
    head.copy_from_slice(&to_f16(scale));
    for (quant, value) in quants.iter_mut().zip(values) {
        let product = value * inverse;
        // A NaN becomes 0; ties go away from zero.
        let magnitude = clamp(product.abs(), 0.0, 127.0);
        let whole = floor(magnitude);
        let rounded = whole + if magnitude - whole >= 0.5 { 1.0 } else { 0.0 };
        let level = super::super::number::nearest(rounded) as u8;
        *quant = if product < 0.0 { level.wrapping_neg() } else { level };
    }
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

fn pair(scale: f32, offset: f32) -> [u8; 4] {
    let ([a, b], [c, d]) = (to_f16(scale), to_f16(offset));
    [a, b, c, d]
}

/// The first element whose magnitude is the largest.
fn of_largest_magnitude(values: &[f32; 32]) -> f32 {
    let mut largest = 0f32;
    for value in values {
        largest = if value.abs() > largest { value.abs() } else { largest };
    }
    values.iter().copied().find(|value| value.abs() == largest).filter(|_| largest > 0.0).unwrap_or(0.0)
}

fn extremes(values: &[f32; 32]) -> (f32, f32) {
    let (mut least, mut most) = (f32::MAX, f32::MIN);
    for value in values {
        least = if *value < least { *value } else { least };
        most = if *value > most { *value } else { most };
    }
    (least, most)
}

/// FLOOR(CLAMP((x − offset)·(1 / scale) + lift, 0, most)).
#[inline(always)]
fn lifted_levels(values: &[f32; 32], offset: f32, scale: f32, lift: f32, most: f32) -> [u8; 32] {
    let inverse = inverse(scale);
    let mut levels = [0; 32];
    for (level, value) in levels.iter_mut().zip(values) {
        let lifted = clamp((value - offset) * inverse + lift, 0.0, most);
        *level = super::super::number::nearest(floor(lifted)) as u8;
    }
    levels
}

fn put_four(fields: &[u8], levels: &[u8; 32], block: &mut [u8]) {
    let (head, quants) = block.split_at_mut(fields.len());
    head.copy_from_slice(fields);
    pack_nibbles(levels, quants);
}

/// The fifth bits of all elements, as one word, stand before the nibbles.
fn put_five(fields: &[u8], levels: &[u8; 32], block: &mut [u8]) {
    let (head, rest) = block.split_at_mut(fields.len());
    head.copy_from_slice(fields);
    let (fifths, quants) = rest.split_at_mut(4);
    let word = levels.iter().enumerate().fold(0, |word, (at, level)| word | u32::from(level >> 4 & 1) << at);
    fifths.copy_from_slice(&word.to_le_bytes());
    pack_nibbles(levels, quants);
}
