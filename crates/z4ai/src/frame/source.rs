//! Where the bytes of a frame, or of its reference, are: in memory, in a file, behind a network.

use crate::error::Error;

/// Bytes that can be read at any place. Ranges of a [`crate::Frame`] read no more of them than they need.
pub trait BlockSource {
    /// What reading fails with.
    type Error: From<Error>;

    /// How many bytes there are.
    fn length(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Self::Error>;

    /// All bytes, if they are in memory; nothing is copied then.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
}

impl<T: AsRef<[u8]> + ?Sized> BlockSource for &T {
    type Error = Error;

    fn length(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let bytes =
            usize::try_from(offset).ok().and_then(|offset| self.as_ref().get(offset..)?.get(..out.len()));
        out.copy_from_slice(bytes.ok_or_else(|| Error::truncated("bytes"))?);
        Ok(())
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(self.as_ref())
    }
}

/// A source that a function reads.
///
/// ```
/// use z4ai::{Fetch, Frame};
/// let data: Vec<u8> = (0..1_000_000u32).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
/// let stored = z4ai::compress(&data, &z4ai::Options::new(z4ai::Dtype::U32))?;
/// let fetched = std::cell::Cell::new(0);
/// let source = Fetch::new(stored.len() as u64, |offset, out: &mut [u8]| {
///     fetched.set(fetched.get() + out.len());
///     out.copy_from_slice(&stored[offset as usize..][..out.len()]);
///     Ok::<(), z4ai::Error>(())
/// });
/// let mut out = [0; 8];
/// Frame::open(source)?.read_into(4000..4008, &mut out)?;
/// assert_eq!(out, data[4000..4008]);
/// assert!(fetched.get() < stored.len() / 2);
/// # Ok::<(), z4ai::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Fetch<F> {
    length: u64,
    read: F,
}

impl<F> Fetch<F> {
    /// A source of `length` bytes; `read` fills a buffer with those from an offset on.
    pub fn new(length: u64, read: F) -> Self {
        Self { length, read }
    }
}

impl<E: From<Error>, F: Fn(u64, &mut [u8]) -> Result<(), E>> BlockSource for Fetch<F> {
    type Error = E;

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), E> {
        (self.read)(offset, out)
    }
}
