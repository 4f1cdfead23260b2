//! Elements to levels and scales, one block at a time.

use super::fit::Quantisation;
use super::format::Format;
use super::groups::Rows;
use super::minifloat::Minifloat;
use super::model::GridModel;
use super::scale_search::QuantisedGroup;
use super::scheme::Scheme;
use super::shared_scales::SharedScales;
use super::{Encoded, MINUS_ZERO, RAW_GROUP, plane, with_format};
use crate::dtype::Dtype;
use crate::entropy;
use crate::error::{Error, Result};
use crate::frame::wire::put_length;
use std::ops::Range;

/// The most scales that groups can share, with the one that says that a group is off the grid.
const MOST_SHARED: usize = 256;

/// Encodes a block of whole elements. `None` if the dtype has no grid.
pub(crate) fn encode(elements: &[u8], dtype: Dtype, rows: Rows, plan: &Quantisation) -> Option<Encoded> {
    with_format!(dtype, F => Some(encode_format::<F>(elements, rows, plan)), None)
}

/// What is known about a group once its scale was looked for.
struct Found {
    elements: Range<usize>,
    /// The scale, zero for a group of zeros; nothing for a group off the grid.
    scale: Option<f32>,
    offset: f32,
    zero: bool,
    minus_zero: bool,
    /// Range of the level numbers.
    numbers: (i32, i32),
}

/// Encodes a block whose levels are floats, in groups that may share scales.
fn encode_floats<F: Format>(elements: &[u8], rows: Rows, plan: &Quantisation, float: Minifloat) -> Encoded {
    let groups = rows.groups(plan.group, elements.len() / F::WIDTH);
    let ranges: Vec<Range<usize>> =
        groups.map(|range| range.start * F::WIDTH..range.end * F::WIDTH).collect();
    let groups: Vec<QuantisedGroup<F>> =
        ranges.iter().map(|range| QuantisedGroup::new(&elements[range.clone()])).collect();
    let SharedScales { scales, places, codes } = SharedScales::find(&groups, float, &plan.largest);
    let mut planes: [Vec<u8>; plane::COUNT] = Default::default();
    let put = |planes: &mut [Vec<u8>; plane::COUNT], bits: u32| {
        for (index, byte) in bits.to_le_bytes().into_iter().enumerate() {
            planes[plane::SCALES + index].push(byte);
        }
    };
    // One more for groups off the grid.
    let shared = scales.len() < MOST_SHARED && scales.len() < groups.len();
    if shared {
        scales.iter().for_each(|scale| put(&mut planes, scale.to_bits()));
        if places.contains(&None) {
            put(&mut planes, RAW_GROUP);
        }
    }
    for ((range, place), codes) in ranges.into_iter().zip(places).zip(codes) {
        if shared {
            planes[plane::BASES].push(place.unwrap_or(scales.len()) as u8);
        } else {
            put(&mut planes, place.map_or(RAW_GROUP, |place| scales[place].to_bits()));
        }
        match place {
            Some(_) => planes[plane::LEVELS].extend_from_slice(&codes),
            None => planes[plane::RAW].extend_from_slice(&elements[range]),
        }
    }
    let mut header = vec![plan.scheme.to_byte(), u8::from(shared)];
    put_length(&mut header, plan.group);
    Encoded { header, planes }
}

