//! A section: up to 256 MiB of the data with one model, cut into independently coded blocks. Its header
//! carries the length and the checksum of every block, so any block can be found and decoded without the
//! others.

use super::wire::{Reader, put_length};
use super::{MAX_SECTION, STORED, checksum};
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// The first field of the short forms of a section; of any other it is larger.
const CLOSING: usize = 0;
const CLOSING_STORED: usize = 1;
/// The model of data as it is.
pub(super) const STORED_MODEL: [u8; 1] = [STORED];
/// How much longer than its data a section's model and blocks may be; an encoder stores data that does not
/// shrink.
const MAX_EXPANSION: usize = 4096;
/// The longest section: its data, and at most this for a table of as many blocks as a section can have.
pub(crate) const MAX_ENCODED: usize = 2 * MAX_SECTION;

/// What a section's header says: how its data is cut into blocks, and where these are in the frame.
#[derive(Debug, Clone)]
pub(crate) struct SectionHead {
    /// Where the section begins in the decoded data.
    pub start: u64,
    /// Decoded bytes.
    pub length: usize,
    /// Decoded bytes of the blocks; what the copies restore is missing.
    pub original_length: usize,
    /// Stretches of the data that repeat originals.
    pub copies: Vec<Copy>,
    /// Decoded bytes per block; the last may have fewer.
    pub block_length: usize,
    /// Where the shared model of the blocks is in the frame; `None` for that of stored data.
    pub model: Option<Range<u64>>,
    pub blocks: Vec<BlockEntry>,
    /// Where the first block is in the frame; the others follow it.
    pub blocks_start: u64,
}

/// A section with those of its bytes that are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Section<'a> {
    pub head: &'a SectionHead,
    /// The shared model of the blocks.
    pub model: &'a [u8],
    /// The encoded bytes of each block.
    pub payloads: Vec<&'a [u8]>,
}

impl std::ops::Deref for Section<'_> {
    type Target = SectionHead;

    fn deref(&self) -> &SectionHead {
        self.head
    }
}

/// A stretch of the data that equals a stretch of the originals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copy {
    /// Originals between the end of the last copy (or the start of the section) and this one.
    pub gap: usize,
    pub length: usize,
    /// Where in the originals.
    pub source: usize,
}

/// What a section's header says, apart from its blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outline<'a> {
    /// Bytes that the blocks decode to; copies make the rest.
    pub length: usize,
    /// Whether it is the last section of a frame that has its length in the header.
    pub closing: bool,
    pub copies: &'a [Copy],
    pub block_length: usize,
    pub model: &'a [u8],
}

/// The length of an encoded block and the checksum of what it decodes to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockEntry {
    pub length: usize,
    pub checksum: u32,
}

impl Outline<'_> {
    /// Appends a section whose blocks `fill` appends. They are written to where they most likely belong,
    /// behind a header that is not known before them, and moved if that was wrong.
    pub fn write(
        self,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<Vec<BlockEntry>>,
    ) -> Result<()> {
        let start = out.len();
        // Floats shrink to two thirds; only the number of digits matters here.
        let likely = BlockEntry { length: self.block_length / 3 * 2, checksum: 0 };
        let room = self.header(&vec![likely; self.length.div_ceil(self.block_length)]).len();
        out.resize(start + room, 0);
        let entries = fill(out)?;
        out.splice(start..start + room, self.header(&entries));
        Ok(())
    }

    fn header(&self, blocks: &[BlockEntry]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.model.len() + 16 + 8 * blocks.len());
        if let ([block], [], true) = (blocks, self.copies, self.closing) {
            self.write_closing_header(*block, &mut out);
            return out;
        }
        let copied: usize = self.copies.iter().map(|copy| copy.length).sum();
        put_length(&mut out, (self.length + copied) << 1 | usize::from(!self.copies.is_empty()));
        if !self.copies.is_empty() {
            put_length(&mut out, self.copies.len());
            for copy in self.copies {
                [copy.gap, copy.length, copy.source]
                    .into_iter()
                    .for_each(|field| put_length(&mut out, field));
            }
        }
        // A single block, which small tensors have, needs no length of its own.
        put_length(&mut out, if self.block_length == self.length { 0 } else { self.block_length });
        put_length(&mut out, self.model.len());
        blocks.iter().for_each(|block| put_length(&mut out, block.length));
        blocks.iter().for_each(|block| out.extend_from_slice(&block.checksum.to_le_bytes()));
        out.extend_from_slice(self.model);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The short form, which most tensors have: one block with all the data that is left. Whatever may be
    /// wrong with it shows in the block's checksum.
    fn write_closing_header(&self, block: BlockEntry, out: &mut Vec<u8>) {
        let is_stored = self.model == STORED_MODEL;
        put_length(out, if is_stored { CLOSING_STORED } else { CLOSING });
        if !is_stored {
            put_length(out, self.model.len());
            put_length(out, block.length);
        }
        out.extend_from_slice(&block.checksum.to_le_bytes());
        if !is_stored {
            out.extend_from_slice(self.model);
        }
    }
}

