//! Memory for decoded data: zeroed by the operating system rather than by us, and in huge pages where it offers them, since faulting in small pages one by
//! one takes longer than decoding into them.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use std::alloc::{Layout, alloc_zeroed};

/// Allocations from this size on ask for huge pages.
#[cfg(target_os = "linux")]
const HUGE: usize = 4 << 20;

/// `length` zero bytes, or an error if there is not enough memory.
pub(crate) fn zeroed(length: usize) -> Result<Vec<u8>> {
    if length == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<u8>(length).map_err(|_| Error::out_of_memory(length))?;
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(Error::out_of_memory(length));
    }
    // SAFETY: the global allocator gave `length` initialised bytes with the layout that `Vec<u8>` frees.
    let mut memory = unsafe { Vec::from_raw_parts(start, length, length) };
    advise(&mut memory);
    Ok(memory)
}

/// An empty vector with room for so many bytes, which takes no memory before it is used. Where there is not enough the vector will have to grow.
pub(crate) fn with_room_for(length: usize) -> Vec<u8> {
    let mut memory = Vec::new();
    if memory.try_reserve_exact(length).is_ok() {
        advise(&mut memory);
    }
    memory
}

/// Asks for huge pages.
fn advise(memory: &mut Vec<u8>) {
    #[cfg(target_os = "linux")]
    if memory.capacity() >= HUGE {
        const PAGE: usize = 2 << 20;
        let start = memory.as_mut_ptr();
        let skip = start.align_offset(PAGE);
        let inside = memory.capacity().saturating_sub(skip) / PAGE * PAGE;
        if inside > 0 {
            // SAFETY: the range lies inside the allocation; the advice does not change its contents. It may be refused, which costs speed only.
            unsafe { libc::madvise(start.add(skip).cast(), inside, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_zero_and_impossible_sizes_are_refused() {
        for length in [0, 1, 4096, 9 << 20] {
            let memory = super::zeroed(length).unwrap();
            assert!(memory.len() == length && memory.iter().all(|&byte| byte == 0));
        }
        assert!(super::zeroed(usize::MAX).is_err());
        assert!(super::zeroed(isize::MAX as usize).is_err());
    }
}
