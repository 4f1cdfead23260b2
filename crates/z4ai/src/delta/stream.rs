//! Deltas of streams: files of any length with memory for one section of each.

use super::compress::{append_against, delta_section_length, shared_length};
use crate::encode::{SectionData, SectionEncoder};
use crate::error::Result;
use crate::frame::header::Header;
use crate::frame::section;
use crate::options::Options;
use crate::reference::ReferenceId;
use crate::stream::Decoder;
use crate::threads;
use std::io::{Read, Write};

/// Compresses everything that `current` gives against what `reference` gives, and writes the frame to `out`.
/// `id` is the identity of the reference, from an earlier reading of it ([`ReferenceId::of_stream`]).
/// `advance` hears how many bytes of `current` each step took; the result is how many there were.
///
/// ```
/// let (old, new) = (b"abcdefgh".repeat(100), b"abcdefgi".repeat(100));
/// let id = z4ai::ReferenceId::of_stream(&old[..])?;
/// let (mut frame, mut restored) = (Vec::new(), Vec::new());
/// z4ai::compress_delta_stream(&new[..], &old[..], id, &z4ai::Options::default(), &mut frame, |_| ())?;
/// z4ai::decompress_delta_stream(&frame[..], &old[..], id, &mut restored, 0, |_| ())?;
/// assert_eq!(restored, new);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn compress_delta_stream(
    mut current: impl Read,
    mut reference: impl Read,
    id: ReferenceId,
    options: &Options,
    mut out: impl Write,
    mut advance: impl FnMut(u64),
) -> Result<u64> {
    let mut frame = Vec::new();
    Header { reference: Some(id), ..Header::new(options, None) }.write(&mut frame);
    let length = delta_section_length(options);
    let mut total = 0;
    loop {
        let bytes = next(&mut current, length)?;
        if bytes.is_empty() {
            break;
        }
        let base = next(&mut reference, bytes.len())?;
        let shared = shared_length(bytes.len(), base.len(), options);
        threads::run(options.threads, || -> Result<()> {
            if shared > 0 {
                append_against(&bytes[..shared], &base[..shared], options, &mut frame)?;
            }
            if shared < bytes.len() {
                SectionEncoder::new(options).append_cut(SectionData::new(&bytes[shared..]), &mut frame)?;
            }
            Ok(())
        })?;
        out.write_all(&frame)?;
        frame.clear();
        total += bytes.len() as u64;
        advance(bytes.len() as u64);
    }
    options.check_shape(total)?;
    section::write_end(&mut frame);
    out.write_all(&frame)?;
    out.flush()?;
    Ok(total)
}

/// Restores what a delta that `frame` gives stands for and writes it to `out`. `id` is the identity of what
/// `reference` gives, from an earlier reading of it; if it is not the one that the delta was made against,
/// nothing is written. `advance` hears how many bytes each step restored; the result is how many there were.
pub fn decompress_delta_stream(
    frame: impl Read,
    mut reference: impl Read,
    id: ReferenceId,
    mut out: impl Write,
    threads: usize,
    mut advance: impl FnMut(u64),
) -> Result<u64> {
    let mut decoder = Decoder::open(frame, threads)?;
    decoder.header().require_reference()?.check(&id)?;
    let mut total = 0;
    while decoder.next_section(&mut |length| next(&mut reference, length))? {
        out.write_all(decoder.section())?;
        total += decoder.section().len() as u64;
        advance(decoder.section().len() as u64);
    }
    out.flush()?;
    Ok(total)
}

/// The next `length` bytes, or what is left of them.
fn next(reader: &mut impl Read, length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
