//! Levels and scales back to elements. Every length is checked against what the element count and the scales
//! ask for.

use super::format::Format;
use super::groups::Rows;
use super::levels::{LevelTable, Levels};
use super::minifloat::Minifloat;
use super::model::GridModel;
use super::offset::{LARGEST_CENTRE, Offset};
use super::scheme::Scheme;
use super::{MINUS_ZERO, RAW_GROUP, plane, with_format};
use crate::arch::memory;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::{arch, entropy};

/// Decodes a block into `out`, whose length says how many elements there are.
#[inline(always)]
pub(crate) fn decode(
    header: &[u8],
    planes: &[&[u8]; plane::COUNT],
    dtype: Dtype,
    rows: Rows,
    out: &mut [u8],
) -> Result<()> {
    with_format!(dtype, F => decode_format::<F>(header, planes, rows, out), {
        Err(Error::corrupt("only bf16, fp16 and fp32 elements lie on a grid"))
    })
}

#[inline(always)]
fn decode_format<F: Format>(
    header: &[u8],
    planes: &[&[u8]; plane::COUNT],
    rows: Rows,
    out: &mut [u8],
) -> Result<()> {
    let mut reader = Reader::new(header, "grid");
    let scheme = Scheme::from_byte(reader.u8()?).ok_or_else(|| Error::corrupt("unknown scheme of a grid"))?;
    let flag = reader.u8()? != 0;
    // Floats have a minus zero; their groups may share scales.
    let (minus_zero, shared) = if scheme.minifloat().is_some() { (false, flag) } else { (flag, false) };
    let group_size = reader.length()?;
    reader.finish()?;
    if group_size == 0 || !out.len().is_multiple_of(F::WIDTH) {
        return Err(Error::corrupt("a grid has whole elements in groups of at least one"));
    }
    let short = || Error::corrupt("a plane of a grid is too short");
    let mut level_plane = planes[plane::LEVELS];
    let mut raw = planes[plane::RAW];
    let mut scales = numbers(planes, plane::SCALES);
    let shared_scales: Vec<u32> = if shared { numbers(planes, plane::SCALES).collect() } else { Vec::new() };
    let has_bases = shared || scheme.minifloat().is_none();
    let values = scheme.minifloat().map_or([0.0; 256], Minifloat::values);
    let mut offsets = numbers(planes, plane::OFFSETS);
    let mut bases = planes[plane::BASES].iter();
    let mut seen = 0;
    for group in rows.groups(group_size, out.len() / F::WIDTH) {
        seen += 1;
        let base = if has_bases { *bases.next().ok_or_else(short)? } else { 0 };
        let scale = if shared { shared_scales.get(usize::from(base)).copied() } else { scales.next() };
        let scale = scale.ok_or_else(short)?;
        let offset = if scheme.has_offset() { offsets.next().ok_or_else(short)? } else { 0 };
        let out = out.get_mut(group.start * F::WIDTH..group.end * F::WIDTH).ok_or_else(short)?;
        if scale == RAW_GROUP {
            let (bytes, rest) = raw.split_at_checked(out.len()).ok_or_else(short)?;
            out.copy_from_slice(bytes);
            raw = rest;
            continue;
        }
        let (levels, rest) = level_plane.split_at_checked(group.len()).ok_or_else(short)?;
        level_plane = rest;
        let (scale, offset) = (f32::from_bits(scale), f32::from_bits(offset));
        if !scale.is_finite() || !offset.is_finite() {
            return Err(Error::corrupt("the scales and offsets of a grid are finite"));
        }
        match scheme {
            Scheme::Product(Levels::Integers) => multiply_integers::<F>(levels, scale, base, minus_zero, out),
            Scheme::Product(Levels::LevelTable(table)) => {
                multiply_table::<F>(levels, scale, table, minus_zero, out)
            }
            Scheme::Product(Levels::Minifloat(_)) => multiply_floats::<F>(levels, scale, &values, out),
            Scheme::Offset(Offset::Centre) if offset.abs() >= LARGEST_CENTRE => {
                return Err(Error::corrupt("the centre of a group lies near its levels"));
            }
            Scheme::Offset(kind) => {
                for (out, &number) in out.chunks_exact_mut(F::WIDTH).zip(levels) {
                    F::write(kind.element::<F>(f32::from(number), scale, offset), out);
                }
            }
        }
    }
    let with_offset = if scheme.has_offset() { seen } else { 0 };
    let expected = |index| match index {
        plane::LEVELS | plane::RAW => None,
        plane::BASES if !has_bases => Some(0),
        plane::OFFSETS.. => Some(with_offset),
        plane::SCALES..plane::BASES if shared => Some(shared_scales.len()),
        _ => Some(seen),
    };
    let fits = |(index, plane): (usize, &&[u8])| expected(index).is_none_or(|length| length == plane.len());
    if !planes.iter().enumerate().all(fits) || !level_plane.is_empty() || !raw.is_empty() {
        return Err(Error::corrupt("a plane of a grid is too long"));
    }
    Ok(())
}

