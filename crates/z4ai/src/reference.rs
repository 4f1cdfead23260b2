//! Which buffer a delta was coded against: its length, and a digest that is computed piece by piece, so that all cores can share the work and a file can
//! be read as a stream.

use crate::error::{Error, ErrorKind, Result};
use crate::threads;
use std::io::Read;
use twox_hash::XxHash3_128;

/// Bytes whose digests are taken independently.
const PIECE: usize = 1 << 20;

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
        let pieces = threads::run(threads, || threads::map(bytes.chunks(PIECE), XxHash3_128::oneshot));
        let mut digest = XxHash3_128::new();
        pieces.iter().for_each(|piece| digest.write(&piece.to_le_bytes()));
        Ok(Self { length: bytes.len() as u64, digest: digest.finish_128().to_le_bytes() })
    }

    /// The identity of everything that `reader` gives.
    pub fn of_stream(mut reader: impl Read) -> Result<Self> {
        let (mut digest, mut length) = (XxHash3_128::new(), 0);
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            piece.clear();
            reader.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Ok(Self { length, digest: digest.finish_128().to_le_bytes() });
            }
            digest.write(&XxHash3_128::oneshot(&piece).to_le_bytes());
            length += piece.len() as u64;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_buffers_agree() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
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
    fn swapped_pieces_are_noticed() {
        let (first, second) = (vec![1u8; PIECE], vec![2u8; PIECE]);
        let id = ReferenceId::of(&[&first[..], &second].concat(), 0).unwrap();
        let error = id.check(&ReferenceId::of(&[&second[..], &first].concat(), 0).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongReference);
    }
}
