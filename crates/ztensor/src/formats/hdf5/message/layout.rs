//! Data layouts: where a dataset's bytes are.

use super::super::cursor::Cursor;
use super::dataspace::MOST_DIMENSIONS;
use crate::error::{Error, Result};

/// Where a dataset's bytes are.
#[derive(Debug)]
pub(in super::super) enum Layout {
    /// In the message itself, from this position on.
    Compact { position: usize, length: u64 },
    /// In one piece; without an address, nothing was written yet. The oldest versions leave the length to shape and type.
    Contiguous { address: Option<u64>, length: Option<u64> },
    /// In chunks.
    Chunked(ChunkedLayout),
}

/// How a dataset is cut into chunks and where their list is.
#[derive(Debug)]
pub(in super::super) struct ChunkedLayout {
    /// The dimensions of a chunk, in elements.
    pub dimensions: Vec<u64>,
    /// Bytes of an element.
    pub width: u64,
    /// Chunks that reach over the edge are stored without filters.
    pub plain_edges: bool,
    pub list: ChunkList,
    /// Where the list is; without an address, there are no chunks yet.
    pub address: Option<u64>,
}

/// The ways to list chunks.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum ChunkList {
    Tree1,
    Single { filtered: Option<(u64, u32)> },
    Implicit,
    FixedArray,
    ExtensibleArray,
    Tree2,
}

impl Layout {
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Layout> {
        let version = cursor.version(1..=5)?;
        if version < 3 {
            return Layout::parse_old(cursor);
        }
        match (cursor.u8()?, version) {
            (0, _) => {
                let length = u64::from(cursor.u16()?);
                let position = cursor.position();
                cursor.skip(length as usize)?;
                Ok(Layout::Compact { position, length })
            }
            (1, _) => Ok(Layout::Contiguous { address: cursor.address()?, length: Some(cursor.length()?) }),
            (2, 3) => {
                let rank = rank(cursor)?;
                let address = cursor.address()?;
                let dimensions = dimensions(cursor, rank, 4)?;
                let width = cursor.u32()?.into();
                let list = ChunkList::Tree1;
                Ok(Layout::Chunked(ChunkedLayout { dimensions, width, plain_edges: false, list, address }))
            }
            (2, _) => {
                let flags = cursor.u8()?;
                let rank = rank(cursor)?;
                let bytes = usize::from(cursor.u8()?);
                let dimensions = dimensions(cursor, rank, bytes)?;
                let width = cursor.integer(bytes)?;
                let list = chunk_list(cursor, flags)?;
                let address = cursor.address()?;
                let plain_edges = flags & 1 != 0;
                Ok(Layout::Chunked(ChunkedLayout { dimensions, width, plain_edges, list, address }))
            }
            (3, _) => Err(Error::unsupported("a virtual dataset, put together from other datasets")),
            _ => Err(cursor.error("its class is unknown")),
        }
    }

    /// Versions 1 and 2, which the library wrote until 1.6.2 and reads to this day. Their dimensions have 32 bits: of a dataset in one piece they may have
    /// lost some, so the dataspace counts.
    fn parse_old(cursor: &mut Cursor<'_>) -> Result<Layout> {
        let dimensionality = usize::from(cursor.u8()?);
        let class = cursor.u8()?;
        cursor.skip(5)?;
        if dimensionality > MOST_DIMENSIONS + 1 {
            return Err(cursor.error("it has more than 32 dimensions"));
        }
        match class {
            0 => {
                cursor.skip(4 * dimensionality)?;
                let length = u64::from(cursor.u32()?);
                let position = cursor.position();
                cursor.skip(length as usize)?;
                Ok(Layout::Compact { position, length })
            }
            1 => {
                let address = cursor.address()?;
                cursor.skip(4 * dimensionality)?;
                Ok(Layout::Contiguous { address, length: None })
            }
            2 => {
                let address = cursor.address()?;
                if dimensionality < 2 {
                    return Err(cursor.error("chunks have no dimensions or more than 32"));
                }
                let dimensions = dimensions(cursor, dimensionality - 1, 4)?;
                let width = cursor.u32()?.into();
                let list = ChunkList::Tree1;
                Ok(Layout::Chunked(ChunkedLayout { dimensions, width, plain_edges: false, list, address }))
            }
            _ => Err(cursor.error("its class is unknown")),
        }
    }
}

/// The number of dimensions of a chunk, not counting the one the format adds for the bytes of an element.
fn rank(cursor: &mut Cursor<'_>) -> Result<usize> {
    match usize::from(cursor.u8()?) {
        rank @ 2.. if rank <= MOST_DIMENSIONS + 1 => Ok(rank - 1),
        _ => Err(cursor.error("chunks have no dimensions or more than 32")),
    }
}

fn dimensions(cursor: &mut Cursor<'_>, rank: usize, bytes: usize) -> Result<Vec<u64>> {
    let dimensions = (0..rank).map(|_| cursor.integer(bytes)).collect::<Result<Vec<_>>>()?;
    if dimensions.contains(&0) {
        return Err(cursor.error("a dimension of the chunks is zero"));
    }
    Ok(dimensions)
}

/// The sizes that follow some of the types repeat what the lists' own headers say.
fn chunk_list(cursor: &mut Cursor<'_>, flags: u8) -> Result<ChunkList> {
    Ok(match cursor.u8()? {
        1 => {
            let filtered = if flags & 2 != 0 { Some((cursor.length()?, cursor.u32()?)) } else { None };
            ChunkList::Single { filtered }
        }
        2 => ChunkList::Implicit,
        3 => {
            cursor.skip(1)?;
            ChunkList::FixedArray
        }
        4 => {
            cursor.skip(5)?;
            ChunkList::ExtensibleArray
        }
        5 => {
            cursor.skip(6)?;
            ChunkList::Tree2
        }
        _ => return Err(cursor.error("the list of chunks is of an unknown type")),
    })
}
