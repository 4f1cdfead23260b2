//! B-trees of the first generation: they list the symbol-table nodes of old groups and the chunks of old datasets.

use super::super::cursor::Cursor;
use super::super::image::Image;
use crate::error::{Error, Result};

/// What a tree lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Contents {
    /// Symbol-table nodes of a group.
    Group,
    /// Chunks of a dataset with this many dimensions.
    Chunks { rank: usize },
}

impl Contents {
    fn number(self) -> u8 {
        match self {
            Contents::Group => 0,
            Contents::Chunks { .. } => 1,
        }
    }

    fn key_length(self, image: &Image<'_>) -> usize {
        match self {
            Contents::Group => image.widths.length,
            Contents::Chunks { rank } => 8 + 8 * (rank + 1),
        }
    }
}

/// Visits every entry of the leaves in order: a cursor over its key, and the address it leads to.
pub(in super::super) fn walk(
    image: &Image<'_>,
    root: u64,
    contents: Contents,
    mut visit: impl FnMut(&mut Cursor<'_>, u64) -> Result<()>,
) -> Result<()> {
    let prefix = 8 + 2 * image.widths.address;
    let key = contents.key_length(image);
    let entry = key + image.widths.address;
    let mut waiting: Vec<(u64, Option<u8>)> = vec![(root, None)];
    while let Some((address, expected)) = waiting.pop() {
        let head = image.read(address, prefix as u64)?;
        let mut cursor = image.cursor(&head, address, "B-tree node");
        cursor.signature(b"TREE")?;
        let (kind, level, entries) = (cursor.u8()?, cursor.u8()?, usize::from(cursor.u16()?));
        if kind != contents.number() {
            return Err(cursor.error("it lists something else than expected"));
        }
        if expected.is_some_and(|expected| level != expected) {
            return Err(cursor.error("its level is not one below its parent's"));
        }
        let body_address = address.saturating_add(prefix as u64);
        let body = image.read(body_address, (entries * entry) as u64)?;
        let first = waiting.len();
        for (number, bytes) in body.chunks_exact(entry).enumerate() {
            let mut cursor = image.cursor(bytes, body_address + (number * entry) as u64, "B-tree node");
            cursor.skip(key)?;
            let child = cursor.place()?;
            match level.checked_sub(1) {
                Some(below) => waiting.push((child, Some(below))),
                None => visit(
                    &mut image.cursor(bytes, body_address + (number * entry) as u64, "B-tree key"),
                    child,
                )?,
            }
        }
        if waiting.len() as u64 > image.length() {
            return Err(Error::malformed("a B-tree has more nodes than the file has bytes")
                .with_offset(image.offset(address)));
        }
        waiting.get_mut(first..).unwrap_or_default().reverse();
    }
    Ok(())
}
