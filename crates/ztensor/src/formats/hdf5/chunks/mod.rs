//! The lists of a dataset's chunks. HDF5 has six of them; all end as the same plain table of numbered byte ranges.

mod extensible_array;
mod fixed_array;
mod grid;

pub(super) use grid::Grid;

use super::cursor::Cursor;
use super::image::Image;
use super::message::layout::{ChunkList, ChunkedLayout};
use super::tree::version1::{self, Contents};
use super::tree::version2::Tree;
use crate::error::{Error, Result};
use crate::index::Chunk;
use crate::limits::Budget;

/// B-tree of chunks as they are, and of chunks with filters.
const PLAIN_CHUNKS: u8 = 10;
const FILTERED_CHUNKS: u8 = 11;
/// A chunk's filter mask when no filter was applied.
const NO_FILTERS: u32 = u32::MAX;

/// All chunks that exist, by number.
pub(super) fn list(
    image: &Image<'_>,
    budget: &mut Budget,
    layout: &ChunkedLayout,
    grid: &Grid,
    filtered: bool,
) -> Result<Vec<Chunk>> {
    let Some(address) = layout.address else { return Ok(Vec::new()) };
    let mut table =
        Table { image, budget, grid, filtered, plain_edges: layout.plain_edges, chunks: Vec::new() };
    match layout.list {
        ChunkList::Tree1 => table.tree1(address)?,
        ChunkList::Single { filtered: Some((length, mask)) } => {
            table.add(&vec![0; grid.rank()], address, length, mask)?;
        }
        ChunkList::Single { filtered: None } => table.add(&vec![0; grid.rank()], address, grid.bytes, 0)?,
        ChunkList::Implicit => table.implicit(address)?,
        ChunkList::FixedArray => fixed_array::list(&mut table, address)?,
        ChunkList::ExtensibleArray => extensible_array::list(&mut table, address)?,
        ChunkList::Tree2 => table.tree2(address)?,
    }
    let mut chunks = table.chunks;
    if !chunks.is_sorted_by_key(|chunk| chunk.number) {
        chunks.sort_unstable_by_key(|chunk| chunk.number);
    }
    let twice = chunks.windows(2).find(|pair| matches!(pair, [one, next] if one.number == next.number));
    if let Some([chunk, _]) = twice {
        return Err(Error::malformed("two chunks have the same place").with_offset(chunk.span.offset));
    }
    Ok(chunks)
}

/// The table while it is made.
struct Table<'a, 'b> {
    image: &'a Image<'b>,
    budget: &'a mut Budget,
    grid: &'a Grid,
    filtered: bool,
    plain_edges: bool,
    chunks: Vec<Chunk>,
}

impl Table<'_, '_> {
    /// Adds the chunk at a place of the grid. Places outside the dataset as it is now hold nothing that can be read.
    fn add(&mut self, place: &[u64], address: u64, length: u64, mask: u32) -> Result<()> {
        let Some(number) = self.grid.number(place) else { return Ok(()) };
        let span = self.image.span(address, length)?;
        let plain = !self.filtered || (self.plain_edges && self.grid.is_partial(place));
        if plain && length != self.grid.bytes {
            return Err(Error::malformed(format!(
                "a chunk without filters has {length} bytes instead of {}",
                self.grid.bytes
            ))
            .with_offset(span.offset));
        }
        self.budget.charge(size_of::<Chunk>() as u64)?;
        self.chunks.push(Chunk { number, span, filter_mask: if plain { NO_FILTERS } else { mask } });
        Ok(())
    }

    /// Reads one element of a fixed or extensible array and adds the chunk it describes.
    fn add_element(&mut self, cursor: &mut Cursor<'_>, length: usize, place: &[u64]) -> Result<()> {
        let start = cursor.position();
        let address = cursor.address()?;
        let (stored, mask) = if self.filtered {
            // The size takes what the address and the mask leave of the element.
            let width = length.checked_sub(self.image.widths.address + 4);
            let width = width.ok_or_else(|| cursor.error("its elements are too short"))?;
            (cursor.integer(width)?, cursor.u32()?)
        } else {
            (self.grid.bytes, 0)
        };
        if cursor.position() - start != length {
            return Err(cursor.error("its elements are too long"));
        }
        match address {
            Some(address) => self.add(place, address, stored, mask),
            None => Ok(()),
        }
    }

    fn tree1(&mut self, root: u64) -> Result<()> {
        let (image, grid) = (self.image, self.grid);
        let mut place = vec![0; grid.rank()];
        version1::walk(image, root, Contents::Chunks { rank: grid.rank() }, |key, address| {
            let (length, mask) = (key.u32()?, key.u32()?);
            for (place, &size) in place.iter_mut().zip(grid.chunk()) {
                let first = key.u64()?;
                if first % size != 0 {
                    return Err(key.error("a chunk does not begin where chunks can"));
                }
                *place = first / size;
            }
            self.add(&place, address, length.into(), mask)
        })
    }

    fn tree2(&mut self, root: u64) -> Result<()> {
        let (image, rank) = (self.image, self.grid.rank());
        let tree = Tree::read(image, root)?;
        let fixed = image.widths.address + 8 * rank + if self.filtered { 4 } else { 0 };
        let width = tree.record_length().checked_sub(fixed);
        let expected = if self.filtered { FILTERED_CHUNKS } else { PLAIN_CHUNKS };
        let (Some(width), true) = (width, tree.kind() == expected) else {
            return Err(Error::malformed("the B-tree does not list chunks of this dataset")
                .with_offset(image.offset(root)));
        };
        let mut place = vec![0; rank];
        tree.walk(image, |record| {
            let address = record.place()?;
            let (length, mask) = match self.filtered {
                true => (record.integer(width)?, record.u32()?),
                false => (self.grid.bytes, 0),
            };
            for place in &mut place {
                *place = record.u64()?;
            }
            self.add(&place, address, length, mask)
        })
    }

    /// Chunks one after the other, in the order of the grid at its largest.
    fn implicit(&mut self, first: u64) -> Result<()> {
        let grid = self.grid;
        let count = grid.count();
        // Every chunk has its bytes in the file, which bounds their number.
        self.image.span(first, count.saturating_mul(grid.bytes))?;
        let mut place = vec![0; grid.rank()];
        for number in 0..count {
            grid.place(number, &mut place);
            let position = grid.number_at_largest(&place);
            let address = position
                .and_then(|position| position.checked_mul(grid.bytes))
                .and_then(|bytes| bytes.checked_add(first));
            let address = address.ok_or_else(|| Error::malformed("a chunk lies beyond all addresses"))?;
            self.add(&place, address, grid.bytes, 0)?;
        }
        Ok(())
    }
}
