//! Filter pipelines: what was done to each chunk before it was stored, in the order the writer did it.

use super::super::cursor::Cursor;
use crate::error::{Error, Result};
use crate::index::Filter;

/// The library's own limit on the number of filters, and that of the bits in a chunk's mask.
const MOST_FILTERS: u8 = 32;

/// The filters of a dataset whose elements take `width` bytes.
pub(in super::super) fn parse(cursor: &mut Cursor<'_>, width: usize) -> Result<Vec<Filter>> {
    let version = cursor.version(1..=2)?;
    let count = cursor.u8()?;
    if count > MOST_FILTERS {
        return Err(cursor.error("there are more than 32 filters"));
    }
    cursor.skip(if version == 1 { 6 } else { 0 })?;
    let mut filters = Vec::with_capacity(count.into());
    for _ in 0..count {
        let identifier = cursor.u16()?;
        let named = version == 1 || identifier >= 256;
        let name_length = if named { usize::from(cursor.u16()?) } else { 0 };
        cursor.skip(2)?;
        let values = usize::from(cursor.u16()?);
        let padding = if version == 1 { name_length.next_multiple_of(8) - name_length } else { 0 };
        let name = cursor.take(name_length)?;
        cursor.skip(padding)?;
        let first = if values > 0 { Some(cursor.u32()?) } else { None };
        cursor.skip(4 * values.saturating_sub(1))?;
        cursor.skip(if version == 1 && values % 2 == 1 { 4 } else { 0 })?;
        filters.push(filter(identifier, name, first, width)?);
    }
    if filters.iter().filter(|filter| matches!(filter, Filter::Deflate | Filter::Lzf)).count() > 1 {
        return Err(Error::unsupported("chunks that are compressed twice"));
    }
    Ok(filters)
}

fn filter(identifier: u16, name: &[u8], first: Option<u32>, width: usize) -> Result<Filter> {
    let unsupported = match identifier {
        1 => return Ok(Filter::Deflate),
        2 => return Ok(Filter::Shuffle { width: first.map_or(width, |first| first as usize) }),
        3 => return Ok(Filter::Fletcher32),
        32000 => return Ok(Filter::Lzf),
        4 => "szip",
        5 => "nbit",
        6 => "scale-offset",
        _ => {
            let name = String::from_utf8_lossy(name);
            let name = name.trim_end_matches('\0');
            return Err(Error::unsupported(format!("chunks with filter {identifier} ({name})")));
        }
    };
    Err(Error::unsupported(format!("chunks with the {unsupported} filter")))
}
