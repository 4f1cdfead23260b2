//! Floats that were something narrower before: fp16 weights of a model that was trained in bf16, fp32 files
//! with bf16, fp16 or fp8 in them. The bits that the narrower type lacks say nothing, so elements are coded
//! as those of that type, with all that is known about it, and widened again. The few that are no numbers of
//! it are listed. Numbers that were rounded to a few decimals are integers in the same way.

mod convert;
mod decimals;
mod decode;
mod encode;
mod fit;
mod model;
mod source;

use crate::arch::memory;
use crate::error::Result;
use std::cell::RefCell;

pub(crate) use fit::Narrowed;
pub(crate) use model::CastModel;

thread_local! {
    /// Memory for the narrow elements of a block, and for those of its reference: fresh memory for each block
    /// would take longer than casting.
    static CAST_SCRATCH: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// Runs an action with two buffers of these lengths, whose contents are anything.
fn with_scratch<T>(lengths: [usize; 2], action: impl FnOnce([&mut [u8]; 2]) -> Result<T>) -> Result<T> {
    // No action comes here again, but nothing depends on it.
    let mut buffers = CAST_SCRATCH
        .with(|scratch| scratch.try_borrow_mut().map(|mut kept| std::mem::take(&mut *kept)))
        .unwrap_or_default();
    for (buffer, length) in buffers.iter_mut().zip(lengths) {
        if buffer.len() < length {
            *buffer = memory::zeroed(length)?;
        }
    }
    let [first, second] = &mut buffers;
    let result = action([&mut first[..lengths[0]], &mut second[..lengths[1]]]);
    CAST_SCRATCH.with(|scratch| {
        if let Ok(mut kept) = scratch.try_borrow_mut() {
            *kept = buffers
        }
    });
    result
}
