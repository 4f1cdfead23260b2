//! From bytes to a frame, in one call.

use crate::arch::memory;
use crate::encode::SectionEncoder;
use crate::error::{Error, Result};
use crate::frame::header::Header;
use crate::options::Options;
use crate::threads;

/// Compresses `bytes` into one frame. The frame depends on the bytes and the options only, not on the machine
/// or the number of threads.
///
/// ```
/// use z4ai::{Dtype, Options};
/// let weights: Vec<u8> = (0..1000u16).flat_map(|i| (0x3c00 + i % 77).to_le_bytes()).collect();
/// let frame = z4ai::compress(&weights, &Options::new(Dtype::Bf16))?;
/// assert!(frame.len() < weights.len());
/// assert_eq!(z4ai::decompress(&frame)?, weights);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn compress(bytes: &[u8], options: &Options) -> Result<Vec<u8>> {
    let mut frame = Vec::new();
    compress_into(bytes, options, &mut frame)?;
    Ok(frame)
}

/// Compresses `bytes` into one frame that replaces the contents of `frame`, whose memory is used again: new
/// memory takes about as long to bring in as compressing does.
pub fn compress_into(bytes: &[u8], options: &Options, frame: &mut Vec<u8>) -> Result<()> {
    options.check_shape(bytes.len() as u64)?;
    compress_to(bytes, options, frame, &mut |_| Ok(()))
}

/// Compresses `bytes` into one frame and tells `progress` the bytes of each section that is done, on the
/// calling thread; an error of it ends the work.
pub fn compress_watched<E: From<Error>>(
    bytes: &[u8],
    options: &Options,
    progress: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<u8>, E> {
    options.check_shape(bytes.len() as u64)?;
    let mut frame = Vec::new();
    compress_to(bytes, options, &mut frame, progress)?;
    Ok(frame)
}

fn compress_to<E: From<Error>>(
    bytes: &[u8],
    options: &Options,
    frame: &mut Vec<u8>,
    progress: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    frame.clear();
    // More room than is written to costs nothing.
    if frame.capacity() < bytes.len() {
        *frame = memory::with_room_for(bytes.len());
    }
    Header::new(options, Some(bytes.len() as u64)).write(frame);
    threads::run(options.threads, || SectionEncoder::new(options).append_all(bytes, frame, progress))
}
