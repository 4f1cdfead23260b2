//! From a delta and its reference to bytes: all of them, or a range.

use crate::arch::memory;
use crate::decompress::Layout;
use crate::error::{Error, Result};
use crate::reference::ReferenceId;
use std::ops::Range;

/// Restores the bytes of the delta `frame`, on all cores. A reference other than the one it was made against is refused.
pub fn decompress_delta(frame: &[u8], reference: &[u8]) -> Result<Vec<u8>> {
    decompress_delta_with(frame, reference, 0)
}

/// Restores the bytes of the delta `frame` with this many threads (0: all cores).
pub fn decompress_delta_with(frame: &[u8], reference: &[u8], threads: usize) -> Result<Vec<u8>> {
    let layout = of_length(frame, reference)?;
    let length = usize::try_from(layout.length).map_err(|_| Error::out_of_memory(usize::MAX))?;
    let mut out = memory::zeroed(length)?;
    layout.identifying(reference).decode_identifying(&mut out, threads)?;
    Ok(out)
}

/// Restores the bytes of the delta `frame` into `out`, whose length must be exactly [`crate::decoded_len`]. What `out` holds after a failure is of no use.
pub fn decompress_delta_into(frame: &[u8], reference: &[u8], out: &mut [u8]) -> Result<()> {
    decompress_delta_into_with(frame, reference, out, 0)
}

/// [`decompress_delta_into`] with this many threads (0: all cores).
pub fn decompress_delta_into_with(
    frame: &[u8],
    reference: &[u8],
    out: &mut [u8],
    threads: usize,
) -> Result<()> {
    Layout::read(frame)?.check_output(out)?;
    of_length(frame, reference)?.identifying(reference).decode_identifying(out, threads)
}

/// Restores bytes `range` of the delta's data. All of the reference is verified; [`decompress_delta_range_trusted`] leaves that out.
///
/// ```
/// let (old, new) = (b"abcdefgh".repeat(100), b"abcdefgi".repeat(100));
/// let frame = z4ai::compress_delta(&new, &old, &z4ai::Options::default())?;
/// assert_eq!(z4ai::decompress_delta_range(&frame, &old, 14..18)?, b"giab");
/// assert!(z4ai::decompress_delta_range(&frame, &new, 14..18).is_err());
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn decompress_delta_range(frame: &[u8], reference: &[u8], range: Range<u64>) -> Result<Vec<u8>> {
    decode_range(&verified(frame, reference)?, range)
}

/// Restores bytes `range` of the delta's data against a reference that the caller knows to be the right one. Should it be another, the result is an error
/// all the same: every block has a checksum.
pub fn decompress_delta_range_trusted(frame: &[u8], reference: &[u8], range: Range<u64>) -> Result<Vec<u8>> {
    decode_range(&trusted(frame, reference)?, range)
}

/// [`decompress_delta_range_trusted`] into `out`, which must be as long as the range.
pub fn decompress_delta_range_trusted_into(
    frame: &[u8],
    reference: &[u8],
    range: Range<u64>,
    out: &mut [u8],
) -> Result<()> {
    let layout = trusted(frame, reference)?;
    layout.check_range_output(&range, out)?;
    layout.decode(range, out)
}

fn decode_range(layout: &Layout, range: Range<u64>) -> Result<Vec<u8>> {
    layout.check_range(&range)?;
    let length = usize::try_from(range.end - range.start).map_err(|_| Error::out_of_memory(usize::MAX))?;
    let mut out = memory::zeroed(length)?;
    layout.decode(range, &mut out)?;
    Ok(out)
}

/// The layout of a delta, with its reference once that has proved to be the right one.
fn verified<'a>(frame: &'a [u8], reference: &'a [u8]) -> Result<Layout<'a>> {
    let layout = of_length(frame, reference)?;
    layout.header.require_reference()?.check(&ReferenceId::of(reference, 0)?)?;
    Ok(layout.against(reference))
}

/// The layout of a delta whose reference is as long as this one; that is compared before anything is hashed.
fn of_length<'a>(frame: &'a [u8], reference: &[u8]) -> Result<Layout<'a>> {
    let layout = Layout::read(frame)?;
    layout.header.require_reference()?.check_length(reference.len() as u64)?;
    Ok(layout)
}

/// The layout of a delta with a reference that is taken for the right one.
fn trusted<'a>(frame: &'a [u8], reference: &'a [u8]) -> Result<Layout<'a>> {
    let layout = Layout::read(frame)?;
    layout.header.require_reference()?;
    Ok(layout.against(reference))
}
