//! A file put together from pieces that are decoded when they are read, such as the original of an archive. A parser reads it like any other
//! source.

use std::sync::Arc;

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Pieces of so many bytes are worth decoding side by side.
const WORTH_A_THREAD: usize = 64 << 10;

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
    /// All bytes, if they are in memory as they are.
    fn held(&self) -> Option<&[u8]> {
        None
    }
    /// Produces the bytes from `start` on, as many as the buffer takes.
    fn read(&self, start: u64, out: &mut [u8]) -> Result<()>;
}

/// A piece that is in memory.
pub(crate) struct Held(pub(crate) Box<dyn AsRef<[u8]> + Send + Sync>);

impl Piece for Held {
    fn length(&self) -> u64 {
        (*self.0).as_ref().len() as u64
    }

    fn stored(&self) -> u64 {
        self.length()
    }

    fn is_at_hand(&self) -> bool {
        true
    }

    fn held(&self) -> Option<&[u8]> {
        Some((*self.0).as_ref())
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let part = (*self.0).as_ref().get(start as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(part.ok_or_else(|| Error::truncated("the memory became shorter"))?);
        Ok(())
    }
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

    /// Fills a buffer from `offset` on, several pieces at once; the caller has checked the range.
    pub(crate) fn read(&self, offset: u64, mut out: &mut [u8]) -> Result<()> {
        let mut position = offset;
        let mut parts = Vec::new();
        for (start, piece) in self.pieces.iter().skip(self.piece_at(offset)) {
            if out.is_empty() {
                break;
            }
            let within = position - start;
            let count = usize::try_from(piece.length() - within).unwrap_or(usize::MAX).min(out.len());
            let (now, later) = std::mem::take(&mut out).split_at_mut(count);
            parts.push((piece, within, now));
            position += count as u64;
            out = later;
        }
        if !out.is_empty() {
            return Err(Error::truncated("the pieces end early"));
        }
        // Nobody is woken for what is small or at hand.
        if parts.iter().filter(|(piece, _, out)| !piece.is_at_hand() && out.len() >= WORTH_A_THREAD).count()
            > 1
        {
            parts.into_par_iter().try_for_each(|(piece, within, out)| piece.read(within, out))
        } else {
            parts.into_iter().try_for_each(|(piece, within, out)| piece.read(within, out))
        }
    }

    /// Borrows a range that lies in one piece in memory.
    pub(crate) fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let (start, piece) = self.pieces.get(self.piece_at(offset))?;
        let within = usize::try_from(offset.checked_sub(*start)?).ok()?;
        piece.held()?.get(within..within.checked_add(usize::try_from(length).ok()?)?)
    }

    /// Bytes from `offset` on that are best read at once: whole pieces up to about `few`; of a larger piece as much as `most`.
    pub(crate) fn window(&self, offset: u64, few: u64, most: u64) -> u64 {
        let mut end = offset;
        for (start, piece) in self.pieces.iter().skip(self.piece_at(offset)) {
            let next = start + piece.length();
            if next - offset > few {
                return if end > offset { end - offset } else { (next - offset).min(most) };
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
