//! HDF5 filters, undone: each turns the bytes of one stored chunk back into what its writer was given.

use flate2::{Decompress, FlushDecompress, Status};

use crate::error::{Error, Kind, Result};
use crate::index::Filter;

/// Buffers that one worker reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct Scratch {
    /// A whole chunk.
    pub chunk: Vec<u8>,
    /// A chunk between two filters.
    between: Vec<u8>,
    inflater: Option<Decompress>,
}

/// The most bytes that `stored` bytes can stand for: deflate's best is 1032 to 1.
pub(super) fn longest(stored: usize) -> usize {
    stored.saturating_mul(1032).saturating_add(1024)
}

/// Undoes the filters of one chunk, last first; bit *i* of the mask leaves out filter *i*.
pub(super) fn undo(
    stored: &[u8],
    filters: &[Filter],
    mask: u32,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let applied = |number: usize| mask.checked_shr(number as u32).is_none_or(|bits| bits & 1 == 0);
    let mut stored = stored;
    let mut pending: Vec<Filter> = filters
        .iter()
        .enumerate()
        .filter(|(number, _)| applied(*number))
        .map(|(_, filter)| *filter)
        .collect();
    // Checksums behind the compressor only shorten the bytes, so they need no buffer.
    while let Some(Filter::Fletcher32) = pending.last() {
        stored = checked(stored)?;
        pending.pop();
    }
    match *pending.as_slice() {
        [] => copy(stored, out),
        [Filter::Shuffle { width }] => unshuffle(stored, width, out),
        [compressor @ (Filter::Deflate | Filter::Lzf)] => {
            expand(compressor, stored, out, &mut scratch.inflater)
        }
        [Filter::Shuffle { width }, compressor @ (Filter::Deflate | Filter::Lzf)] => {
            resize(&mut scratch.between, out.len())?;
            expand(compressor, stored, &mut scratch.between, &mut scratch.inflater)?;
            unshuffle(&scratch.between, width, out)
        }
        _ => undo_any(stored, &pending, out, scratch),
    }
}

/// Filters in an order that h5py does not write, one buffer per step. All but one keep or know their lengths.
fn undo_any(stored: &[u8], filters: &[Filter], out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
    let mut bytes = stored.to_vec();
    for (number, filter) in filters.iter().enumerate().rev() {
        bytes = match *filter {
            Filter::Fletcher32 => checked(&bytes)?.to_vec(),
            Filter::Shuffle { width } => {
                let mut target = Vec::new();
                resize(&mut target, bytes.len())?;
                unshuffle(&bytes, width, &mut target)?;
                target
            }
            Filter::Deflate | Filter::Lzf => {
                let checksums =
                    filters[..number].iter().filter(|filter| **filter == Filter::Fletcher32).count();
                let mut target = Vec::new();
                resize(&mut target, out.len() + 4 * checksums)?;
                expand(*filter, &bytes, &mut target, &mut scratch.inflater)?;
                target
            }
        };
    }
    copy(&bytes, out)
}

fn resize(buffer: &mut Vec<u8>, length: usize) -> Result<()> {
    if buffer.len() != length {
        *buffer = super::allocate(length as u64)?;
    }
    Ok(())
}

fn copy(bytes: &[u8], out: &mut [u8]) -> Result<()> {
    if bytes.len() != out.len() {
        return Err(Error::malformed(format!("a chunk has {} bytes instead of {}", bytes.len(), out.len())));
    }
    out.copy_from_slice(bytes);
    Ok(())
}

fn expand(filter: Filter, stored: &[u8], out: &mut [u8], inflater: &mut Option<Decompress>) -> Result<()> {
    match filter {
        Filter::Deflate => inflate(stored, out, inflater),
        _ => lzf(stored, out).ok_or_else(|| Error::malformed("the lzf data of a chunk is damaged")),
    }
}

/// A zlib stream that must give exactly the bytes of the chunk.
fn inflate(stored: &[u8], out: &mut [u8], inflater: &mut Option<Decompress>) -> Result<()> {
    let stream = inflater.get_or_insert_with(|| Decompress::new(true));
    stream.reset(true);
    let status = stream
        .decompress(stored, out, FlushDecompress::Finish)
        .map_err(|cause| Error::malformed("the deflate stream of a chunk is damaged").with_cause(cause))?;
    if status != Status::StreamEnd || stream.total_out() != out.len() as u64 {
        return Err(Error::malformed("the deflate stream of a chunk has another length than the chunk"));
    }
    Ok(())
}