fn encode_format<F: Format>(elements: &[u8], rows: Rows, plan: &Quantisation) -> Encoded {
    if let Some(float) = plan.scheme.minifloat() {
        return encode_floats::<F>(elements, rows, plan, float);
    }
    let count = elements.len() / F::WIDTH;
    let mut numbers = Vec::new();
    let mut all_numbers = Vec::with_capacity(count);
    let zero = i16::from(plan.scheme.zero());
    let mut groups = Vec::new();
    for range in rows.groups(plan.group, count) {
        let group = QuantisedGroup::<F>::new(&elements[range.start * F::WIDTH..range.end * F::WIDTH]);
        let fit = plan.scheme.fit(&group, &plan.largest, &mut numbers);
        if fit.is_none() {
            numbers.clear();
            numbers.resize(range.len(), zero);
        }
        all_numbers.extend_from_slice(&numbers);
        groups.push(Found {
            elements: range,
            scale: if group.is_zero() && !plan.scheme.has_offset() {
                Some(0.0)
            } else {
                fit.map(|fit| fit.scale)
            },
            offset: fit.map_or(0.0, |fit| fit.offset),
            zero: group.zero,
            minus_zero: group.minus_zero,
            numbers: fit.map_or((0, 0), |fit| fit.numbers),
        });
    }
    // With an offset, zeros of either sign are the result of arithmetic and need no care.
    let minus_zero_has_level = !plan.scheme.has_offset() && minus_zero_needs_level(&mut groups, plan.scheme);
    if minus_zero_has_level {
        free_the_level(&mut groups, plan.scheme);
    }

    let mut header = vec![plan.scheme.to_byte(), u8::from(minus_zero_has_level)];
    put_length(&mut header, plan.group);
    let mut planes: [Vec<u8>; plane::COUNT] = Default::default();
    planes[plane::LEVELS].reserve_exact(count);
    for group in &groups {
        let bits = group.scale.map_or(RAW_GROUP, f32::to_bits);
        for (index, byte) in bits.to_le_bytes().into_iter().enumerate() {
            planes[plane::SCALES + index].push(byte);
        }
        if plan.scheme.has_offset() {
            for (index, byte) in group.offset.to_le_bytes().into_iter().enumerate() {
                planes[plane::OFFSETS + index].push(byte);
            }
        }
        planes[plane::BASES].push(if group.scale.is_some() { (base(group.numbers) + 128) as u8 } else { 0 });
        let bytes = &elements[group.elements.start * F::WIDTH..group.elements.end * F::WIDTH];
        let Some(scale) = group.scale else {
            planes[plane::RAW].extend_from_slice(bytes);
            continue;
        };
        let numbers = &all_numbers[group.elements.clone()];
        if minus_zero_has_level {
            let levels = bytes.chunks_exact(F::WIDTH).zip(numbers);
            let level =
                |(element, &number)| if F::read(element) == F::SIGN { MINUS_ZERO } else { number as u8 };
            planes[plane::LEVELS].extend(levels.map(level));
        } else if scale < 0.0 && plan.scheme.is_mirrored() {
            planes[plane::LEVELS].extend(numbers.iter().map(|number| -number as u8));
        } else {
            planes[plane::LEVELS].extend(numbers.iter().map(|&number| number as u8));
        }
    }
    Encoded { header, planes }
}

/// Decides how minus zeros are told from zeros, if there are any: by a level of their own if a group has both
/// kinds or the levels have no mirror image, otherwise by a negative scale, which is how formats with a
/// signed scale make them. Returns whether it is by level.
fn minus_zero_needs_level(groups: &mut [Found], scheme: Scheme) -> bool {
    if !groups.iter().any(|group| group.minus_zero && group.scale.is_some()) {
        return false;
    }
    if !scheme.is_mirrored() || groups.iter().any(|group| group.zero && group.minus_zero) {
        return true;
    }
    for group in groups {
        // Signed scales come from schemes with one level more below zero, where the largest element takes
        // that level.
        let largest_is_positive = group.numbers.1 > -group.numbers.0;
        if group.minus_zero || !group.zero && largest_is_positive {
            group.scale = group.scale.map(|scale| -scale);
            group.numbers = (-group.numbers.1, -group.numbers.0);
        }
    }
    false
}

/// Takes groups off the grid whose elements need the level that now means minus zero.
fn free_the_level(groups: &mut [Found], scheme: Scheme) {
    for group in groups.iter_mut().filter(|_| scheme.is_mirrored()) {
        if group.numbers.0 <= -128 || group.numbers.1 >= 128 {
            group.scale = None;
        }
    }
}

/// Where the 256 levels of a group begin: at -128 unless that leaves some of its numbers out.
fn base((low, high): (i32, i32)) -> i32 {
    if low < -128 {
        low
    } else if high > 127 {
        high - 255
    } else {
        -128
    }
}

impl GridModel {
    /// Appends a block.
    pub(super) fn encode_block(&self, bytes: &[u8], start: usize, out: &mut Vec<u8>) -> Result<()> {
        let quantisation = self.quantisation.as_ref();
        let columns = self.columns_of(bytes.len(), start)?;
        let (bytes, rows) = match columns {
            Some(columns) => (&columns.gather(bytes)?[..], columns.as_rows()),
            None => (bytes, self.rows(start)),
        };
        let encoded = quantisation.and_then(|found| encode(bytes, self.dtype, rows, found));
        let encoded = encoded.ok_or_else(|| Error::corrupt("a grid was read, not planned"))?;
        put_length(out, encoded.header.len());
        out.extend_from_slice(&encoded.header);
        for plane in &encoded.planes {
            put_length(out, plane.len());
            if !plane.is_empty() {
                entropy::plane::write_bytes(plane, out)?;
            }
        }
        Ok(())
    }
}