/// Appends the mark that no more sections follow, for frames whose header does not have the length.
pub(crate) fn write_end(out: &mut Vec<u8>) {
    put_length(out, 0);
}

impl SectionHead {
    /// Reads the header of the next section, which begins at byte `at` of the frame and `start` of the data;
    /// `None` is the end mark. `left` is how much data the frame still has to give, if its header says. The
    /// reader is left where the blocks begin; nothing of them is looked at.
    pub fn read(reader: &mut Reader, at: u64, start: u64, left: Option<u64>) -> Result<Option<Self>> {
        let begin = *reader;
        let at = at - begin.position() as u64;
        let length = reader.length()?;
        if length <= CLOSING_STORED
            && let Some(left) = left
        {
            return Self::read_closing(reader, at, start, left, length == CLOSING_STORED).map(Some);
        }
        if length == 0 {
            return Ok(None);
        }
        let (length, has_copies) = (length >> 1, length & 1 == 1);
        check_length(length)?;
        let copies = if has_copies { read_copies(reader, length)? } else { Vec::new() };
        let original_length = length - copies.iter().map(|copy| copy.length).sum::<usize>();
        let block_length = match reader.length()? {
            0 => original_length,
            several if several < original_length => several,
            _ => return Err(Error::corrupt("a section's block length is out of range")),
        };
        let model_length = reader.length()?;
        let count = original_length.div_ceil(block_length);
        // Every block takes at least one byte for its length and four for its checksum.
        if count > reader.remaining() / 5 {
            return Err(Error::truncated("block table"));
        }
        let lengths = (0..count).map(|_| reader.length()).collect::<Result<Vec<usize>>>()?;
        let encoded = lengths.iter().try_fold(model_length, |sum, &length| sum.checked_add(length));
        check_encoded(encoded, original_length)?;
        let sums = reader.take(4 * count)?;
        let model = at + reader.position() as u64;
        reader.take(model_length)?;
        let covered = reader.position() - begin.position();
        let sum = checksum(begin.peek().get(..covered).unwrap_or_default());
        if reader.u32()? != sum {
            return Err(Error::new(
                ErrorKind::ChecksumMismatch,
                "a section header's checksum does not match",
            ));
        }
        let entry = |(length, sum): (usize, &[u8])| BlockEntry {
            length,
            checksum: u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]),
        };
        let blocks = lengths.into_iter().zip(sums.chunks_exact(4)).map(entry).collect();
        let (model, blocks_start) = (Some(model..model + model_length as u64), at + reader.position() as u64);
        Ok(Some(Self { start, length, original_length, copies, block_length, model, blocks, blocks_start }))
    }

    /// Reads what follows the first byte of the short form.
    fn read_closing(reader: &mut Reader, at: u64, start: u64, left: u64, stored: bool) -> Result<Self> {
        let length = usize::try_from(left).unwrap_or(usize::MAX);
        check_length(length)?;
        let (model_length, block_length) =
            if stored { (0, length) } else { (reader.length()?, reader.length()?) };
        check_encoded(model_length.checked_add(block_length), length)?;
        let blocks = vec![BlockEntry { length: block_length, checksum: reader.u32()? }];
        let model = at + reader.position() as u64;
        reader.take(model_length)?;
        let (original_length, copies, blocks_start) = (length, Vec::new(), at + reader.position() as u64);
        let model = (!stored).then_some(model..blocks_start);
        Ok(Self { start, length, original_length, copies, block_length: length, model, blocks, blocks_start })
    }

    /// Where the section ends in the decoded data.
    pub fn data_end(&self) -> u64 {
        self.start.saturating_add(self.length as u64)
    }

    /// Encoded bytes of all blocks.
    pub fn blocks_length(&self) -> u64 {
        self.blocks.iter().map(|block| block.length as u64).sum()
    }

    /// Where the section ends in the frame.
    pub fn end(&self) -> u64 {
        self.blocks_start.saturating_add(self.blocks_length())
    }

    /// The section in a frame that is in memory.
    pub fn of_frame<'a>(&'a self, frame: &'a [u8]) -> Result<Section<'a>> {
        let take = |range: Range<u64>| -> Result<&'a [u8]> {
            let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
            let bytes = range.and_then(|(start, end)| frame.get(start..end));
            bytes.ok_or_else(|| Error::truncated("sections"))
        };
        let model = self.model.clone().map_or(Ok(&STORED_MODEL[..]), take)?;
        let mut place = self.blocks_start;
        let payloads = self.blocks.iter().map(|block| {
            let start = place;
            place = place.saturating_add(block.length as u64);
            take(start..place)
        });
        Ok(Section { head: self, model, payloads: payloads.collect::<Result<_>>()? })
    }

    /// Decoded bytes of block `index`.
    pub fn decoded_block_length(&self, index: usize) -> usize {
        self.block_length.min(self.original_length.saturating_sub(index.saturating_mul(self.block_length)))
    }

    /// For each block, whether `range` of the data needs it.
    pub fn needed(&self, range: Range<usize>) -> Vec<bool> {
        let mut needed = vec![false; self.blocks.len()];
        for source in self.sources(range) {
            let blocks = source.start / self.block_length..source.end.div_ceil(self.block_length);
            needed.get_mut(blocks).unwrap_or_default().fill(true);
        }
        needed
    }

    /// The stretches of the originals, none of them empty, that make up `range` of the data, in order.
    pub fn sources(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut position, mut kept) = (0, 0);
        let mut sources = Vec::new();
        let mut add = |position: usize, source: usize, length: usize| {
            let start = range.start.clamp(position, position + length) - position;
            let end = range.end.clamp(position, position + length) - position;
            if start < end {
                sources.push(source + start..source + end);
            }
        };
        for copy in &self.copies {
            add(position, kept, copy.gap);
            add(position + copy.gap, copy.source, copy.length);
            (position, kept) = (position + copy.gap + copy.length, kept + copy.gap);
        }
        add(position, kept, self.length - position);
        sources
    }
}

