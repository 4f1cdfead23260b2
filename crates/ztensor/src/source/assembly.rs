//! A file put together from pieces that are decoded when they are read, such as the original of an archive. A parser reads it like any other
//! source.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::limits::Meter;
use crate::source::Source;

/// Pieces of so many bytes are worth decoding side by side.
const WORTH_A_THREAD: usize = 64 << 10;
/// What is decoded at once for a parser, which reads little and often, and how many of these windows are kept.
const WINDOW: u64 = 4 << 20;
const KEPT: usize = 16;

/// Something that can produce any range of its bytes.
pub trait Piece: Send + Sync {
    /// The number of bytes.
    fn length(&self) -> u64;
    /// Bytes it takes where it is stored.
    fn stored(&self) -> u64;
    /// How it is stored, in one word.
    fn encoding(&self) -> &'static str {
        "raw"
    }
    /// How it is computed from other bytes, in a few words, if it is.
    fn recipe(&self) -> Option<String> {
        None
    }
    /// Bytes that stand behind it, where it is stored and elsewhere: what a file is measured by that decodes to very much.
    fn weight(&self) -> u64 {
        self.stored()
    }
    /// Bytes that have to be decoded, or looked at, to read some of them.
    fn cost(&self, start: u64, length: u64) -> Result<u64>;
    /// Whether its bytes are at hand, so that reading some of them costs no more than those.
    fn is_at_hand(&self) -> bool {
        false
    }
    /// All bytes, if they are in memory as they are.
    fn held(&self) -> Option<&[u8]> {
        None
    }
    /// How many bytes from `start` on are best read at once by who reads all of it: at most `most`, or all that are left.
    fn window(&self, start: u64, most: u64) -> u64 {
        self.length().saturating_sub(start).min(most)
    }
    /// Produces the bytes from `start` on, as many as the buffer takes.
    fn read(&self, start: u64, out: &mut [u8]) -> Result<()>;
    /// Says which ranges of which files it will read when all of it is wanted.
    fn announce(&self, announcement: &mut Announcement) {
        let _ = announcement;
    }
}

/// Ranges of files that will be read.
#[derive(Default)]
pub struct Announcement {
    files: Vec<(Arc<Source>, Vec<Range<u64>>)>,
}

impl Announcement {
    /// Adds a range of a file.
    pub fn add(&mut self, file: &Arc<Source>, range: Range<u64>) {
        match self.files.iter_mut().find(|(known, _)| Arc::ptr_eq(known, file)) {
            Some((_, ranges)) => ranges.push(range),
            None => self.files.push((Arc::clone(file), vec![range])),
        }
    }

    /// Tells the files.
    pub(crate) fn send(self) {
        self.files.into_iter().for_each(|(file, ranges)| file.announce(ranges));
    }
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

    fn cost(&self, _start: u64, _length: u64) -> Result<u64> {
        Ok(0)
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
    /// Counts what parsers make it decode.
    meter: Arc<Meter>,
    /// The windows that were decoded last for a parser.
    kept: Mutex<VecDeque<Window>>,
}

/// Some decoded bytes of a piece.
struct Window {
    piece: usize,
    start: u64,
    bytes: Arc<[u8]>,
}

impl Assembly {
    pub(crate) fn new(parts: Vec<Arc<dyn Piece>>, meter: Arc<Meter>) -> Result<Assembly> {
        let mut pieces = Vec::with_capacity(parts.len());
        let mut length = 0u64;
        for piece in parts {
            let next = length
                .checked_add(piece.length())
                .ok_or_else(|| Error::malformed("the pieces are longer than a file can be"))?;
            pieces.push((length, piece));
            length = next;
        }
        Ok(Assembly { pieces, length, meter, kept: Mutex::default() })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// How the piece is stored that holds the byte at `offset`.
    pub(crate) fn encoding(&self, offset: u64) -> &'static str {
        let after = self.pieces.partition_point(|(start, _)| *start <= offset);
        after
            .checked_sub(1)
            .and_then(|place| self.pieces.get(place))
            .map_or("raw", |(_, piece)| piece.encoding())
    }

