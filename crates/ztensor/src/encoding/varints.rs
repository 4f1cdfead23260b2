//! Protobuf varints, narrowed to the width of an element. A long packed field is cut at value boundaries and decoded on all cores.

use rayon::prelude::*;

use super::{Files, stored};
use crate::error::{Error, Result};
use crate::index::VarintRun;
use crate::tensor::{DType, ElementType};

/// Encoded bytes per task.
const PIECE: usize = 256 << 10;

/// The value at the start of some bytes, with its length; `None` when it does not end within them or does not fit 64 bits.
#[inline]
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first_chunk::<8>() {
        Some(chunk) => read_short(*chunk).or_else(|| read_any(bytes)),
        None => read_any(bytes),
    }
}

/// A value of up to eight bytes, without a branch per byte: the last byte is the first whose high bit is clear.
#[inline]
fn read_short(chunk: [u8; 8]) -> Option<(u64, usize)> {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(chunk);
    let ends = !word & HIGH_BITS;
    if ends == 0 {
        return None;
    }
    // The bytes up to the end, then their seven-bit groups moved together: pairs, fours, eights.
    let groups = word & (ends ^ (ends - 1)) & !HIGH_BITS;
    let pairs = (groups & 0x007F_007F_007F_007F) | ((groups & 0x7F00_7F00_7F00_7F00) >> 1);
    let fours = (pairs & 0x0000_3FFF_0000_3FFF) | ((pairs & 0x3FFF_0000_3FFF_0000) >> 2);
    let value = (fours & 0x0FFF_FFFF) | ((fours & 0x0FFF_FFFF_0000_0000) >> 4);
    Some((value, ends.trailing_zeros() as usize / 8 + 1))
}

fn read_any(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (position, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * position);
        if byte < 0x80 {
            return (position < 9 || byte <= 1).then_some((value, position + 1));
        }
    }
    None
}

