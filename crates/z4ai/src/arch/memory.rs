//! Memory for decoded data: zeroed by the operating system rather than by us. Its pages are mapped on first
//! use; [`super::pages`] faults them in.
#![allow(unsafe_code)]

use super::pages;
use crate::error::{Error, Result};
use std::alloc::{Layout, alloc_zeroed};

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
    Ok(unsafe { Vec::from_raw_parts(start, length, length) })
}

/// An empty vector with a capacity of so many bytes, whose pages are mapped on first use. Where there is not
/// enough memory the vector has to grow instead.
pub(crate) fn with_room_for(length: usize) -> Vec<u8> {
    let mut memory = Vec::new();
    if memory.try_reserve_exact(length).is_ok() {
        pages::advise(&mut memory);
    }
    memory
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
