//! Fractal heaps: objects in blocks that double in size, addressed by identifiers which hold an offset into the heap's own address space.
//! Large new groups keep their links and attributes here.

use std::collections::HashSet;

use super::super::image::Image;
use super::super::tree::version2::{Tree, bytes_for};
use crate::error::{Error, Result};
use crate::source::headers::Piece;

/// Direct blocks carry a checksum.
const CHECKSUMMED: u8 = 0x02;
/// B-tree of huge objects that are found by number.
const HUGE_BY_NUMBER: u8 = 1;

/// One heap.
pub(in super::super) struct FractalHeap {
    address: u64,
    identifier_length: usize,
    flags: u8,
    huge_tree: Option<u64>,
    table_width: u64,
    start_size: u64,
    /// Rows of the doubling table whose blocks hold objects; the rows below hold further tables.
    direct_rows: u32,
    offset_width: usize,
    length_width: usize,
    root: Option<u64>,
    root_rows: u32,
    /// Blocks whose signature and checksum have been checked.
    checked: HashSet<u64>,
}

impl FractalHeap {
    pub fn read(image: &Image<'_>, address: u64) -> Result<FractalHeap> {
        let widths = image.widths;
        let length = 4 + 1 + 2 + 2 + 1 + 4 + 12 * widths.length + 3 * widths.address + 2 + 2 + 2 + 2 + 4;
        let filter_length = {
            let head = image.read(address, 9)?;
            let mut cursor = image.cursor(&head, address, "fractal heap");
            cursor.signature(b"FRHP")?;
            cursor.version(0..=0)?;
            cursor.skip(2)?;
            cursor.u16()?
        };
        if filter_length > 0 {
            return Err(Error::unsupported("a fractal heap with filters"));
        }
        let bytes = image.read_checked(address, length as u64, "fractal heap")?;
        let mut cursor = image.cursor(&bytes, address, "fractal heap");
        cursor.skip(5)?;
        let identifier_length = cursor.u16()?.into();
        cursor.skip(2)?;
        let flags = cursor.u8()?;
        let longest_managed = u64::from(cursor.u32()?);
        cursor.skip(widths.length)?;
        let huge_tree = cursor.address()?;
        cursor.skip(widths.length + widths.address + 8 * widths.length)?;
        let table_width = u64::from(cursor.u16()?);
        let (start_size, largest_direct) = (cursor.length()?, cursor.length()?);
        let heap_bits = usize::from(cursor.u16()?);
        cursor.skip(2)?;
        let root = cursor.address()?;
        let root_rows = cursor.u16()?.into();

        let powers = table_width.is_power_of_two()
            && start_size.is_power_of_two()
            && largest_direct.is_power_of_two()
            && start_size <= largest_direct
            && table_width.checked_mul(start_size).is_some();
        if !powers || heap_bits == 0 || heap_bits > 64 {
            return Err(cursor.error("its block sizes are not possible"));
        }
        let block_width = (largest_direct.ilog2() as usize).div_ceil(8).max(1);
        Ok(FractalHeap {
            address,
            identifier_length,
            flags,
            huge_tree,
            table_width,
            start_size,
            direct_rows: largest_direct.ilog2() - start_size.ilog2() + 2,
            offset_width: heap_bits.div_ceil(8),
            length_width: block_width.min(bytes_for(longest_managed)),
            root,
            root_rows,
            checked: HashSet::new(),
        })
    }

    /// Bytes of an identifier.
    pub fn identifier_length(&self) -> usize {
        self.identifier_length
    }

