//! Which buffer a delta was coded against: its length, and a digest that is computed piece by piece, so that
//! all cores can share the work and a file can be read as a stream.

use crate::error::{Error, ErrorKind, Result};
use crate::frame::BlockSource;
use crate::threads;
use std::io::Read;
use std::ops::Range;
use std::sync::OnceLock;
use twox_hash::XxHash3_128;

/// Bytes whose digests are taken independently, as the format says.
const DIGEST_PIECE: usize = 1 << 20;

/// The identity of a delta's reference.
///
/// ```
/// let id = z4ai::ReferenceId::of(b"weights", 0)?;
/// assert_eq!(id, z4ai::ReferenceId::of_stream(&b"weights"[..])?);
/// assert_eq!(id.length, 7);
/// # Ok::<(), z4ai::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReferenceId {
    /// Bytes of the reference.
    pub length: u64,
    /// XXH3-128 over the XXH3-128 digests of its pieces of 1 MiB.
    pub digest: [u8; 16],
}

impl ReferenceId {
    /// The identity of `bytes`, with this many threads (0: all cores).
    pub fn of(bytes: &[u8], threads: usize) -> Result<Self> {
        Ok(Identification::new(bytes).finish(threads))
    }

    /// The identity of everything that `reader` gives.
    pub fn of_stream(mut reader: impl Read) -> Result<Self> {
        let (mut digest, mut length) = (XxHash3_128::new(), 0);
        let mut piece = Vec::with_capacity(DIGEST_PIECE);
        loop {
            piece.clear();
            reader.by_ref().take(DIGEST_PIECE as u64).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Ok(Self { length, digest: digest.finish_128().to_le_bytes() });
            }
            digest.write(&XxHash3_128::oneshot(&piece).to_le_bytes());
            length += piece.len() as u64;
        }
    }

    /// The identity of everything in `source`.
    pub(crate) fn of_source<S: BlockSource>(source: &S) -> std::result::Result<Self, S::Error> {
        let (mut digest, length) = (XxHash3_128::new(), source.length());
        let mut piece = vec![0; DIGEST_PIECE];
        for offset in (0..length).step_by(DIGEST_PIECE) {
            let piece = &mut piece[..(length - offset).min(DIGEST_PIECE as u64) as usize];
            source.read_at(offset, piece)?;
            digest.write(&XxHash3_128::oneshot(piece).to_le_bytes());
        }
        Ok(Self { length, digest: digest.finish_128().to_le_bytes() })
    }

    /// Fails unless the caller has as many bytes.
    pub(crate) fn check_length(&self, given: u64) -> Result<()> {
        if self.length == given {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::WrongReference,
            format!("wrong reference: the delta was made against {} bytes, these are {given}", self.length),
        ))
    }

    /// Fails unless the identity of what the caller has is this one.
    pub fn check(&self, given: &Self) -> Result<()> {
        self.check_length(given.length)?;
        if self.digest != given.digest {
            return Err(Error::new(
                ErrorKind::WrongReference,
                "wrong reference: its digest is not that of the buffer which the delta was made against",
            ));
        }
        Ok(())
    }
}

/// An identity that is computed while the bytes are used: whoever is about to use a part of them takes its
/// digests, so that memory is read once for both.
#[derive(Debug)]
pub(crate) struct Identification<'a> {
    bytes: &'a [u8],
    digests: Vec<OnceLock<u128>>,
}

impl<'a> Identification<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, digests: bytes.chunks(DIGEST_PIECE).map(|_| OnceLock::new()).collect() }
    }

    /// The numbers of the pieces that begin in `range`.
    pub fn pieces(&self, range: Range<u64>) -> Range<usize> {
        let number =
            |offset: u64| usize::try_from(offset.div_ceil(DIGEST_PIECE as u64)).unwrap_or(usize::MAX);
        number(range.start)..number(range.end).min(self.digests.len())
    }

    /// The identity, after those digests that are missing have been taken with this many threads (0: all
    /// cores).
    pub fn finish(&self, threads: usize) -> ReferenceId {
        let pieces =
            threads::run(threads, || threads::map(0..self.digests.len(), |piece| self.digest(piece)));
        let mut digest = XxHash3_128::new();
        pieces.iter().for_each(|piece| digest.write(&piece.to_le_bytes()));
        ReferenceId { length: self.bytes.len() as u64, digest: digest.finish_128().to_le_bytes() }
    }

    /// The digest of a piece, from any thread.
    pub fn digest(&self, piece: usize) -> u128 {
        let take = || self.bytes.chunks(DIGEST_PIECE).nth(piece).map_or(0, XxHash3_128::oneshot);
        self.digests.get(piece).map_or(0, |digest| *digest.get_or_init(take))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_buffers_agree() {
        for length in [0, 1, DIGEST_PIECE - 1, DIGEST_PIECE, DIGEST_PIECE + 1, 3 * DIGEST_PIECE] {
            let bytes: Vec<u8> =
                (0..length as u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
            let id = ReferenceId::of(&bytes, 1).unwrap();
            assert_eq!(id, ReferenceId::of_stream(&bytes[..]).unwrap());
            id.check(&ReferenceId::of(&bytes, 0).unwrap()).unwrap();
            let longer = [&bytes[..], &[0]].concat();
            assert!(id.check(&ReferenceId::of(&longer, 0).unwrap()).is_err());
        }
    }

    #[test]
    fn pieces_may_be_taken_in_any_order_or_not_at_all() {
        let bytes: Vec<u8> =
            (0..3 * DIGEST_PIECE as u32 + 7).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        let (id, piece) = (ReferenceId::of(&bytes, 1).unwrap(), DIGEST_PIECE as u64);
        for ranges in
            [vec![], vec![0..1, 1..u64::MAX], vec![2 * piece..2 * piece + 1, 1..piece, 0..5, 5..3 * piece]]
        {
            let identification = Identification::new(&bytes);
            for piece in ranges.into_iter().flat_map(|range| identification.pieces(range)) {
                identification.digest(piece);
            }
            assert_eq!(identification.finish(1), id);
        }
    }

    #[test]
    fn swapped_pieces_are_noticed() {
        let (first, second) = (vec![1u8; DIGEST_PIECE], vec![2u8; DIGEST_PIECE]);
        let id = ReferenceId::of(&[&first[..], &second].concat(), 0).unwrap();
        let error = id.check(&ReferenceId::of(&[&second[..], &first].concat(), 0).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongReference);
    }
}
