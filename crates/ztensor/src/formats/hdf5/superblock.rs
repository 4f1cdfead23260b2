//! The superblock: found at byte 0, or behind a user block at 512, 1024, 2048 and so on, it fixes the widths of addresses and lengths and
//! says where the root group is.

use super::checksum;
use super::cursor::{Cursor, Widths};
use crate::error::{Error, Result};
use crate::source::Source;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// Longest superblock of versions 0 to 3.
const LONGEST: u64 = 136;

/// What the rest of the reader needs from a superblock.
#[derive(Debug)]
pub(super) struct Superblock {
    pub version: u8,
    pub widths: Widths,
    /// How long the file says it is, without its user block.
    pub length: u64,
    /// The address of the root group's object header.
    pub root: u64,
}

/// Where the superblock is within `[start, end)` of a source, counted from `start`.
pub(super) fn find(source: &Source, start: u64, end: u64) -> Option<u64> {
    let mut place = 0u64;
    while let Some(offset) = start.checked_add(place).filter(|offset| end.saturating_sub(*offset) >= 8) {
        if source.bytes(offset, 8).is_ok_and(|bytes| *bytes == *SIGNATURE) {
            return Some(place);
        }
        place = if place == 0 { 512 } else { place.checked_mul(2)? };
    }
    None
}

/// Whether the first bytes of a file are a superblock, or hold one behind a short user block.
pub(super) fn is_in_head(head: &[u8]) -> bool {
    [0, 512, 1024, 2048]
        .iter()
        .any(|&place| head.get(place..).is_some_and(|rest| rest.starts_with(SIGNATURE)))
}

impl Superblock {
    /// Reads the superblock at a file offset.
    pub fn read(source: &Source, offset: u64, end: u64) -> Result<Superblock> {
        let bytes = source.bytes(offset, LONGEST.min(end.saturating_sub(offset)))?;
        let narrow = Widths { address: 8, length: 8 };
        let mut cursor = Cursor::new(&bytes, offset, narrow, "superblock");
        cursor.skip(SIGNATURE.len())?;
        let version = cursor.version(0..=3)?;
        if version >= 2 {
            return Superblock::read_new(&bytes, offset, version);
        }
        cursor.skip(4)?;
        let widths = widths(&mut cursor)?;
        cursor.skip(if version == 0 { 9 } else { 13 })?;
        let passed = cursor.position();
        let rest = cursor.rest();
        let mut cursor = Cursor::new(rest, offset + passed as u64, widths, "superblock");
        let base = cursor.place()?;
        cursor.skip(widths.address)?;
        let length = cursor.place()?.saturating_sub(base);
        cursor.skip(2 * widths.address)?;
        let root = cursor.place()?;
        Ok(Superblock { version, widths, length, root })
    }

    fn read_new(bytes: &[u8], offset: u64, version: u8) -> Result<Superblock> {
        let fixed = SIGNATURE.len() + 1;
        let narrow = Widths { address: 8, length: 8 };
        let mut cursor = Cursor::new(bytes, offset, narrow, "superblock");
        cursor.skip(fixed)?;
        let widths = widths(&mut cursor)?;
        let length = fixed + 3 + 4 * widths.address + 4;
        let whole = bytes.get(..length).ok_or_else(|| cursor.error("it ends before its last field"))?;
        let covered = checksum::verified(whole, offset, "superblock")?;
        let mut cursor = Cursor::new(covered, offset, widths, "superblock");
        cursor.skip(fixed + 3)?;
        let base = cursor.place()?;
        cursor.skip(widths.address)?;
        let length = cursor.place()?.saturating_sub(base);
        let root = cursor.place()?;
        Ok(Superblock { version, widths, length, root })
    }
}

fn widths(cursor: &mut Cursor<'_>) -> Result<Widths> {
    let (address, length) = (cursor.u8()?, cursor.u8()?);
    let usable = |width| matches!(width, 2 | 4 | 8);
    if !usable(address) || !usable(length) {
        return Err(Error::malformed(format!(
            "the superblock: addresses of {address} and lengths of {length} bytes are not possible"
        ))
        .with_offset(cursor.offset() - 2));
    }
    Ok(Widths { address: address.into(), length: length.into() })
}
