//! The first generation of block types: one scale, sometimes one offset, for 32 elements. Their own writer takes both from the extremes of the
//! elements and rounds with what they were before they became f16; with importance weights it searches for them.

use super::super::number::{clamp, floor, from_f16, to_f16};
use super::levels::{affine, pack_nibbles};

/// Elements that are compared side by side.
const LANES: usize = 8;

pub(super) fn scale<const BYTES: usize>(block: &[u8; BYTES]) -> [u8; 2] {
    [block[0], block[1]]
}

pub(super) fn scale_and_offset<const BYTES: usize>(block: &[u8; BYTES]) -> [u8; 4] {
    [block[0], block[1], block[2], block[3]]
}

#[inline(always)]
pub(super) fn q4_0(values: &[f32; 32], fields: &[u8; 2], block: &mut [u8; 18]) {
    let mut levels = [0; 32];
    affine(values, 0.0, from_f16(*fields), (-8, 7), &mut levels);
    put_four(fields, &levels, block);
}

#[inline(always)]
pub(super) fn q4_1(values: &[f32; 32], fields: &[u8; 4], block: &mut [u8; 20]) {
    put_four(fields, &offset_levels(values, fields, 15), block);
}

#[inline(always)]
pub(super) fn q5_0(values: &[f32; 32], fields: &[u8; 2], block: &mut [u8; 22]) {
    let mut levels = [0; 32];
    affine(values, 0.0, from_f16(*fields), (-16, 15), &mut levels);
    put_five(fields, &levels, block);
}

#[inline(always)]
pub(super) fn q5_1(values: &[f32; 32], fields: &[u8; 4], block: &mut [u8; 24]) {
    put_five(fields, &offset_levels(values, fields, 31), block);
}

#[inline(always)]
pub(super) fn q8_0(values: &[f32; 32], fields: &[u8; 2], block: &mut [u8; 34]) {
    let mut levels = [0; 32];
    affine(values, 0.0, from_f16(*fields), (-128, 127), &mut levels);
    let (head, quants) = block.split_at_mut(2);
    head.copy_from_slice(fields);
    let is_zero = from_f16(*fields) == 0.0;
    quants.iter_mut().zip(levels).for_each(|(quant, level)| *quant = if is_zero { 0 } else { level ^ 0x80 });
}

#[inline(always)]
fn offset_levels(values: &[f32; 32], fields: &[u8; 4], most: i8) -> [u8; 32] {
    let [scale_low, scale_high, offset_low, offset_high] = *fields;
    let mut levels = [0; 32];
    let offset = from_f16([offset_low, offset_high]);
    affine(values, -offset, from_f16([scale_low, scale_high]), (0, most), &mut levels);
    levels
}

#[inline(always)]
pub(super) fn computed_q4_0(values: &[f32; 32], block: &mut [u8; 18]) {
    let scale = of_largest_magnitude(values) / -8.0;
    put_four(&to_f16(scale), &lifted_levels(values, 0.0, scale, 8.5, 15.0), block);
}

#[inline(always)]
pub(super) fn computed_q4_1(values: &[f32; 32], block: &mut [u8; 20]) {
    let (least, most) = extremes(values);
    let scale = (most - least) / 15.0;
    put_four(&pair(scale, least), &lifted_levels(values, least, scale, 0.5, 15.0), block);
}

#[inline(always)]
pub(super) fn computed_q5_0(values: &[f32; 32], block: &mut [u8; 22]) {
    let scale = of_largest_magnitude(values) / -16.0;
    put_five(&to_f16(scale), &lifted_levels(values, 0.0, scale, 16.5, 31.0), block);
}

#[inline(always)]
pub(super) fn computed_q5_1(values: &[f32; 32], block: &mut [u8; 24]) {
    let (least, most) = extremes(values);
    let scale = (most - least) / 31.0;
    put_five(&pair(scale, least), &lifted_levels(values, least, scale, 0.5, 31.0), block);
}

