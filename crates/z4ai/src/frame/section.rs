//! A section: up to 64 MiB of the data with one model, cut into independently coded blocks. Its header carries the length and the checksum of
//! every block, so any block can be found and decoded without the others.

use super::wire::{Reader, put_length};
use super::{MAX_SECTION, checksum};
use crate::error::{Error, ErrorKind, Result};

/// What a section of one stored block takes besides its data, at most.
pub(crate) const STORED_OVERHEAD: usize = 24;
/// How much longer than its data a section's model and blocks may be; an encoder stores data that does not shrink.
const MAX_EXPANSION: usize = 4096;
/// The longest section: its data, and at most this for a table of as many blocks as a section can have.
pub(crate) const MAX_ENCODED: usize = 2 * MAX_SECTION;

/// A section's header with the extents of its parts in the frame.
#[derive(Debug, Clone)]
pub(crate) struct Section<'a> {
    /// Decoded bytes.
    pub length: usize,
    /// Decoded bytes per block; the last may have fewer.
    pub block_length: usize,
    /// The shared model of the blocks.
    pub model: &'a [u8],
    /// The blocks' encoded bytes.
    pub blocks: Vec<Block<'a>>,
}

/// One encoded block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub payload: &'a [u8],
    /// Of the decoded bytes.
    pub checksum: u32,
}

/// Appends a section.
pub(crate) fn write(
    length: usize,
    block_length: usize,
    model: &[u8],
    blocks: &[(Vec<u8>, u32)],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    put_length(out, length);
    // A single block, which small tensors have, needs no length of its own.
    put_length(out, if block_length == length { 0 } else { block_length });
    put_length(out, model.len());
    for (payload, _) in blocks {
        put_length(out, payload.len());
    }
    for (_, sum) in blocks {
        out.extend_from_slice(&sum.to_le_bytes());
    }
    out.extend_from_slice(model);
    let sum = checksum(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
    for (payload, _) in blocks {
        out.extend_from_slice(payload);
    }
}

/// Appends the mark that no more sections follow, for frames whose header does not have the length.
pub(crate) fn write_end(out: &mut Vec<u8>) {
    put_length(out, 0);
}

impl<'a> Section<'a> {
    /// Reads the next section; `None` is the end mark.
    pub fn read(reader: &mut Reader<'a>) -> Result<Option<Self>> {
        let start = *reader;
        let length = reader.length()?;
        if length == 0 {
            return Ok(None);
        }
        let block_length = match reader.length()? {
            0 => length,
            several if several < length => several,
            _ => return Err(Error::corrupt("a section's block length is out of range")),
        };
        if length > MAX_SECTION {
            return Err(Error::corrupt(format!("a section of {length} bytes exceeds the format's limit")));
        }
        let model_length = reader.length()?;
        let count = length.div_ceil(block_length);
        // Every block takes at least one byte for its length and four for its checksum.
        if count > reader.remaining() / 5 {
            return Err(Error::truncated("block table"));
        }
        let lengths = (0..count).map(|_| reader.length()).collect::<Result<Vec<usize>>>()?;
        let encoded = lengths.iter().try_fold(model_length, |sum, &length| sum.checked_add(length));
        if encoded.is_none_or(|encoded| encoded > length + MAX_EXPANSION) {
            return Err(Error::corrupt("a section is longer than its own data"));
        }
        let sums = reader.take(4 * count)?;
        let model = reader.take(model_length)?;
        let covered = reader.position() - start.position();
        let sum = checksum(start.peek().get(..covered).unwrap_or_default());
        if reader.u32()? != sum {
            return Err(Error::new(
                ErrorKind::ChecksumMismatch,
                "a section header's checksum does not match",
            ));
        }
        let mut blocks = Vec::with_capacity(count);
        for (length, sum) in lengths.into_iter().zip(sums.chunks_exact(4)) {
            let checksum = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
            blocks.push(Block { payload: reader.take(length)?, checksum });
        }
        Ok(Some(Self { length, block_length, model, blocks }))
    }

    /// Decoded bytes of block `index`.
    pub fn decoded_block_length(&self, index: usize) -> usize {
        self.block_length.min(self.length.saturating_sub(index.saturating_mul(self.block_length)))
    }
}
