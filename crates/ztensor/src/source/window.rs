//! Reading ahead. [`Ahead`] is what parsers walk over a source with: they ask for the next few bytes, and
//! never know whether these lie in memory or come with those behind them. [`Window`] stands below, in front
//! of a network: small reads, of whomever, are answered from a few larger ones that are kept. Where each read
//! costs a round trip, this is the difference between two requests for an index and two thousand.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use super::Source;
use crate::error::Result;

/// The first read around a place that nothing is known of. Headers of 300 tensors fit; a slice costs no more
/// than this beside its own bytes.
const FIRST: u64 = 64 << 10;
/// The first read at the end of a file, where `.zt` and zip keep their directories: 300 tensors take about 60
/// KB there.
const TAIL: u64 = 128 << 10;
/// A parser that walks on gets twice as much each time, up to this: the vocabulary in a GGUF header takes
/// megabytes.
const LONGEST: u64 = 4 << 20;
/// Reads of this size are requests of their own: nothing is gained by keeping them.
const LARGE: usize = 512 << 10;
/// Bytes that are kept.
const KEPT: usize = 8 << 20;

/// A parser's place in a source, with the bytes around it: all of them where they are in the address space,
/// otherwise those that were read at once.
pub(crate) struct Ahead<'a> {
    source: &'a Source,
    bytes: Cow<'a, [u8]>,
    /// Where the bytes begin in the source.
    start: u64,
    /// Where the parser stands in the bytes.
    position: usize,
    /// Bytes that are read at once at a new place, and the next time if the parser walks on.
    first: u64,
    next: u64,
    /// Where the bytes at hand end at the latest.
    most: u64,
}

