//! The memory map, twice: a private, copy-on-write one for arrays that may be written to, and a read-only one, which holds what the file holds. What
//! a program writes into its arrays thus reaches neither the file nor anything that is read from it later: copies, or a delta that takes the
//! file as its base. Until arrays are made, all is read from their map: its pages are then in place. This is one of the few places that touch
//! raw memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Mmap, MmapMut, MmapOptions};

pub(super) struct Map {
    file: Mmap,
    views: MmapMut,
    /// Whether the views' memory may have been written to.
    lent: AtomicBool,
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
        Ok(Map { file, views, lent: AtomicBool::new(false) })
    }

    /// What the file holds.
    pub(super) fn bytes(&self) -> &[u8] {
        if self.lent.load(Ordering::Acquire) { &self.file } else { &self.views }
    }

    /// What views show.
    pub(super) fn views(&self) -> &[u8] {
        &self.views
    }

    /// Where the map for views lies.
    pub(super) fn address(&self) -> *const u8 {
        self.views.as_ptr()
    }

    /// The same, to write to. That changes this process's pages only, and no [`Map::bytes`] that are asked for from now on.
    pub(super) fn lend(&self) -> *mut u8 {
        self.lent.store(true, Ordering::Release);
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