/// LZF: runs of literals, and copies of what was written up to 8 KiB before. `None` where that does not give exactly the chunk.
fn lzf(stored: &[u8], out: &mut [u8]) -> Option<()> {
    let (mut from, mut to) = (0, 0);
    while from < stored.len() {
        let control = usize::from(*stored.get(from)?);
        from += 1;
        if control < 32 {
            let length = control + 1;
            out.get_mut(to..to + length)?.copy_from_slice(stored.get(from..from + length)?);
            (from, to) = (from + length, to + length);
            continue;
        }
        let mut length = control >> 5;
        if length == 7 {
            length += usize::from(*stored.get(from)?);
            from += 1;
        }
        length += 2;
        let back = ((control & 31) << 8 | usize::from(*stored.get(from)?)) + 1;
        from += 1;
        let start = to.checked_sub(back)?;
        if to + length > out.len() {
            return None;
        }
        if back >= length {
            out.copy_within(start..start + length, to);
        } else {
            // The copy overlaps itself: it repeats what it has just written.
            for position in 0..length {
                out[to + position] = out[start + position];
            }
        }
        to += length;
    }
    (to == out.len()).then_some(())
}

/// Puts the bytes of each element, which shuffling had sorted by their position, together again.
fn unshuffle(bytes: &[u8], width: usize, out: &mut [u8]) -> Result<()> {
    if bytes.len() != out.len() {
        return copy(bytes, out);
    }
    match width {
        0 | 1 => return copy(bytes, out),
        2 => interleave2(bytes, out),
        4 => interleave4(bytes, out),
        8 => interleave8(bytes, out),
        _ => {
            let count = bytes.len() / width;
            for (number, element) in out.chunks_exact_mut(width).enumerate() {
                for (position, byte) in element.iter_mut().enumerate() {
                    *byte = bytes[position * count + number];
                }
            }
        }
    }
    // What does not fill an element was left as it was.
    let whole = bytes.len() / width * width;
    out[whole..].copy_from_slice(&bytes[whole..]);
    Ok(())
}

/// Takes each element's bytes from as many planes. Every plane is a slice of exactly as many bytes as there are elements, which lets the
/// compiler leave out the checks in the loop and take many elements at once.
macro_rules! interleave {
    ($bytes:ident, $out:ident, $width:literal: $($number:literal $plane:ident),*) => {{
        let elements = $out.as_chunks_mut::<$width>().0;
        let count = elements.len();
        $(let $plane = &$bytes[$number * count..][..count];)*
        for (position, element) in elements.iter_mut().enumerate() {
            *element = [$($plane[position]),*];
        }
    }};
}

fn interleave2(bytes: &[u8], out: &mut [u8]) {
    interleave!(bytes, out, 2: 0 a, 1 b);
}

fn interleave4(bytes: &[u8], out: &mut [u8]) {
    interleave!(bytes, out, 4: 0 a, 1 b, 2 c, 3 d);
}

fn interleave8(bytes: &[u8], out: &mut [u8]) {
    interleave!(bytes, out, 8: 0 a, 1 b, 2 c, 3 d, 4 e, 5 f, 6 g, 7 h);
}

/// Checks the Fletcher checksum in the last four bytes and returns those before it.
fn checked(bytes: &[u8]) -> Result<&[u8]> {
    let Some((covered, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::malformed("a chunk is too short for its checksum"));
    };
    let (found, sum) = (fletcher32(covered), u32::from_le_bytes(*sum));
    // Files from before HDF5 1.6.3 have the bytes of each half the other way round.
    if found == sum || (found & 0x00FF_00FF) << 8 | (found >> 8 & 0x00FF_00FF) == sum {
        return Ok(covered);
    }
    Err(Error::new(
        Kind::Checksum,
        format!("the checksum of a chunk does not match: stored {sum:08x}, computed {found:08x}"),
    )
    .with_hint("The data is damaged; fetch the file again or restore it from a backup."))
}

