//! Records, such as the blocks of quantised tensors: the bits of each field of all records together, as
//! elements of their own, coded with the model that suits them. Levels that are split into low and high bits
//! are whole again, and scales do not interrupt levels.

mod decode;
mod encode;
mod given;
mod model;
mod moves;

pub(crate) use encode::{gather, whole_records};
pub(crate) use given::GivenModel;
pub(crate) use model::{FieldCode, RecordsModel};

use crate::arch::memory;
use crate::error::Result;
use std::cell::RefCell;

thread_local! {
    /// Memory for the elements of a field, kept for the next block.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs an action with so many bytes, whose contents are anything.
fn with_scratch<T>(length: usize, action: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    let mut buffer = SCRATCH.take();
    if buffer.len() < length {
        buffer = memory::zeroed(length)?;
    }
    let outcome = action(&mut buffer[..length]);
    SCRATCH.set(buffer);
    outcome
}