/// Fails unless a section may decode to so many bytes.
fn check_length(length: usize) -> Result<()> {
    if (1..=MAX_SECTION).contains(&length) {
        return Ok(());
    }
    Err(Error::corrupt(format!("a section of {length} bytes is outside the format's limits")))
}

/// Fails unless the model and the blocks of a section may take so many bytes together.
fn check_encoded(encoded: Option<usize>, original_length: usize) -> Result<()> {
    if encoded.is_some_and(|encoded| encoded <= original_length + MAX_EXPANSION) {
        return Ok(());
    }
    Err(Error::corrupt("a section is longer than its own data"))
}

/// Reads the copies of a section of `length` bytes: they leave some originals, and lie inside these.
fn read_copies(reader: &mut Reader, length: usize) -> Result<Vec<Copy>> {
    let count = reader.length()?;
    if count == 0 || count > reader.remaining() / 3 {
        return Err(Error::truncated("table of copies"));
    }
    let mut copies = Vec::with_capacity(count);
    let (mut gaps, mut copied) = (0usize, 0usize);
    for _ in 0..count {
        let copy = Copy { gap: reader.length()?, length: reader.length()?, source: reader.length()? };
        gaps = gaps.saturating_add(copy.gap);
        copied = copied.saturating_add(copy.length);
        copies.push(copy);
    }
    let originals = length.checked_sub(copied).filter(|&originals| originals > 0 && gaps <= originals);
    let inside = |copy: &Copy| {
        let end = copy.source.checked_add(copy.length);
        copy.length > 0 && end.zip(originals).is_some_and(|(end, originals)| end <= originals)
    };
    if copies.iter().all(inside) { Ok(copies) } else { Err(Error::corrupt("a copy outside its section")) }
}