    /// How the piece is computed that holds the byte at `offset`, if it is.
    pub(crate) fn recipe(&self, offset: u64) -> Option<String> {
        let after = self.pieces.partition_point(|(start, _)| *start <= offset);
        self.pieces.get(after.checked_sub(1)?).and_then(|(_, piece)| piece.recipe())
    }

    /// Fills a buffer from `offset` on, several pieces at once; the caller has checked the range.
    pub(crate) fn read(&self, offset: u64, mut out: &mut [u8]) -> Result<()> {
        let mut position = offset;
        let mut parts = Vec::new();
        for (number, (start, piece)) in self.pieces.iter().enumerate().skip(self.piece_at(offset)) {
            if out.is_empty() {
                break;
            }
            let within = position - start;
            let count = usize::try_from(piece.length() - within).unwrap_or(usize::MAX).min(out.len());
            let (now, later) = std::mem::take(&mut out).split_at_mut(count);
            parts.push((number, piece, within, now));
            position += count as u64;
            out = later;
        }
        if !out.is_empty() {
            return Err(Error::truncated("the pieces end early"));
        }
        if self.meter.runs() {
            let read = |(number, piece, within, out): (usize, &Arc<dyn Piece>, u64, &mut [u8])| {
                self.read_for_parser(number, &**piece, within, out)
            };
            return parts.into_iter().try_for_each(read);
        }
        // Nobody is woken for what is small or at hand.
        let worth_it = |(_, piece, _, out): &(usize, &Arc<dyn Piece>, u64, &mut [u8])| {
            !piece.is_at_hand() && out.len() >= WORTH_A_THREAD
        };
        if parts.iter().filter(|part| worth_it(part)).count() > 1 {
            parts.into_par_iter().try_for_each(|(_, piece, within, out)| piece.read(within, out))
        } else {
            parts.into_iter().try_for_each(|(_, piece, within, out)| piece.read(within, out))
        }
    }

    /// Reads while the file is indexed: what is decoded is counted, and the last windows are kept, because parsers read little and often.
    fn read_for_parser(&self, number: usize, piece: &dyn Piece, start: u64, out: &mut [u8]) -> Result<()> {
        if piece.is_at_hand() {
            return piece.read(start, out);
        }
        if out.len() as u64 >= WINDOW {
            self.meter.charge(piece.cost(start, out.len() as u64)?)?;
            return piece.read(start, out);
        }
        let (mut position, mut rest) = (start, out);
        while !rest.is_empty() {
            let first = position - position % WINDOW;
            let window = self.window_at(number, piece, first)?;
            let part = window.get((position - first) as usize..).filter(|part| !part.is_empty());
            let part = part.ok_or_else(|| Error::truncated("the pieces end early"))?;
            let count = part.len().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(part.get(..count).unwrap_or_default());
            position += count as u64;
            rest = later;
        }
        Ok(())
    }

    /// The window of a piece that begins at `start`.
    fn window_at(&self, piece_number: usize, piece: &dyn Piece, start: u64) -> Result<Arc<[u8]>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) =
            kept().iter().find(|window| window.piece == piece_number && window.start == start)
        {
            return Ok(Arc::clone(&found.bytes));
        }
        let length = WINDOW.min(piece.length() - start);
        self.meter.charge(piece.cost(start, length)?)?;
        let mut bytes = vec![0; length as usize];
        piece.read(start, &mut bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        let mut kept = kept();
        kept.truncate(KEPT - 1);
        kept.push_front(Window { piece: piece_number, start, bytes: Arc::clone(&bytes) });
        Ok(bytes)
    }