/// Decodes runs of varints into elements: one per value, or for six-bit types four values in three bytes.
pub(super) fn decode(files: &Files, runs: &[VarintRun], element: &ElementType, out: &mut [u8]) -> Result<()> {
    match (element.bits(), element.storage.width()) {
        (Some(6), _) => {
            let packed = out.len();
            let mut codes = super::allocate((packed * 8 / 6) as u64)?;
            let count = narrow::<1>(files, runs, &mut codes)?;
            pack_six_bits(&codes[..count], out);
            filled((count * 6).div_ceil(8), packed)
        }
        (_, 1) => filled(narrow::<1>(files, runs, out)?, out.len()),
        (_, 2) => filled(narrow::<2>(files, runs, out)?, out.len() / 2),
        (_, 4) => filled(narrow::<4>(files, runs, out)?, out.len() / 4),
        (_, _) => filled(narrow::<8>(files, runs, out)?, out.len() / 8),
    }?;
    if element.storage == DType::Bool {
        out.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Ok(())
}

fn filled(count: usize, expected: usize) -> Result<()> {
    if count == expected { Ok(()) } else { Err(too_few()) }
}

/// Decodes all runs one after the other; returns the number of values.
fn narrow<const WIDTH: usize>(files: &Files, runs: &[VarintRun], out: &mut [u8]) -> Result<usize> {
    let mut rest = out.as_chunks_mut::<WIDTH>().0;
    let total = rest.len();
    for run in runs {
        let bytes = stored(files, run.span)?;
        let count = match run.tagged {
            true => sequential::<WIDTH, 1>(&bytes, rest)?,
            false if bytes.len() <= PIECE => sequential::<WIDTH, 0>(&bytes, rest)?,
            false => parallel(&bytes, rest)?,
        };
        rest = &mut rest[count..];
    }
    Ok(total - rest.len())
}

/// Decodes values that follow each other, each behind `TAG` bytes of field tag.
fn sequential<const WIDTH: usize, const TAG: usize>(bytes: &[u8], out: &mut [[u8; WIDTH]]) -> Result<usize> {
    let mut position = 0;
    let mut count = 0;
    while position < bytes.len() {
        let (value, length) = bytes.get(position + TAG..).and_then(read_varint).ok_or_else(damaged)?;
        let slot = out.get_mut(count).ok_or_else(too_many)?;
        slot.copy_from_slice(&value.to_le_bytes()[..WIDTH]);
        position += TAG + length;
        count += 1;
    }
    Ok(count)
}

fn parallel<const WIDTH: usize>(bytes: &[u8], out: &mut [[u8; WIDTH]]) -> Result<usize> {
    let pieces = cut(bytes)?;
    let counts: Vec<usize> = pieces.par_iter().map(|piece| count_values(piece)).collect();
    let mut rest = out;
    let mut tasks = Vec::with_capacity(pieces.len());
    for (piece, &count) in pieces.into_iter().zip(&counts) {
        let (target, remaining) = rest.split_at_mut_checked(count).ok_or_else(too_many)?;
        tasks.push((piece, target));
        rest = remaining;
    }
    tasks.into_par_iter().try_for_each(|(piece, target)| sequential::<WIDTH, 0>(piece, target).map(drop))?;
    Ok(counts.iter().sum())
}

/// The number of values in some bytes. A varint ends with its only byte below 0x80; counts of a block fit a byte, which adds up fastest.
fn count_values(bytes: &[u8]) -> usize {
    let ends = |block: &[u8]| block.iter().map(|byte| u8::from(*byte < 0x80)).sum::<u8>();
    bytes.chunks(128).map(|block| usize::from(ends(block))).sum()
}

/// Cuts at ends of values, near multiples of the piece size.
fn cut(mut bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let mut pieces = Vec::with_capacity(bytes.len() / PIECE + 1);
    while bytes.len() > PIECE {
        let tail = bytes[PIECE - 1..].iter().take(10).position(|byte| *byte < 0x80).ok_or_else(damaged)?;
        let (piece, rest) = bytes.split_at(PIECE + tail);
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    Ok(pieces)
}

/// Packs six-bit codes, first code in the lowest bits.
fn pack_six_bits(codes: &[u8], out: &mut [u8]) {
    for (group, target) in codes.chunks(4).zip(out.chunks_mut(3)) {
        let bits =
            group.iter().enumerate().fold(0u32, |bits, (i, code)| bits | u32::from(code & 0x3F) << (6 * i));
        target.copy_from_slice(&bits.to_le_bytes()[..target.len()]);
    }
}

fn damaged() -> Error {
    Error::malformed("a varint in the data does not end, or does not fit 64 bits")
}

fn too_many() -> Error {
    Error::malformed("the data holds more values than the shape says")
}

fn too_few() -> Error {
    Error::malformed("the data holds fewer values than the shape says")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::index::{FileId, Span};
    use crate::source::Source;
    use crate::tensor::LogicalType;

    fn write(mut value: u64, bytes: &mut Vec<u8>) {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn run(bytes: Vec<u8>, tagged: bool, element: impl Into<ElementType>, out: &mut [u8]) -> Result<()> {
        let span = Span { file: FileId(0), offset: 0, length: bytes.len() as u64 };
        let files = [Arc::new(Source::from_bytes(bytes))];
        decode(&files, &[VarintRun { span, tagged }], &element.into(), out)
    }

    #[test]
    fn values_of_every_length_survive_on_all_cores() {
        let values: Vec<i64> =
            (0..400_000i64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> (i % 64)).collect();
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write(*value as u64, &mut bytes));
        let mut out = vec![0; values.len() * 8];
        run(bytes.clone(), false, DType::I64, &mut out).unwrap();
        let expected: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(out == expected);
        assert!(run(bytes.clone(), false, DType::I64, &mut out[8..]).is_err(), "one slot too few");
        bytes.push(0x80);
        assert!(run(bytes, false, DType::I64, &mut out).is_err(), "an unfinished value");
    }

    #[test]
    fn values_are_narrowed_to_the_element() {
        let mut bytes = Vec::new();
        [-2i64 as u64, 0x1_2345, 7].iter().for_each(|value| write(*value, &mut bytes));
        let mut out = [0; 6];
        run(bytes.clone(), false, DType::F16, &mut out).unwrap();
        assert_eq!(out, [0xFE, 0xFF, 0x45, 0x23, 7, 0]);
        let mut out = [9; 3];
        run(vec![0, 2, 1], false, DType::Bool, &mut out).unwrap();
        assert_eq!(out, [0, 1, 1]);
    }

    #[test]
    fn tags_between_the_values_are_skipped() {
        let mut out = [0; 3];
        run(vec![0x28, 5, 0x28, 0xFF, 0x01, 0x28, 6], true, DType::U8, &mut out).unwrap();
        assert_eq!(out, [5, 0xFF, 6]);
        assert!(run(vec![0x28, 5, 0x28], true, DType::U8, &mut out[..1]).is_err());
    }

    #[test]
    fn six_bit_codes_are_packed_from_the_lowest_bits() {
        let element = ElementType::logical(LogicalType::F6E2M3);
        let mut out = [0; 4];
        run(vec![0x01, 0x02, 0x03, 0x3F, 0x2A], false, element, &mut out).unwrap();
        assert_eq!(out, [0x81, 0x30, 0xFC, 0x2A]);
    }

    #[test]
    fn both_ways_to_read_a_value_agree() {
        let mut state = 1u64;
        for round in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut bytes = Vec::new();
            write(state >> (round % 64), &mut bytes);
            bytes.extend(state.to_le_bytes());
            assert_eq!(read_varint(&bytes), read_any(&bytes), "{bytes:?}");
        }
    }

    #[test]
    fn too_long_or_too_large_values_are_refused() {
        assert_eq!(read_varint(&[0xFF; 11]), None);
        assert_eq!(read_varint(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02]), None);
        assert_eq!(
            read_varint(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]),
            Some((u64::MAX, 10))
        );
    }
}
