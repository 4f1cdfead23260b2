//! Extensible arrays: the chunks of datasets that may grow without end in one dimension. An index block leads to data blocks and, further
//! on, to super blocks with larger data blocks, in pages when they are large.

use super::{Cursor, Table};
use crate::error::{Error, Result};

/// Sizes that the header fixes for the whole array.
struct Array {
    address: u64,
    client: u8,
    element: usize,
    /// Elements in the index block itself.
    in_index: u64,
    /// Elements of the smallest data block.
    smallest: u64,
    /// Super blocks whose data blocks the index block addresses itself.
    direct: u32,
    super_blocks: u32,
    /// Elements of a page.
    page: u64,
    offset_width: usize,
    /// Chunks per dimension with the endless one moved to the front, where it is not needed.
    counts: Vec<u64>,
    endless: usize,
    /// The number of the next element.
    next: u64,
    place: Vec<u64>,
}

/// Reads the array at an address into the table.
pub(super) fn list(table: &mut Table<'_, '_>, address: u64) -> Result<()> {
    let image = table.image;
    let head_length = 4 + 8 + 6 * image.widths.length + image.widths.address + 4;
    let head = image.read_checked(address, head_length as u64, "extensible array")?;
    let mut cursor = image.cursor(&head, address, "extensible array");
    cursor.signature(b"EAHD")?;
    cursor.version(0..=0)?;
    let (client, element, bits, in_index) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let (smallest, pointers, page_bits) = (u64::from(cursor.u8()?), u64::from(cursor.u8()?), cursor.u8()?);
    cursor.skip(6 * image.widths.length)?;
    let Some(block) = cursor.address()? else { return Ok(()) };
    let possible = smallest.is_power_of_two()
        && pointers.is_power_of_two()
        && (smallest.ilog2()..=64).contains(&bits.into())
        && page_bits < 64
        && element > 0;
    if client != u8::from(table.filtered) || !possible {
        return Err(
            cursor.error("it does not list chunks of this dataset, or its block sizes are not possible")
        );
    }
    let endless = table.grid.most().iter().position(Option::is_none);
    let endless = endless.ok_or_else(|| cursor.error("the dataset does not grow without end"))?;
    let mut counts: Vec<u64> = table.grid.most().iter().map(|most| most.unwrap_or(u64::MAX)).collect();
    counts.remove(endless);
    let array = Array {
        address,
        client,
        element: element.into(),
        in_index: in_index.into(),
        smallest,
        direct: 2 * pointers.ilog2(),
        super_blocks: 1 + u32::from(bits) - smallest.ilog2(),
        page: 1 << page_bits,
        offset_width: usize::from(bits).div_ceil(8).max(1),
        place: vec![0; counts.len() + 1],
        counts,
        endless,
        next: 0,
    };
    array.index_block(table, block)
}

impl Array {
    /// Data blocks of a super block, and the elements in each.
    fn data_blocks(&self, number: u32) -> Option<(u64, u64)> {
        let blocks = 1u64.checked_shl(number / 2)?;
        let elements = 1u64.checked_shl(number.div_ceil(2))?.checked_mul(self.smallest)?;
        Some((blocks, elements))
    }

    fn index_block(mut self, table: &mut Table<'_, '_>, address: u64) -> Result<()> {
        let image = table.image;
        let direct = self.direct.min(self.super_blocks);
        let data: u64 =
            (0..direct).filter_map(|number| self.data_blocks(number)).map(|(blocks, _)| blocks).sum();
        let supers = u64::from(self.super_blocks - direct);
        let pointers = (data + supers) * image.widths.address as u64;
        let length = self.prefix(table) + self.in_index * self.element as u64 + pointers + 4;
        let bytes = image.read_checked(address, length, "index block of an extensible array")?;
        let mut cursor = image.cursor(&bytes, address, "index block of an extensible array");
        self.check(&mut cursor, b"EAIB")?;
        self.elements(table, &mut cursor, self.in_index)?;
        for number in 0..direct {
            let (blocks, elements) =
                self.data_blocks(number).ok_or_else(|| cursor.error("it is too large"))?;
            if elements > self.page {
                return Err(cursor.error("a block that has pages is addressed directly"));
            }
            for _ in 0..blocks {
                match cursor.address()? {
                    Some(block) => self.data_block(table, block, elements, &[])?,
                    None => self.pass(elements),
                }
            }
        }
        for number in direct..self.super_blocks {
            let (blocks, elements) =
                self.data_blocks(number).ok_or_else(|| cursor.error("it is too large"))?;
            match cursor.address()? {
                Some(block) => self.super_block(table, block, blocks, elements)?,
                None => self.pass(blocks.saturating_mul(elements)),
            }
        }
        Ok(())
    }