    /// Gives back what was kept for parsers.
    pub(crate) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = VecDeque::new();
    }

    /// Announces to the files behind the pieces what some ranges need of them.
    pub(crate) fn announce(&self, ranges: &[Range<u64>]) {
        let mut announcement = Announcement::default();
        let overlapping = |range: &Range<u64>| {
            let end = self.pieces.partition_point(|(start, _)| *start < range.end);
            self.piece_at(range.start)..end
        };
        // Tensors that share a piece announce it once.
        let pieces: BTreeSet<usize> = ranges.iter().flat_map(overlapping).collect();
        pieces.into_iter().for_each(|number| self.pieces[number].1.announce(&mut announcement));
        announcement.send();
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
                return if end > offset { end - offset } else { piece.window(offset - start, most) };
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

    /// Bytes that stand behind a range.
    pub(crate) fn weight(&self, offset: u64, length: u64) -> u64 {
        let end = offset.saturating_add(length);
        let pieces = self.pieces.iter().skip(self.piece_at(offset));
        let weights = pieces.take_while(|(start, _)| *start < end).map(|(_, piece)| piece.weight());
        weights.fold(0, u64::saturating_add)
    }

    /// The number of the piece that holds the byte at `offset`.
    fn piece_at(&self, offset: u64) -> usize {
        self.pieces.partition_point(|(start, piece)| start + piece.length() <= offset)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::error::Kind;
    use crate::limits::Limits;

    /// A piece that decodes in blocks, and counts what it has decoded.
    struct Blocks {
        length: u64,
        block: u64,
        decoded: AtomicU64,
    }

    impl Piece for Blocks {
        fn length(&self) -> u64 {
            self.length
        }

        fn stored(&self) -> u64 {
            10
        }

        fn cost(&self, start: u64, length: u64) -> Result<u64> {
            let blocks = (start + length).div_ceil(self.block) - start / self.block;
            Ok((blocks * self.block).min(self.length))
        }

        fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
            self.decoded.fetch_add(self.cost(start, out.len() as u64)?, Ordering::Relaxed);
            out.iter_mut().zip(start..).for_each(|(byte, position)| *byte = position as u8);
            Ok(())
        }
    }

    fn assembly(length: u64, block: u64, most: u64) -> (Arc<Blocks>, Arc<Meter>, Assembly) {
        let blocks = Arc::new(Blocks { length, block, decoded: AtomicU64::new(0) });
        let held = |text: &'static [u8]| Arc::new(Held(Box::new(text))) as Arc<dyn Piece>;
        let meter = Arc::new(Meter::new(&Limits { header_bytes: most, ..Limits::default() }));
        let parts = vec![held(b"front"), Arc::clone(&blocks) as Arc<dyn Piece>, held(b"end")];
        (blocks, Arc::clone(&meter), Assembly::new(parts, meter).unwrap())
    }

    #[test]
    fn a_parser_that_reads_little_and_often_decodes_little() {
        let length = 3 * WINDOW + 1000;
        let (blocks, meter, assembly) = assembly(length, length, 1 << 30);
        let mut out = [0; 9];
        for position in (0..length - 9).step_by(997) {
            assembly.read(5 + position, &mut out).unwrap();
            assert!(out.iter().zip(position..).all(|(byte, position)| *byte == position as u8));
        }
        // Each of the four windows took the one block, which is as long as the piece.
        assert_eq!(blocks.decoded.load(Ordering::Relaxed), 4 * length);
        let mut all = vec![0; assembly.length() as usize];
        assembly.read(0, &mut all).unwrap();
        assert!(all.starts_with(b"front\0\x01") && all.ends_with(b"end"));
        meter.stop();
        assembly.forget();
        for _ in 0..3 {
            assembly.read(5, &mut out).unwrap();
        }
        assert_eq!(blocks.decoded.load(Ordering::Relaxed), 8 * length);
    }

    #[test]
    fn what_is_decoded_to_index_a_file_is_bounded() {
        // One block of 256 MiB that a few bytes stand for, read in many places.
        let (blocks, _, assembly) = assembly(256 << 20, 256 << 20, 1 << 30);
        let mut out = [0; 8];
        let read = (0..1000u64).map(|number| number * 7_777_777 % ((256 << 20) - 8));
        let failed = read.map(|position| assembly.read(5 + position, &mut out)).find_map(Result::err);
        assert_eq!(failed.unwrap().kind(), Kind::Limit);
        assert!(blocks.decoded.load(Ordering::Relaxed) <= 1 << 30);
    }
}