#[inline(always)]
pub(super) fn computed_q8_0(values: &[f32; 32], block: &mut [u8; 34]) {
    let scale = f32::from_bits(largest(&values.map(magnitude))) / 127.0;
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

#[inline(always)]
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

#[inline(always)]
fn pair(scale: f32, offset: f32) -> [u8; 4] {
    let ([a, b], [c, d]) = (to_f16(scale), to_f16(offset));
    [a, b, c, d]
}

/// The bits of a magnitude, which are in the order of magnitudes; 0 for a NaN.
#[inline(always)]
fn magnitude(value: f32) -> u32 {
    let bits = value.to_bits() & 0x7fff_ffff;
    if bits > 0x7f80_0000 { 0 } else { bits }
}

/// In lanes, which compilers keep in one register.
#[inline(always)]
fn largest(magnitudes: &[u32; 32]) -> u32 {
    let mut lanes = [0u32; LANES];
    for magnitudes in magnitudes.as_chunks::<LANES>().0 {
        lanes.iter_mut().zip(magnitudes).for_each(|(most, of)| *most = (*most).max(*of));
    }
    lanes.into_iter().fold(0, u32::max)
}

/// The first element whose magnitude is the largest.
#[inline(always)]
fn of_largest_magnitude(values: &[f32; 32]) -> f32 {
    let magnitudes = values.map(magnitude);
    let largest = largest(&magnitudes);
    let places = magnitudes
        .iter()
        .enumerate()
        .fold(0u32, |places, (place, of)| places | u32::from(*of == largest) << place);
    let first = values[places.trailing_zeros() as usize % 32];
    if largest > 0 { first } else { 0.0 }
}

#[inline(always)]
fn extremes(values: &[f32; 32]) -> (f32, f32) {
    let (mut least, mut most) = ([f32::MAX; LANES], [f32::MIN; LANES]);
    for values in values.as_chunks::<LANES>().0 {
        least.iter_mut().zip(values).for_each(|(least, of)| *least = if *of < *least { *of } else { *least });
        most.iter_mut().zip(values).for_each(|(most, of)| *most = if *of > *most { *of } else { *most });
    }
    let least = least.into_iter().fold(f32::MAX, |least, of| if of < least { of } else { least });
    let most = most.into_iter().fold(f32::MIN, |most, of| if of > most { of } else { most });
    (first_zero(values, least), first_zero(values, most))
}

/// Zeros of both signs are equal: the first of them is the extreme.
#[inline(always)]
fn first_zero(values: &[f32; 32], extreme: f32) -> f32 {
    if extreme != 0.0 {
        return extreme;
    }
    values.iter().copied().find(|value| *value == 0.0).unwrap_or(extreme)
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

#[inline(always)]
fn put_four(fields: &[u8], levels: &[u8; 32], block: &mut [u8]) {
    let (head, quants) = block.split_at_mut(fields.len());
    head.copy_from_slice(fields);
    pack_nibbles(levels, quants);
}

/// The fifth bits of all elements, as one word, stand before the nibbles.
#[inline(always)]
fn put_five(fields: &[u8], levels: &[u8; 32], block: &mut [u8]) {
    let (head, rest) = block.split_at_mut(fields.len());
    head.copy_from_slice(fields);
    let (fifths, quants) = rest.split_at_mut(4);
    for (byte, levels) in fifths.iter_mut().zip(levels.as_chunks().0) {
        // The fifth bits of eight levels, shifted into the top byte by one product.
        let bits = u64::from_le_bytes(*levels) >> 4 & 0x0101_0101_0101_0101;
        *byte = (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    pack_nibbles(levels, quants);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the specification says, one element after the other.
    fn by_comparing(values: &[f32; 32]) -> [u32; 3] {
        let (mut least, mut most, mut largest) = (f32::MAX, f32::MIN, 0f32);
        for value in values {
            least = if *value < least { *value } else { least };
            most = if *value > most { *value } else { most };
            largest = if value.abs() > largest.abs() { *value } else { largest };
        }
        [least, most, largest].map(f32::to_bits)
    }

    /// Comparing in lanes gives the same bits, with zeros of both signs, equal magnitudes, infinities and NaNs.
    #[test]
    fn extremes_are_those_of_comparing_one_by_one() {
        let odd = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 2.0, f32::NAN, -f32::NAN, 1e-40, -1e-40, f32::INFINITY];
        let mut state = 0x2545_f491u32;
        for round in 0..4000 {
            let kinds = 1 + round % odd.len();
            let values: [f32; 32] = std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                odd[(state >> 16) as usize % kinds]
            });
            let (least, most) = extremes(&values);
            let found = [least, most, of_largest_magnitude(&values)].map(f32::to_bits);
            assert_eq!(found, by_comparing(&values), "{values:?}");
        }
    }
}