    fn super_block(
        &mut self,
        table: &mut Table<'_, '_>,
        address: u64,
        blocks: u64,
        elements: u64,
    ) -> Result<()> {
        let image = table.image;
        // One bit per page of each data block says whether the page is in use.
        let bitmap = if elements > self.page { (elements / self.page).div_ceil(8) } else { 0 };
        let length = (bitmap + image.widths.address as u64)
            .checked_mul(blocks)
            .and_then(|bytes| bytes.checked_add(self.prefix(table) + self.offset_width as u64 + 4));
        let length = length.ok_or_else(|| {
            Error::malformed("a super block of an extensible array is too large")
                .with_offset(image.offset(address))
        })?;
        let bytes = image.read_checked(address, length, "super block of an extensible array")?;
        let mut cursor = image.cursor(&bytes, address, "super block of an extensible array");
        self.check(&mut cursor, b"EASB")?;
        cursor.skip(self.offset_width)?;
        // `read_checked` found all of these bytes, so the products fit.
        let bitmaps = cursor.take((bitmap * blocks) as usize)?;
        for number in 0..blocks {
            let start = (number * bitmap) as usize;
            let used = bitmaps.get(start..start + bitmap as usize).unwrap_or_default();
            match cursor.address()? {
                Some(block) => self.data_block(table, block, elements, used)?,
                None => self.pass(elements),
            }
        }
        Ok(())
    }

    fn data_block(
        &mut self,
        table: &mut Table<'_, '_>,
        address: u64,
        elements: u64,
        used: &[u8],
    ) -> Result<()> {
        let image = table.image;
        let paged = elements > self.page;
        let own = if paged { Some(0) } else { elements.checked_mul(self.element as u64) };
        let length = own.and_then(|own| own.checked_add(self.prefix(table) + self.offset_width as u64 + 4));
        let page_length = self.page.checked_mul(self.element as u64).and_then(|length| length.checked_add(4));
        let (Some(length), Some(page_length)) = (length, page_length) else {
            return Err(Error::malformed("a block of an extensible array is too large")
                .with_offset(image.offset(address)));
        };
        let bytes = image.read_checked(address, length, "block of an extensible array")?;
        let mut cursor = image.cursor(&bytes, address, "block of an extensible array");
        self.check(&mut cursor, b"EADB")?;
        cursor.skip(self.offset_width)?;
        if !paged {
            return self.elements(table, &mut cursor, elements);
        }
        for number in 0..elements / self.page {
            let byte = used.get((number / 8) as usize).copied().unwrap_or(0);
            if byte & (0x80 >> (number % 8)) == 0 {
                self.pass(self.page);
                continue;
            }
            let page = number
                .checked_mul(page_length)
                .and_then(|skip| skip.checked_add(length)?.checked_add(address));
            let page = page.ok_or_else(|| cursor.error("a page lies beyond all addresses"))?;
            let bytes = image.read_checked(page, page_length, "page of an extensible array")?;
            self.elements(table, &mut image.cursor(&bytes, page, "page of an extensible array"), self.page)?;
        }
        Ok(())
    }

    /// Signature, version, client and the array's own address.
    fn check(&self, cursor: &mut Cursor<'_>, signature: &[u8; 4]) -> Result<()> {
        cursor.signature(signature)?;
        cursor.version(0..=0)?;
        if cursor.u8()? != self.client || cursor.place()? != self.address {
            return Err(cursor.error("it belongs to another array"));
        }
        Ok(())
    }

    fn prefix(&self, table: &Table<'_, '_>) -> u64 {
        4 + 2 + table.image.widths.address as u64
    }

    /// Passes over elements that do not exist.
    fn pass(&mut self, elements: u64) {
        self.next = self.next.saturating_add(elements);
    }

    fn elements(&mut self, table: &mut Table<'_, '_>, cursor: &mut Cursor<'_>, count: u64) -> Result<()> {
        for _ in 0..count {
            let mut number = self.next;
            self.pass(1);
            // Row-major with the endless dimension outermost, wherever it stands in the dataset.
            let others = (0..self.place.len()).rev().filter(|&dimension| dimension != self.endless);
            for (dimension, &count) in others.zip(self.counts.iter().rev()) {
                if let Some(place) = self.place.get_mut(dimension) {
                    *place = number % count.max(1);
                }
                number /= count.max(1);
            }
            if let Some(place) = self.place.get_mut(self.endless) {
                *place = number;
            }
            table.add_element(cursor, self.element, &self.place)?;
        }
        Ok(())
    }
}
