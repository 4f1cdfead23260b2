//! Levels and scales back to elements. Every length is checked against what the element count and the scales ask for.

use super::format::Format;
use super::levels::{Levels, Table};
use super::{MINUS_ZERO, RAW, Rows, plane, with_format};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// Decode a block into `out`, whose length says how many elements there are.
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
    let levels = Levels::from_byte(reader.u8()?).ok_or_else(|| Error::corrupt("unknown levels of a grid"))?;
    let minus_zero = reader.u8()? != 0;
    let group_size = reader.length()?;
    reader.finish()?;
    if group_size == 0 || !out.len().is_multiple_of(F::WIDTH) {
        return Err(Error::corrupt("a grid has whole elements in groups of at least one"));
    }
    let short = || Error::corrupt("a plane of a grid is too short");
    let [mut level_plane, low, second, third, top, bases, mut raw] = *planes;
    let scales = low.iter().zip(second).zip(third).zip(top);
    let mut groups = scales.zip(bases);
    let mut seen = 0;
    for group in rows.groups(group_size, out.len() / F::WIDTH) {
        let ((((&a, &b), &c), &d), &base) = groups.next().ok_or_else(short)?;
        seen += 1;
        let scale = u32::from_le_bytes([a, b, c, d]);
        let out = out.get_mut(group.start * F::WIDTH..group.end * F::WIDTH).ok_or_else(short)?;
        if scale == RAW {
            let (bytes, rest) = raw.split_at_checked(out.len()).ok_or_else(short)?;
            out.copy_from_slice(bytes);
            raw = rest;
            continue;
        }
        let (numbers, rest) = level_plane.split_at_checked(group.len()).ok_or_else(short)?;
        level_plane = rest;
        let scale = f32::from_bits(scale);
        if !scale.is_finite() {
            return Err(Error::corrupt("the scale of a grid is finite"));
        }
        match levels {
            Levels::Integers => multiply_integers::<F>(numbers, scale, base, minus_zero, out),
            Levels::Table(table) => multiply_table::<F>(numbers, scale, table, minus_zero, out),
        }
    }
    let lengths = [low, second, third, top, bases].map(<[u8]>::len);
    if lengths != [seen; 5] || !level_plane.is_empty() || !raw.is_empty() {
        return Err(Error::corrupt("a plane of a grid is too long"));
    }
    Ok(())
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
fn multiply_table<F: Format>(numbers: &[u8], scale: f32, table: Table, minus_zero: bool, out: &mut [u8]) {
    let products = table.levels().map(|level| F::round(level * scale));
    for (out, &number) in out.chunks_exact_mut(F::WIDTH).zip(numbers) {
        let bits = products[usize::from(number & 15)];
        F::write(if minus_zero && number == MINUS_ZERO { F::SIGN } else { bits }, out);
    }
}
