//! From bytes to a frame, in one call.

use crate::arch::Kernel;
use crate::block::BlockContext;
use crate::error::Result;
use crate::frame::header::Header;
use crate::frame::{MAX_SECTION, STORED, checksum, section};
use crate::options::{Effort, Options};
use crate::plan::Plan;
use crate::threads;
use rayon::prelude::*;
use std::collections::HashMap;

/// Compresses `bytes` into one frame. The frame depends on the bytes and the options only, not on the machine or the number of threads.
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
    options.check_shape(bytes.len() as u64)?;
    let mut frame = Vec::new();
    Header::new(options, Some(bytes.len() as u64)).write(&mut frame);
    threads::run(options.threads, || -> Result<()> {
        for part in bytes.chunks(section_length(options)) {
            encode_section(part, options, Kernel::detect(), &mut frame)?;
        }
        Ok(())
    })??;
    Ok(frame)
}

/// The bytes of a full section: as many whole rows as fit, so that columns stay aligned, else as many whole elements.
pub(crate) fn section_length(options: &Options) -> usize {
    let width = options.scalar_width();
    let row =
        options.row_length().and_then(|length| length.checked_mul(width)).filter(|&row| row <= MAX_SECTION);
    let unit = row.unwrap_or(width);
    MAX_SECTION / unit * unit
}

/// Appends one section: the planned one, or the bytes as they are where that is shorter. Maximum effort is never larger than the default, because it tries
/// that too.
pub(crate) fn encode_section(bytes: &[u8], options: &Options, kernel: Kernel, frame: &mut Vec<u8>) -> Result<()> {
    let start = frame.len();
    encode_planned(bytes, options, kernel, frame)?;
    if options.effort == Effort::Max {
        let mut plain = Vec::new();
        encode_planned(bytes, &Options { effort: Effort::Default, ..options.clone() }, kernel, &mut plain)?;
        if plain.len() < frame.len() - start {
            frame.truncate(start);
            frame.extend_from_slice(&plain);
        }
    }
    Ok(())
}

fn encode_planned(
    bytes: &[u8],
    options: &Options,
    kernel: Kernel,
    frame: &mut Vec<u8>,
) -> Result<()> {
    let plan = Plan::choose(bytes, options, kernel)?;
    let block_length = plan.block_length.min(bytes.len());
    let sums: Vec<u32> = bytes.par_chunks(block_length).map(checksum).collect();
    let copies = find_copies(bytes, block_length, &sums);
    let context = BlockContext { model: &plan.model, width: options.scalar_width(), kernel };
    let blocks = bytes
        .par_chunks(block_length)
        .zip(&sums)
        .zip(copies)
        .enumerate()
        .map(|(index, ((block, &sum), copy_of))| {
            Ok((context.encode(block, index * block_length, copy_of)?, sum))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut model = Vec::new();
    plan.model.write(kernel, &mut model)?;
    let start = frame.len();
    section::write(bytes.len(), block_length, &model, &blocks, frame);
    if frame.len() - start > bytes.len() + section::STORED_OVERHEAD {
        frame.truncate(start);
        section::write(bytes.len(), bytes.len(), &[STORED], &[(bytes.to_vec(), checksum(bytes))], frame);
    }
    Ok(())
}

/// For each block, the offset of an earlier block with the same bytes that is not a copy itself.
fn find_copies(bytes: &[u8], block_length: usize, sums: &[u32]) -> Vec<Option<usize>> {
    let mut first: HashMap<u32, usize> = HashMap::new();
    let blocks: Vec<&[u8]> = bytes.chunks(block_length).collect();
    let find = |(index, sum): (usize, &u32)| {
        let earlier = *first.entry(*sum).or_insert(index);
        (earlier < index && blocks[earlier] == blocks[index]).then_some(earlier * block_length)
    };
    sums.iter().enumerate().map(find).collect()
}
