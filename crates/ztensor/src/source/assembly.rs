//! A file put together from pieces that are decoded when they are read, such as the original of an archive. A parser reads it like any other
//! source.

use std::sync::Arc;

use crate::error::{Error, Result};

/// Something that can produce any range of its bytes.
pub(crate) trait Piece: Send + Sync {
    /// The number of bytes.
    fn length(&self) -> u64;
    /// Bytes it takes where it is stored.
    fn stored(&self) -> u64;
    /// Whether its bytes are at hand, so that reading some of them costs no more than those.
    fn is_at_hand(&self) -> bool {
        false
    }
    /// Produces the bytes from `start` on, as many as the buffer takes.
    fn read(&self, start: u64, out: &mut [u8]) -> Result<()>;
}

/// Pieces one after the other.
pub(crate) struct Assembly {
    /// Start of each piece, ascending from 0, with the piece.
    pieces: Vec<(u64, Arc<dyn Piece>)>,
    length: u64,
}

impl Assembly {
    pub(crate) fn new(parts: Vec<Arc<dyn Piece>>) -> Result<Assembly> {
        let mut pieces = Vec::with_capacity(parts.len());
        let mut length = 0u64;
        for piece in parts {
            let next = length
                .checked_add(piece.length())
                .ok_or_else(|| Error::malformed("the pieces are longer than a file can be"))?;
            pieces.push((length, piece));
            length = next;
        }
        Ok(Assembly { pieces, length })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Fills a buffer from `offset` on; the caller has checked the range.
    pub(crate) fn read(&self, offset: u64, mut out: &mut [u8]) -> Result<()> {
        let mut position = offset;
        for (start, piece) in self.pieces.iter().skip(self.piece_at(offset)) {
            if out.is_empty() {
                break;
            }
            let within = position - start;
            let count = usize::try_from(piece.length() - within).unwrap_or(usize::MAX).min(out.len());
            let (now, later) = std::mem::take(&mut out).split_at_mut(count);
            piece.read(within, now)?;
            position += count as u64;
            out = later;
        }
        if out.is_empty() { Ok(()) } else { Err(Error::truncated("the pieces end early")) }
    }

    /// Bytes from `offset` on that are best read at once: whole pieces up to about `size`, or so much of a larger one.
    pub(crate) fn window(&self, offset: u64, size: u64) -> u64 {
        let mut end = offset;
        for (start, piece) in self.pieces.iter().skip(self.piece_at(offset)) {
            let next = start + piece.length();
            if next - offset > size {
                return if end > offset { end - offset } else { size };
            }
            end = next;
        }
        end - offset
    }

    /// Bytes at the front that are at hand.
    pub(crate) fn front(&self) -> u64 {
        self.pieces.iter().take_while(|(_, piece)| piece.is_at_hand()).map(|(_, piece)| piece.length()).sum()
    }

    /// Bytes that the pieces of a range take where they are stored.
    pub(crate) fn stored(&self, offset: u64, length: u64) -> u64 {
        let end = offset.saturating_add(length);
        let pieces = self.pieces.iter().skip(self.piece_at(offset));
        pieces.take_while(|(start, _)| *start < end).map(|(_, piece)| piece.stored()).sum()
    }

    /// The number of the piece that holds the byte at `offset`.
    fn piece_at(&self, offset: u64) -> usize {
        self.pieces.partition_point(|(start, piece)| start + piece.length() <= offset)
    }
}
