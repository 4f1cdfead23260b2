//! Fixed arrays: the chunks of datasets whose largest size is known, in row-major order of that size, in pages when there are many.

use super::{Cursor, Table};
use crate::error::{Error, Result};

/// Reads the array at an address into the table.
pub(super) fn list(table: &mut Table<'_, '_>, address: u64) -> Result<()> {
    let image = table.image;
    let head_length = 4 + 4 + image.widths.length + image.widths.address + 4;
    let head = image.read_checked(address, head_length as u64, "fixed array")?;
    let mut cursor = image.cursor(&head, address, "fixed array");
    cursor.signature(b"FAHD")?;
    cursor.version(0..=0)?;
    let client = cursor.u8()?;
    let (element, page_bits) = (usize::from(cursor.u8()?), u32::from(cursor.u8()?));
    let count = cursor.length()?;
    let Some(block) = cursor.address()? else { return Ok(()) };
    if client != u8::from(table.filtered) || element == 0 {
        return Err(cursor.error("it does not list chunks of this dataset"));
    }
    let page = 1u64.checked_shl(page_bits).ok_or_else(|| cursor.error("its pages are too large"))?;

    let pages = if count > page { count.div_ceil(page) } else { 0 };
    let bitmap = pages.div_ceil(8);
    let prefix = 4 + 2 + image.widths.address as u64;
    let too_long =
        || Error::malformed("the fixed array is longer than the file").with_offset(image.offset(address));
    let bytes_of = |elements: u64| elements.checked_mul(element as u64).ok_or_else(too_long);
    let own = if pages == 0 { bytes_of(count)? } else { bitmap };
    let length = prefix.checked_add(own).and_then(|length| length.checked_add(4)).ok_or_else(too_long)?;
    let bytes = image.read_checked(block, length, "block of a fixed array")?;
    let mut cursor = image.cursor(&bytes, block, "block of a fixed array");
    cursor.signature(b"FADB")?;
    cursor.version(0..=0)?;
    if cursor.u8()? != client || cursor.place()? != address {
        return Err(cursor.error("it belongs to another array"));
    }

    let most: Option<Vec<u64>> = table.grid.most().iter().copied().collect();
    let most = most.ok_or_else(|| cursor.error("the dataset may grow without end"))?;
    let mut place = vec![0; most.len()];
    let mut elements = |cursor: &mut Cursor<'_>, first: u64, count: u64| {
        for number in first..first + count {
            unravel(number, &most, &mut place);
            table.add_element(cursor, element, &place)?;
        }
        Ok(())
    };
    if pages == 0 {
        return elements(&mut cursor, 0, count);
    }
    let bitmap = cursor.take(bitmap as usize)?;
    let mut next = block.saturating_add(length);
    for number in 0..pages {
        let first = number * page;
        let in_page = page.min(count - first);
        let length = bytes_of(in_page)?.checked_add(4).ok_or_else(too_long)?;
        let used = bitmap.get((number / 8) as usize).is_some_and(|byte| byte & (0x80 >> (number % 8)) != 0);
        if used {
            let bytes = image.read_checked(next, length, "page of a fixed array")?;
            elements(&mut image.cursor(&bytes, next, "page of a fixed array"), first, in_page)?;
        }
        next = next.saturating_add(length);
    }
    Ok(())
}

/// The place of a row-major number.
fn unravel(mut number: u64, counts: &[u64], place: &mut [u64]) {
    for (place, &count) in place.iter_mut().zip(counts).rev() {
        *place = number % count.max(1);
        number /= count.max(1);
    }
}
