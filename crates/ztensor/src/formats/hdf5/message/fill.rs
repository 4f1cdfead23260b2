//! Fill values: what elements hold that were never written.

use super::super::cursor::Cursor;
use crate::error::Result;

/// The bytes of one element; empty where the file leaves it at zero.
pub(in super::super) fn parse<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let version = cursor.version(1..=3)?;
    let present = if version == 3 {
        cursor.u8()? & 0x20 != 0
    } else {
        cursor.skip(2)?;
        let defined = cursor.u8()? != 0;
        version == 1 || defined
    };
    if present { parse_old(cursor) } else { Ok(&[]) }
}

/// The message that preceded it: a size and a value.
pub(in super::super) fn parse_old<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let size = cursor.u32()?;
    // The library writes -1 for "undefined" and 0 for "the default".
    if size == 0 || size == u32::MAX { Ok(&[]) } else { cursor.take(size as usize) }
}
