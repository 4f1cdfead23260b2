//! Memory for the next load, and the next frame: blocks that arrays have let go, and buffers that frames were
//! made in. Filling memory that is already there is three times as fast as having the kernel bring and clear
//! new pages. Blocks that are kept are the kernel's to take back whenever it needs memory, and bounded all
//! the same.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Mutex;

use memmap2::MmapMut;

/// Bytes kept at most; the oldest go first.
const MOST: usize = 1 << 30;

/// Never waited for: in a forked process its holder may not exist any more.
static SPARE: Mutex<Spare> = Mutex::new(Spare { blocks: VecDeque::new(), bytes: 0, buffers: Vec::new() });

/// How many buffers are kept, one per thread that compresses, and the most bytes of each.
const BUFFERS: usize = 8;
const LONGEST_BUFFER: usize = 16 << 20;

struct Spare {
    blocks: VecDeque<MmapMut>,
    bytes: usize,
    buffers: Vec<Vec<u8>>,
}

/// A buffer for a frame, whose size, and so that of its `bytes`, is not known before it is made.
pub(crate) fn take_buffer() -> Vec<u8> {
    SPARE.try_lock().ok().and_then(|mut spare| spare.buffers.pop()).unwrap_or_default()
}

/// Keeps a buffer, unless it is so large that bringing in its memory is a small part of filling it.
pub(crate) fn keep_buffer(buffer: Vec<u8>) {
    if buffer.capacity() <= LONGEST_BUFFER
        && let Ok(mut spare) = SPARE.try_lock()
        && spare.buffers.len() < BUFFERS
    {
        spare.buffers.push(buffer);
    }
}

/// A block of exactly this length, if one is kept. Its content is arbitrary.
pub(crate) fn take(length: usize) -> Option<MmapMut> {
    let mut spare = SPARE.try_lock().ok()?;
    let number = spare.blocks.iter().position(|block| block.len() == length)?;
    let block = spare.blocks.remove(number)?;
    spare.bytes -= length;
    Some(block)
}

/// Keeps a block that nothing refers to any more.
pub(crate) fn keep(block: MmapMut) {
    if block.len() > MOST || !offer_to_kernel(&block) {
        return;
    }
    let mut gone = Vec::new();
    let Ok(mut spare) = SPARE.try_lock() else { return };
    spare.bytes += block.len();
    spare.blocks.push_back(block);
    while spare.bytes > MOST
        && let Some(oldest) = spare.blocks.pop_front()
    {
        spare.bytes -= oldest.len();
        gone.push(oldest);
    }
    // Unmapping takes time and must not hold up other threads.
    drop(spare);
    drop(gone);
}

/// Lets the kernel take the pages when memory runs short, and not before. Whether it agreed.
#[cfg(target_os = "linux")]
fn offer_to_kernel(block: &MmapMut) -> bool {
    // SAFETY: the advice lets pages turn to zeros until they are written again. No reference into the block
    // exists: arrays over it are gone, and whoever takes it from here counts its content as arbitrary.
    unsafe { block.unchecked_advise(memmap2::UncheckedAdvice::Free) }.is_ok()
}

/// Elsewhere nothing is kept: without such an offer it would be memory that nobody else can have.
#[cfg(not(target_os = "linux"))]
fn offer_to_kernel(_: &MmapMut) -> bool {
    false
}