impl<'a> Ahead<'a> {
    /// Reads `first` bytes at once to begin with.
    pub(crate) fn new(source: &'a Source, first: u64) -> Ahead<'a> {
        Ahead::within(source, first, source.len())
    }

    /// The same for a parser that is to go no further than to `most`: what lies behind is never at hand.
    pub(crate) fn within(source: &'a Source, first: u64, most: u64) -> Ahead<'a> {
        let most = most.min(source.len());
        let there = if source.is_addressable() { source.slice(0, most) } else { None };
        let bytes = Cow::Borrowed(there.unwrap_or_default());
        Ahead { source, bytes, start: 0, position: 0, first, next: first, most }
    }

    /// The offset in the source of the next byte.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.start + self.position as u64
    }

    /// Bytes from here on that need no read.
    #[inline]
    pub(crate) fn at_hand(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// The next bytes, which must be at hand.
    #[inline]
    pub(crate) fn take(&mut self, length: u64) -> &[u8] {
        let begin = self.position;
        self.position += length as usize;
        &self.bytes[begin..self.position]
    }

    /// Reads on until so many bytes are at hand.
    #[cold]
    pub(crate) fn read_on(&mut self, length: u64) -> Result<()> {
        self.refill(self.offset(), length)
    }

    /// A range of the source; the place after it is the next.
    #[inline]
    pub(crate) fn bytes(&mut self, offset: u64, length: u64) -> Result<&[u8]> {
        match offset.checked_sub(self.start).filter(|position| *position <= self.bytes.len() as u64) {
            Some(position) => self.position = position as usize,
            None => self.refill(offset, length)?,
        }
        if length > self.at_hand() {
            self.read_on(length)?;
        }
        // So many bytes are at hand, so that the length fits `usize`.
        Ok(self.take(length))
    }

    /// Reads so many bytes from an offset on, which becomes the place, and more behind them.
    #[cold]
    fn refill(&mut self, offset: u64, length: u64) -> Result<()> {
        self.source.check(offset, length)?;
        let end = self.start + self.bytes.len() as u64;
        let walks_on = !self.bytes.is_empty() && (self.start..=end).contains(&offset);
        self.next =
            if walks_on { self.next.saturating_mul(2).min(LONGEST.max(self.first)) } else { self.first };
        let until = offset.saturating_add(self.next).min(self.most).max(offset + length);
        let mut bytes = std::mem::take(&mut self.bytes).into_owned();
        // What is here already is not read again.
        match walks_on {
            true => drop(bytes.drain(..(offset - self.start) as usize)),
            false => bytes.clear(),
        }
        (self.start, self.position) = (offset, 0);
        let here = bytes.len();
        let more = self.source.bytes(offset + here as u64, until - offset - here as u64)?;
        match here {
            0 => bytes = more.into_owned(),
            _ => bytes.extend_from_slice(&more),
        }
        self.bytes = Cow::Owned(bytes);
        Ok(())
    }
}

/// Pieces of a file that were read, and how far to read ahead.
pub(super) struct Window {
    length: u64,
    pieces: Mutex<Vec<Piece>>,
}

struct Piece {
    offset: u64,
    bytes: Vec<u8>,
    /// What a read that goes on behind this piece fetches.
    ahead: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl Window {
    /// A window over a file of `length` bytes whose first ones, `head`, are known.
    pub(super) fn new(length: u64, head: Vec<u8>) -> Window {
        let pieces =
            if head.is_empty() { Vec::new() } else { vec![Piece { offset: 0, bytes: head, ahead: FIRST }] };
        Window { length, pieces: Mutex::new(pieces) }
    }

    /// Fills `buffer` from `offset` on, with `fetch` for what is not known yet. The caller has checked the
    /// range.
    pub(super) fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        fetch: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let known = self.copy_known(offset, buffer);
        let (offset, buffer) = (offset + known as u64, &mut buffer[known..]);
        if buffer.is_empty() {
            return Ok(());
        }
        if buffer.len() >= LARGE {
            return fetch(offset, buffer);
        }
        let (start, end, ahead) = self.plan(offset, buffer.len() as u64);
        let mut bytes = vec![0; (end - start) as usize];
        // Not under the lock: readers of other places go on meanwhile.
        fetch(start, &mut bytes)?;
        let within = (offset - start) as usize;
        buffer.copy_from_slice(&bytes[within..within + buffer.len()]);
        self.keep(Piece { offset: start, bytes, ahead });
        Ok(())
    }

    /// Copies the bytes at the front of the range that some piece holds; returns how many.
    fn copy_known(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = 0;
        while known < buffer.len() {
            let position = offset + known as u64;
            let holds = |piece: &&Piece| piece.offset <= position && position < piece.end();
            let Some(piece) = pieces.iter().find(holds) else { break };
            let part = &piece.bytes[(position - piece.offset) as usize..];
            let count = part.len().min(buffer.len() - known);
            buffer[known..known + count].copy_from_slice(&part[..count]);
            known += count;
        }
        known
    }

    /// What to fetch for a range: its start, its end, and how far to read when the next one follows it.
    fn plan(&self, offset: u64, length: u64) -> (u64, u64, u64) {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = |piece: &&Piece| piece.end() <= offset && offset - piece.end() <= FIRST / 4;
        let ahead = pieces.iter().filter(follows).map(|piece| (piece.ahead * 2).min(LONGEST)).max();
        let end = offset.saturating_add(length.max(ahead.unwrap_or(FIRST))).min(self.length);
        if end < self.length || ahead.is_some() {
            return (offset, end, ahead.unwrap_or(FIRST));
        }
        // The end of the file: what lies before it comes along, down to what is known.
        let known = pieces.iter().map(Piece::end).filter(|end| *end <= offset).max().unwrap_or(0);
        (self.length.saturating_sub(TAIL).max(known).min(offset), end, FIRST)
    }

    fn keep(&self, piece: Piece) {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.push(piece);
        let mut kept: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        while kept > KEPT && pieces.len() > 1 {
            kept -= pieces.remove(0).bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn file(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    /// Reads every range and checks it; returns what was fetched.
    fn fetches(length: usize, head: usize, ranges: &[(usize, usize)]) -> Vec<(u64, usize)> {
        let bytes = file(length);
        let fetched = Mutex::new(Vec::new());
        let window = Window::new(length as u64, bytes[..head].to_vec());
        for (offset, count) in ranges {
            let mut out = vec![0; *count];
            window
                .read(*offset as u64, &mut out, |at, buffer| {
                    fetched.lock().unwrap().push((at, buffer.len()));
                    buffer.copy_from_slice(&bytes[at as usize..at as usize + buffer.len()]);
                    Ok(())
                })
                .unwrap();
            assert!(out == bytes[*offset..offset + count], "{count} bytes at {offset}");
        }
        fetched.into_inner().unwrap()
    }

    #[test]
    fn parsers_get_what_they_ask_for_and_what_they_have_is_not_read_again() {
        struct Counted(Vec<u8>, std::sync::Arc<Mutex<Vec<(u64, usize)>>>);
        impl super::super::Ranges for Counted {
            fn length(&self) -> u64 {
                self.0.len() as u64
            }
            fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
                self.1.lock().unwrap().push((offset, buffer.len()));
                buffer.copy_from_slice(&self.0[offset as usize..offset as usize + buffer.len()]);
                Ok(())
            }
        }
        let bytes = file(9 << 20);
        let fetched = std::sync::Arc::default();
        let counted = Counted(bytes.clone(), std::sync::Arc::clone(&fetched));
        let sources = [
            Source::from_bytes(bytes.clone()),
            Source::from_ranges(Box::new(counted), "s3://b/k", bytes[..65_536].to_vec()),
        ];
        for source in &sources {
            let mut ahead = Ahead::new(source, 1 << 20);
            let mut walk: Vec<(usize, usize)> = (0..3000).map(|i| (i * 1000, 1000)).collect();
            walk.extend([(2_999_000, 8), (100, 50), (8_000_000, 1 << 20), (9 << 20, 0), (0, 3 << 20)]);
            for (offset, length) in walk {
                let found = ahead.bytes(offset as u64, length as u64).unwrap();
                assert!(found == &bytes[offset..offset + length], "{length} bytes at {offset}");
            }
            assert!(ahead.bytes(9 << 20, 1).is_err());
            assert!(ahead.bytes(u64::MAX, 2).is_err());
        }
        let fetched = fetched.lock().unwrap();
        let (walked, after) = fetched.split_at(2);
        assert_eq!(walked, [(65_536, (1 << 20) - 65_536), (1 << 20, (2 << 20) - 576)]);
        assert!(after.len() <= 6, "{after:?}");
    }

    #[test]
    fn small_reads_in_the_head_cost_nothing() {
        assert_eq!(fetches(1 << 20, 65_536, &[(0, 8), (8, 40_000), (65_535, 1)]), []);
    }

    #[test]
    fn a_directory_at_the_end_is_one_fetch() {
        let length = 1 << 20;
        let reads = [(length - 16, 16), (length - 60_016, 60_000)];
        assert_eq!(fetches(length, 65_536, &reads), [((length - (128 << 10)) as u64, 128 << 10)]);
    }

    #[test]
    fn walking_on_reads_further_ahead_each_time() {
        let reads: Vec<(usize, usize)> = (0..8000).map(|i| (i * 1000, 1000)).collect();
        let fetched = fetches(8_000_000, 65_536, &reads);
        assert!(fetched.len() <= 8, "{fetched:?}");
    }

    #[test]
    fn large_reads_go_straight_through() {
        assert_eq!(fetches(4 << 20, 1000, &[(0, 2 << 20)]), [(1000, (2 << 20) - 1000)]);
    }

    #[test]
    fn a_range_over_two_pieces_and_a_gap_is_whole() {
        fetches(1 << 20, 1000, &[(900, 200), (70_000, 10), (500, 100_000), (0, 400_000)]);
    }
}
