//! The blocks of a section, on all threads and in order.

use crate::block::BlockContext;
use crate::error::Result;
use crate::frame::checksum;
use crate::frame::section::BlockEntry;
use crate::threads;
use std::sync::Mutex;

/// Memory of blocks, kept for the next: bringing in new memory takes about as long as encoding does. Only
/// ever tried to be locked: in a forked process the thread that held the lock does not exist.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// The most blocks that are kept and the most bytes of each: a guard.
const SPARE_BLOCKS: usize = 16;
const SPARE_BYTES: usize = 2 << 20;

pub(super) fn take_spare() -> Vec<u8> {
    SPARE.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
}

pub(super) fn keep_spare(block: Vec<u8>) {
    if block.capacity() <= SPARE_BYTES
        && let Ok(mut spare) = SPARE.try_lock()
        && spare.len() < SPARE_BLOCKS
    {
        spare.push(block);
    }
}

/// Appends the blocks of a section.
pub(super) fn encode_blocks(
    context: &BlockContext,
    bytes: &[u8],
    block_length: usize,
    frame: &mut Vec<u8>,
) -> Result<Vec<BlockEntry>> {
    let mut entries = Vec::with_capacity(bytes.len().div_ceil(block_length));
    let mut failure = Ok(());
    threads::deliver(
        bytes.chunks(block_length).enumerate(),
        |(index, block)| {
            let mut memory = take_spare();
            let begin = context.encode(block, index * block_length, &mut memory)?;
            Ok((memory, begin, checksum(block)))
        },
        |result: Result<(Vec<u8>, usize, u32)>| match result {
            Ok((memory, begin, checksum)) => {
                let encoded = memory.get(begin..).unwrap_or_default();
                frame.extend_from_slice(encoded);
                entries.push(BlockEntry { length: encoded.len(), checksum });
                keep_spare(memory);
            }
            Err(error) => failure = Err(error),
        },
    );
    failure.map(|()| entries)
}
