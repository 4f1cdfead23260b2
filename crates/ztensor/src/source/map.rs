//! The memory map. It is private and copy-on-write: arrays over it may be written to, and what is written stays in this
//! process. This is one of the few places that touch raw memory.
#![allow(unsafe_code)]

use std::fs::File;

use memmap2::{MmapMut, MmapOptions};

pub(super) struct Map(MmapMut);

impl Map {
    pub(super) fn new(file: &File, length: u64) -> std::io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| {
            std::io::Error::new(std::io::ErrorKind::FileTooLarge, "the file is larger than the address space")
        })?;
        // SAFETY: the map is private, so nothing this process writes reaches the file. Another process that truncates the file
        // while it is mapped can still make a read fault; that is the known cost of every memory map, documented for
        // users together with `Io::Read`, which is chosen automatically on file systems where it is likely.
        // Swap is not reserved: a private map of a file larger than memory must still open.
        let map = unsafe { MmapOptions::new().len(length).no_reserve_swap().map_copy(file)? };
        Ok(Map(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where the map lies. Writing there changes this process's pages only.
    pub(super) fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut()
    }

    pub(super) fn will_need(&self, offset: u64, length: u64) {
        #[cfg(unix)]
        if let (Ok(offset), Ok(length)) = (usize::try_from(offset), usize::try_from(length))
            && offset.checked_add(length).is_some_and(|end| end <= self.0.len())
        {
            // Advice only: a kernel that declines it changes nothing.
            let _ = self.0.advise_range(memmap2::Advice::WillNeed, offset, length);
        }
        #[cfg(not(unix))]
        let _ = (offset, length);
    }
}
