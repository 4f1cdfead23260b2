//! Memory that frames and bases were in, for those that are decoded next: fresh memory costs about as much as decoding into it. It is kept as long as its
//! checkpoint is open.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use super::chain::resize;
use ztensor::Result;

/// Buffers that are kept, and the most bytes of one: entries of models of a few MiB, side by side. Longer ones are read window by window.
const MOST: usize = 8;
const LONGEST: usize = 8 << 20;

/// Buffers that nobody uses now.
#[derive(Default)]
pub(super) struct Spare(Mutex<Vec<Vec<u8>>>);

/// A buffer, until it is dropped.
pub(super) struct Lent<'a> {
    spare: &'a Spare,
    bytes: Vec<u8>,
}

impl Spare {
    /// A buffer of so many bytes; what is in it is of no use.
    pub(super) fn take(&self, length: u64) -> Result<Lent<'_>> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        if (bytes.capacity() as u64) < length {
            // Nothing of it has to be copied.
            bytes.clear();
        }
        resize(&mut bytes, length)?;
        Ok(Lent { spare: self, bytes })
    }
}

impl Deref for Lent<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut kept = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST && self.bytes.capacity() <= LONGEST {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_long_ones_are_not_kept() {
        let spare = Spare::default();
        let first = spare.take(1 << 20).unwrap();
        let place = first.as_ptr();
        drop(first);
        let again = spare.take(1000).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (place, 1000));
        let other = spare.take(1000).unwrap();
        assert_ne!(other.as_ptr(), place);
        drop((again, other));
        drop(spare.take(LONGEST as u64 + 1).unwrap());
        let kept = spare.0.lock().unwrap();
        assert!(kept.iter().all(|bytes| bytes.capacity() <= LONGEST));
    }
}
