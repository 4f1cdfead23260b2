//! The memory map, twice: one to read from, which holds what the file holds, and a private, copy-on-write one for arrays that may be
//! written to. What a program writes into its arrays thus reaches neither the file nor anything that is read from it later: copies, checks,
//! or a delta that takes the file as its base. This is one of the few places that touch raw memory.
#![allow(unsafe_code)]

use std::fs::File;

use memmap2::{Mmap, MmapMut, MmapOptions};

pub(super) struct Map {
    file: Mmap,
    views: MmapMut,
}

impl Map {
    pub(super) fn new(file: &File, length: u64) -> std::io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| {
            std::io::Error::new(std::io::ErrorKind::FileTooLarge, "the file is larger than the address space")
        })?;
        // SAFETY: one map is read-only and the other private, so nothing this process writes reaches the file. Another process that
        // truncates the file while it is mapped can still make a read fault; that is the known cost of every memory map, documented for
        // users together with `Io::Read`, which is chosen automatically on file systems where it is likely.
        // Swap is not reserved: a private map of a file larger than memory must still open.
        let (file, views) = unsafe {
            let options = MmapOptions::new().len(length).no_reserve_swap().clone();
            (options.map(file)?, options.map_copy(file)?)
        };
        Ok(Map { file, views })
    }

    /// What the file holds.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.file
    }

    /// Where the map for views lies. Writing there changes this process's pages only, and none of [`Map::bytes`].
    pub(super) fn address(&self) -> *mut u8 {
        self.views.as_ptr().cast_mut()
    }

    pub(super) fn will_need(&self, offset: u64, length: u64) {
        #[cfg(unix)]
        if let (Ok(offset), Ok(length)) = (usize::try_from(offset), usize::try_from(length))
            && offset.checked_add(length).is_some_and(|end| end <= self.file.len())
        {
            // Advice only: a kernel that declines it changes nothing.
            let _ = self.file.advise_range(memmap2::Advice::WillNeed, offset, length);
        }
        #[cfg(not(unix))]
        let _ = (offset, length);
    }
}
