//! B-trees of the second generation: they list the links and attributes of new groups and the chunks of datasets that grow in more than
//! one dimension. Node contents are packed with field widths that follow from the node size, which this file works out.

use super::super::cursor::Cursor;
use super::super::image::Image;
use crate::error::{Error, Result};

/// Signature, version, type and checksum of a node.
const NODE_OVERHEAD: u64 = 10;
/// No tree is this deep: with two records to a node it would have 2³² of them.
const DEEPEST: u16 = 32;

/// A tree's header.
pub(in super::super) struct Tree {
    kind: u8,
    record_length: usize,
    root: Option<u64>,
    root_records: u64,
    levels: Vec<Level>,
}

/// Field widths of the nodes at one depth; the first is that of the leaves.
struct Level {
    /// Bytes of the count of records in a child.
    count_width: usize,
    /// Bytes of the count of records below a child; 0 in the level above the leaves, which leaves it out.
    total_width: usize,
}

impl Tree {
    /// Reads a tree's header.
    pub fn read(image: &Image<'_>, address: u64) -> Result<Tree> {
        let length = 4 + 12 + image.widths.address + 2 + image.widths.length + 4;
        let bytes = image.read_checked(address, length as u64, "B-tree header")?;
        let mut cursor = image.cursor(&bytes, address, "B-tree header");
        cursor.signature(b"BTHD")?;
        cursor.version(0..=0)?;
        let kind = cursor.u8()?;
        let (node, record_length, depth) = (u64::from(cursor.u32()?), cursor.u16()?, cursor.u16()?);
        cursor.skip(2)?;
        let root = cursor.address()?;
        let root_records = cursor.u16()?.into();
        if record_length == 0 || depth > DEEPEST {
            return Err(cursor.error("its records have no bytes or it is too deep"));
        }
        let levels = levels(node, record_length.into(), depth, image.widths.address as u64)
            .ok_or_else(|| cursor.error("its nodes are too small for their records"))?;
        Ok(Tree { kind, record_length: record_length.into(), root, root_records, levels })
    }

    /// The type of the records.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Bytes of a record.
    pub fn record_length(&self) -> usize {
        self.record_length
    }

    /// Visits every record; those of inner nodes come after the node's own children.
    pub fn walk(
        &self,
        image: &Image<'_>,
        mut visit: impl FnMut(&mut Cursor<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut waiting = Vec::new();
        if let Some(root) = self.root.filter(|_| self.root_records > 0) {
            waiting.push((root, self.root_records, self.levels.len() - 1));
        }
        while let Some((address, records, depth)) = waiting.pop() {
            let (count_width, total_width) =
                self.levels.get(depth).map_or((0, 0), |level| (level.count_width, level.total_width));
            let pointer =
                if depth == 0 { 0 } else { (image.widths.address + count_width + total_width) as u64 };
            let length = records
                .checked_mul(self.record_length as u64)
                .and_then(|bytes| bytes.checked_add(records.checked_add(1)?.checked_mul(pointer)?))
                .and_then(|bytes| bytes.checked_add(NODE_OVERHEAD));
            let length = length.ok_or_else(|| {
                Error::malformed("a B-tree node announces too many records")
                    .with_offset(image.offset(address))
            })?;
            let bytes = image.read_checked(address, length, "B-tree node")?;
            let mut cursor = image.cursor(&bytes, address, "B-tree node");
            cursor.signature(if depth == 0 { b"BTLF" } else { b"BTIN" })?;
            cursor.version(0..=0)?;
            if cursor.u8()? != self.kind {
                return Err(cursor.error("its type is not that of its tree"));
            }
            for _ in 0..records {
                let offset = cursor.offset();
                let record = cursor.take(self.record_length)?;
                visit(&mut cursor.over(record, offset))?;
            }
            if depth == 0 {
                continue;
            }
            for _ in 0..=records {
                let child = cursor.place()?;
                let count = cursor.integer(count_width)?;
                cursor.skip(total_width)?;
                waiting.push((child, count, depth - 1));
            }
        }
        Ok(())
    }
}

/// Field widths per level, from the leaves up; `None` where a node cannot hold two records.
fn levels(node: u64, record: u64, depth: u16, address: u64) -> Option<Vec<Level>> {
    let most = node.checked_sub(NODE_OVERHEAD)? / record;
    let count_width = bytes_for(most);
    let mut levels = vec![Level { count_width: 0, total_width: 0 }];
    let mut total = most;
    for level in 1..=depth {
        let total_width = if level == 1 { 0 } else { bytes_for(total) };
        let pointer = address + (count_width + total_width) as u64;
        let most = node.checked_sub(NODE_OVERHEAD + pointer)? / (record + pointer);
        total = total.checked_mul(most.checked_add(1)?)?.checked_add(most)?;
        levels.push(Level { count_width, total_width });
    }
    (most > 0).then_some(levels)
}

/// Bytes that hold every number up to `limit`.
pub(in super::super) fn bytes_for(limit: u64) -> usize {
    (64 - limit.leading_zeros()).div_ceil(8).max(1) as usize
}