/// The numbers whose bytes lie in four consecutive planes.
fn numbers(planes: &[&[u8]; plane::COUNT], first: usize) -> impl Iterator<Item = u32> {
    let [a, b, c, d] = [0, 1, 2, 3].map(|byte| planes[first + byte].iter());
    a.zip(b).zip(c).zip(d).map(|(((&a, &b), &c), &d)| u32::from_le_bytes([a, b, c, d]))
}

#[inline(always)]
fn multiply_integers<F: Format>(numbers: &[u8], scale: f32, base: u8, minus_zero: bool, out: &mut [u8]) {
    // 1 to 128 are distances upwards, 129 to 255 downwards.
    let base = i32::from(base) - if base > 128 { 256 + 128 } else { 128 };
    for (out, &number) in out.chunks_exact_mut(F::WIDTH).zip(numbers) {
        let level = base + ((i32::from(number) - base) & 255);
        let bits = F::round(level as f32 * scale);
        F::write(if minus_zero && number == MINUS_ZERO { F::SIGN } else { bits }, out);
    }
}

#[inline(always)]
fn multiply_floats<F: Format>(codes: &[u8], scale: f32, values: &[f32; 256], out: &mut [u8]) {
    for (out, &code) in out.chunks_exact_mut(F::WIDTH).zip(codes) {
        F::write(F::round(values[usize::from(code)] * scale), out);
    }
}

#[inline(always)]
fn multiply_table<F: Format>(
    numbers: &[u8],
    scale: f32,
    table: LevelTable,
    minus_zero: bool,
    out: &mut [u8],
) {
    let products = table.levels().map(|level| F::round(level * scale));
    for (out, &number) in out.chunks_exact_mut(F::WIDTH).zip(numbers) {
        let bits = products[usize::from(number & 15)];
        F::write(if minus_zero && number == MINUS_ZERO { F::SIGN } else { bits }, out);
    }
}

impl GridModel {
    /// Decodes a block.
    pub(super) fn decode_block(&self, reader: &mut Reader, start: usize, out: &mut [u8]) -> Result<()> {
        let length = reader.length()?;
        let header = reader.take(length)?;
        let mut planes: [Vec<u8>; plane::COUNT] = Default::default();
        for plane in &mut planes {
            let length = reader.length()?;
            // No plane is longer than the elements; scales are four planes of one byte per group.
            if length > out.len() {
                return Err(Error::corrupt("a plane of a grid is longer than its block"));
            }
            if length > 0 {
                *plane = entropy::plane::read_bytes(reader, length)?;
            }
        }
        let planes = std::array::from_fn(|index| planes[index].as_slice());
        let Some(columns) = self.columns_of(out.len(), start)? else {
            return arch::vectorised(
                #[inline(always)]
                || decode(header, &planes, self.dtype, self.rows(start), out),
            );
        };
        let mut turned = memory::zeroed(out.len())?;
        arch::vectorised(
            #[inline(always)]
            || decode(header, &planes, self.dtype, columns.as_rows(), &mut turned),
        )?;
        columns.scatter(&turned, out);
        Ok(())
    }
}
