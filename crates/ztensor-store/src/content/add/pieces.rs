//! What a file is cut into: its tensors, or stretches of a file without any, and the skeleton between them.

use sha2::{Digest as _, Sha256};

use ztensor::archive::Run;
use ztensor::{DType, Result, Shape, Source};

/// Bytes that are encoded side by side before they are written. It and the size of parts bound what an add and a restore hold, whatever the checkpoint's
/// size: of one tensor of 1.57 GB on 2 cores 74 MiB to add it, 128 MiB to add it as a delta, 260 MiB to restore that (anonymous memory at its peak).
const WINDOW: u64 = 64 << 20;
/// Files that hold no tensors are cut into pieces of this size.
const STRETCH: u64 = 4 << 20;

pub(super) fn tensor_name(run: &Run) -> Option<String> {
    run.tensor.as_ref().map(|(name, role)| match role.as_str() {
        "data" => name.clone(),
        role => format!("{name}/{role}"),
    })
}

pub(super) fn plain_run(offset: u64, length: u64) -> Run {
    Run {
        offset,
        length,
        tensor: None,
        element: DType::U8.into(),
        shape: Shape::from([length]),
        blocks: None,
    }
}

/// The pieces of a file without tensors.
pub(super) fn stretches(length: u64) -> Vec<Run> {
    let starts = (0..length.div_ceil(STRETCH)).map(|number| number * STRETCH);
    starts.map(|start| plain_run(start, STRETCH.min(length - start))).collect()
}

/// Bytes of all pieces.
pub(super) fn tensor_bytes(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.length).sum()
}

/// How many pieces are worked on at once.
pub(super) fn fitting(runs: &[Run]) -> usize {
    let mut total = 0;
    let fit = runs.iter().take_while(|run| {
        total += run.length;
        total <= WINDOW
    });
    fit.count().max(1)
}

/// Everything between the pieces.
pub(super) fn skeleton(source: &Source, runs: &[Run]) -> Result<Vec<u8>> {
    let mut bones = Vec::new();
    let mut position = 0;
    for run in runs {
        bones.extend_from_slice(&source.bytes(position, run.offset - position)?);
        position = run.offset + run.length;
    }
    bones.extend_from_slice(&source.bytes(position, source.len() - position)?);
    Ok(bones)
}

pub(super) fn digest_of(source: &Source) -> Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut position = 0;
    while position < source.len() {
        let length = source.window(position);
        hasher.update(&source.bytes(position, length)?);
        position += length;
    }
    Ok(hasher.finalize().into())
}