    /// The bytes of an object, and their address (0 where they lie in the identifier).
    pub fn object<'a>(&mut self, image: &Image<'a>, identifier: &[u8]) -> Result<(Piece<'a>, u64)> {
        let mut cursor = image.cursor(identifier, self.address, "identifier in a fractal heap");
        let head = cursor.u8()?;
        match (head >> 6, head >> 4 & 3) {
            (0, 0) => {
                let offset = cursor.integer(self.offset_width)?;
                let length = cursor.integer(self.length_width)?;
                let address = self.locate(image, offset, length)?;
                Ok((image.read(address, length)?, address))
            }
            (0, 1) => {
                let widths = image.widths;
                let (address, length) = if self.identifier_length > widths.address + widths.length {
                    (cursor.place()?, cursor.length()?)
                } else {
                    let number = cursor.integer(cursor.rest().len().min(widths.length).min(8))?;
                    self.huge(image, number)?
                };
                Ok((image.read(address, length)?, address))
            }
            (0, 2) if self.identifier_length <= 17 => {
                let length = usize::from(head & 0x0F) + 1;
                Ok((cursor.take(length)?.to_vec().into(), 0))
            }
            _ => Err(Error::unsupported("an unusual kind of object in a fractal heap")),
        }
    }

    fn huge(&self, image: &Image<'_>, wanted: u64) -> Result<(u64, u64)> {
        let missing = || self.error(image, "there is no object of this number");
        let tree = Tree::read(image, self.huge_tree.ok_or_else(missing)?)?;
        if tree.kind() != HUGE_BY_NUMBER {
            return Err(Error::unsupported("filtered objects in a fractal heap"));
        }
        let mut found = None;
        tree.walk(image, |record| {
            let (address, length, number) = (record.place()?, record.length()?, record.length()?);
            if number == wanted {
                found = Some((address, length));
            }
            Ok(())
        })?;
        found.ok_or_else(missing)
    }

    /// The address of a managed object: down the doubling tables, whose blocks shrink with every step.
    fn locate(&mut self, image: &Image<'_>, mut offset: u64, length: u64) -> Result<u64> {
        let mut block = self.root.ok_or_else(|| self.error(image, "it has no blocks"))?;
        let mut rows = self.root_rows;
        if rows == 0 {
            return self.within(image, block, offset, length, self.start_size);
        }
        loop {
            let row_size = self.table_width * self.start_size;
            let row = if offset < row_size { 0 } else { (offset / row_size).ilog2() + 1 };
            // Row 0 and row 1 have blocks of the first size; after that each row doubles.
            let size = self
                .start_size
                .checked_shl(row.saturating_sub(1))
                .filter(|&size| size >> row.saturating_sub(1) == self.start_size);
            let before = if row == 0 { Some(0) } else { row_size.checked_shl(row - 1) };
            let (Some(size), Some(before)) = (size, before) else {
                return Err(self.error(image, "an offset is too large"));
            };
            let column = offset.saturating_sub(before) / size;
            if row >= rows || column >= self.table_width {
                return Err(self.error(image, "an offset lies outside the heap"));
            }
            let child = self.child(image, block, rows, u64::from(row) * self.table_width + column)?;
            offset -= before + column * size;
            if row < self.direct_rows {
                return self.within(image, child, offset, length, size);
            }
            block = child;
            let below = size.ilog2().checked_sub(row_size.ilog2()).map(|rows| rows + 1);
            rows = below.ok_or_else(|| self.error(image, "a block is smaller than a row of its own"))?;
        }
    }

    /// One entry of an indirect block, whose checksum is checked on first use.
    fn child(&mut self, image: &Image<'_>, block: u64, rows: u32, number: u64) -> Result<u64> {
        let prefix = (4 + 1 + image.widths.address + self.offset_width) as u64;
        if self.checked.insert(block) {
            let entries = u64::from(rows) * self.table_width;
            let length = prefix + entries * image.widths.address as u64 + 4;
            let bytes = image.read_checked(block, length, "indirect block of a fractal heap")?;
            let mut cursor = image.cursor(&bytes, block, "indirect block of a fractal heap");
            cursor.signature(b"FHIB")?;
            cursor.version(0..=0)?;
            if cursor.place()? != self.address {
                return Err(cursor.error("it belongs to another heap"));
            }
        }
        let address = block.saturating_add(prefix).saturating_add(number * image.widths.address as u64);
        let entry = image.read(address, image.widths.address as u64)?;
        image.cursor(&entry, address, "indirect block of a fractal heap").place()
    }

    /// The address of an object in a direct block, which is checked on first use.
    fn within(&mut self, image: &Image<'_>, block: u64, offset: u64, length: u64, size: u64) -> Result<u64> {
        let checksummed = self.flags & CHECKSUMMED != 0;
        let prefix = 4 + 1 + image.widths.address + self.offset_width + 4 * usize::from(checksummed);
        let end = offset.checked_add(length);
        if offset < prefix as u64 || end.is_none_or(|end| end > size) {
            return Err(self.error(image, "an object lies outside its block"));
        }
        if self.checked.insert(block) {
            let head = image.read(block, prefix as u64)?;
            let mut cursor = image.cursor(&head, block, "block of a fractal heap");
            cursor.signature(b"FHDB")?;
            cursor.version(0..=0)?;
            if cursor.place()? != self.address {
                return Err(cursor.error("it belongs to another heap"));
            }
            if checksummed {
                self.check_block(image, block, size, prefix)?;
            }
        }
        Ok(block.saturating_add(offset))
    }

    /// The checksum of a direct block lies in its head and counts itself as zero.
    fn check_block(&self, image: &Image<'_>, block: u64, size: u64, prefix: usize) -> Result<()> {
        let mut bytes = image.read(block, size)?.to_vec();
        let stored = bytes.get_mut(prefix - 4..prefix).and_then(|field| {
            let stored = <[u8; 4]>::try_from(&*field).ok();
            field.fill(0);
            stored
        });
        if stored != Some(super::super::checksum::lookup3(&bytes).to_le_bytes()) {
            return Err(self.error(image, "the checksum of a block does not match"));
        }
        Ok(())
    }

    fn error(&self, image: &Image<'_>, rule: &str) -> Error {
        Error::malformed(format!("the fractal heap: {rule}")).with_offset(image.offset(self.address))
    }
}