/// Fletcher's checksum over big-endian 16-bit words, as HDF5 has it.
fn fletcher32(bytes: &[u8]) -> u32 {
    /// Words whose sums fit 32 bits before they are folded.
    const BLOCK: usize = 2 * 360;
    let fold = |sum: u32| (sum & 0xFFFF) + (sum >> 16);
    let (mut low, mut high) = (0u32, 0u32);
    let even = bytes.len() / 2 * 2;
    for block in bytes[..even].chunks(BLOCK) {
        // The sum of the running sums counts each word once for every step that is left; so written, the words can be taken in any
        // order, and several at once.
        let words = block.as_chunks::<2>().0;
        let (mut sum, mut weighted) = (0, 0);
        let count = words.len() as u32;
        for (number, word) in words.iter().enumerate() {
            let word = u32::from(u16::from_be_bytes(*word));
            sum += word;
            weighted += (count - number as u32) * word;
        }
        high += count * low + weighted;
        low += sum;
        (low, high) = (fold(low), fold(high));
    }
    if let Some(last) = bytes.get(even) {
        low += u32::from(*last) << 8;
        high += low;
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lzf_repeats_overlapping_copies() {
        let mut out = [0; 8];
        // One literal, then seven copies of the byte before.
        assert_eq!(lzf(&[0, b'a', 5 << 5, 0], &mut out), Some(()));
        assert_eq!(&out, b"aaaaaaaa");
        assert_eq!(lzf(&[0, b'a', 5 << 5, 1], &mut out), None);
        assert_eq!(lzf(&[0, b'a', 7 << 5, 255, 0], &mut out), None);
    }

    #[test]
    fn shuffled_elements_come_together() {
        let mut out = [0; 7];
        unshuffle(&[0, 2, 4, 1, 3, 5, 9], 2, &mut out).unwrap();
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 9]);
        let mut out = [0; 6];
        unshuffle(&[0, 3, 1, 4, 2, 5], 3, &mut out).unwrap();
        assert_eq!(out, [0, 1, 2, 3, 4, 5]);
        for width in 1..=16 {
            let data: Vec<u8> = (0..width * 37 + 3).map(|number| (number * 7) as u8).collect();
            let whole = data.len() / width * width;
            let mut shuffled: Vec<u8> = (0..width)
                .flat_map(|plane| data[..whole].iter().skip(plane).step_by(width).copied())
                .collect();
            shuffled.extend(&data[whole..]);
            let mut out = vec![0; data.len()];
            unshuffle(&shuffled, width, &mut out).unwrap();
            assert_eq!(out, data, "{width}");
        }
    }

    #[test]
    fn a_damaged_checksum_is_noticed() {
        let mut bytes = b"abcde".to_vec();
        bytes.extend(fletcher32(b"abcde").to_le_bytes());
        assert_eq!(checked(&bytes).unwrap(), b"abcde");
        bytes[1] ^= 4;
        assert_eq!(checked(&bytes).unwrap_err().kind(), Kind::Checksum);
    }

    #[test]
    fn checksums_of_long_chunks_do_not_overflow() {
        // All ones are zero to a checksum of this kind, however many there are.
        assert_eq!(fletcher32(&[0xFF; 100_000]), 0xFFFF_FFFF);
        assert_eq!(fletcher32(&[0xFF; 1442]), 0xFFFF_FFFF);
        assert_eq!(fletcher32(b"abcde"), 0x4FF0_29C7);
    }

    #[test]
    fn filters_in_any_order_are_undone() {
        let data: Vec<u8> = (0..64).collect();
        let mut shuffled: Vec<u8> =
            (0..4).flat_map(|plane| data.iter().skip(plane).step_by(4).copied()).collect();
        shuffled.extend(fletcher32(&shuffled).to_le_bytes());
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &shuffled).unwrap();
        let stored = encoder.finish().unwrap();
        let filters = [Filter::Shuffle { width: 4 }, Filter::Fletcher32, Filter::Deflate];
        let mut out = [0; 64];
        undo(&stored, &filters, 0, &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out.as_slice(), data);
        assert!(undo(&stored, &filters, 0b111, &mut out, &mut Scratch::default()).is_err());
        undo(&data, &filters, 0b111, &mut out, &mut Scratch::default()).unwrap();
    }
}
