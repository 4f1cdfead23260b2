//! From a buffer and its reference to a delta.

use crate::arch::Kernel;
use crate::compress::{Part, encode_section, encode_with, keep_shorter, section_length};
use crate::error::Result;
use crate::frame::header::Header;
use crate::model::{DifferenceModel, Model, differences};
use crate::options::Options;
use crate::plan::Plan;
use crate::reference::ReferenceId;
use crate::threads;

/// Bytes per block where nothing changed: few enough to read a part of, many enough that their checksums cost nothing.
const UNCHANGED_BLOCK: usize = 4 << 20;

/// Compresses `current` against `reference` into a frame that [`crate::decompress_delta`] restores with the same reference. The buffers may have different
/// lengths; element *i* is coded against element *i*. The frame is never much larger than that of [`crate::compress`], and depends on the two buffers and the
/// options only.
///
/// ```
/// use z4ai::{Dtype, Options};
/// let base: Vec<u8> = (0..10_000u16).flat_map(|i| (0x3c00 + i % 777).to_le_bytes()).collect();
/// let mut tuned = base.clone();
/// tuned[500] ^= 1;
/// let frame = z4ai::compress_delta(&tuned, &base, &Options::new(Dtype::Bf16))?;
/// assert!(frame.len() < 200);
/// assert_eq!(z4ai::decompress_delta(&frame, &base)?, tuned);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn compress_delta(current: &[u8], reference: &[u8], options: &Options) -> Result<Vec<u8>> {
    options.check_shape(current.len() as u64)?;
    let id = ReferenceId::of(reference, options.threads)?;
    let mut frame = Vec::new();
    Header { reference: Some(id), ..Header::new(options, Some(current.len() as u64)) }.write(&mut frame);
    threads::run(options.threads, || -> Result<()> {
        let shared = shared_length(current.len(), reference.len(), options);
        let (against, alone) = current.split_at(shared);
        let length = section_length(options);
        for (part, base) in against.chunks(length).zip(reference.chunks(length)) {
            encode_section_against(part, &base[..part.len()], options, Kernel::detect(), &mut frame)?;
        }
        for part in alone.chunks(length) {
            encode_section(part, options, Kernel::detect(), &mut frame)?;
        }
        Ok(())
    })?;
    Ok(frame)
}

/// Bytes of whole elements that both buffers have.
fn shared_length(current: usize, reference: usize, options: &Options) -> usize {
    let width = options.scalar_width();
    current.min(reference) / width * width
}

/// Appends one section, the shorter of one with the reference and one without. `reference` is as long as `bytes`, and both are whole elements.
fn encode_section_against(
    bytes: &[u8],
    reference: &[u8],
    options: &Options,
    kernel: Kernel,
    frame: &mut Vec<u8>,
) -> Result<()> {
    let start = frame.len();
    let width = options.scalar_width();
    if bytes == reference {
        let model = Model::Difference(DifferenceModel::new(width, Model::Opaque { level: 0, long: false }));
        let plan = Plan { model, block_length: UNCHANGED_BLOCK };
        return encode_with(&plan, Part { bytes, copies: &[], reference }, options, kernel, frame);
    }
    let Plan { model, block_length } =
        Plan::choose(&differences(bytes, reference, width, kernel)?, options, kernel)?;
    let plan = Plan { model: Model::Difference(DifferenceModel::new(width, model)), block_length };
    encode_with(&plan, Part { bytes, copies: &[], reference }, options, kernel, frame)?;
    let mut alone = Vec::new();
    encode_section(bytes, options, kernel, &mut alone)?;
    keep_shorter(frame, start, &alone);
    Ok(())
}
