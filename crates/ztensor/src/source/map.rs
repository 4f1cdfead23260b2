//! The memory map, twice: a read-only one, which holds what the file holds, and, from the moment that
//! somebody asks for it, a private, copy-on-write one for arrays that may be written to. What a program
//! writes into its arrays thus reaches neither the file nor anything that is read from it later: copies, or a
//! delta that takes the file as its base. Slices are of the read-only map, always: of memory that NumPy may
//! write to at any time, Rust must not hold any. This is one of the few places that touch raw memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapMut, MmapOptions};

pub(super) struct Map {
    file: Mmap,
    /// The private one; `None` where it was asked for and could not be made.
    views: OnceLock<Option<MmapMut>>,
    /// How many are looking at the views' memory, and [`LENT`] once it may be written to.
    state: AtomicUsize,
}

const LENT: usize = 1 << (usize::BITS - 1);

impl Map {
    pub(super) fn new(file: &File, length: u64) -> std::io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| {
            std::io::Error::new(std::io::ErrorKind::FileTooLarge, "the file is larger than the address space")
        })?;
        // SAFETY: the map is read-only, so nothing this process writes reaches the file. Another process that
        // truncates the file while it is mapped can still make a read fault; that is the known cost of every
        // memory map, documented for users together with `Io::Read`, which is chosen automatically on file
        // systems where it is likely.
        let file = unsafe { MmapOptions::new().len(length).map(file)? };
        Ok(Map { file, views: OnceLock::new(), state: AtomicUsize::new(0) })
    }

    /// The map for views, which is made from the file if that is open still.
    fn views(&self, file: Option<&File>) -> Option<&MmapMut> {
        let make = || {
            // SAFETY: as above; the map is private, so nothing this process writes reaches the file. Swap is
            // not reserved: a private map of a file larger than memory must still open.
            let map =
                |file| unsafe { MmapOptions::new().len(self.file.len()).no_reserve_swap().map_copy(file) };
            file.and_then(|file| map(file).ok())
        };
        match file {
            // Whoever has no file does not decide for those who come with one.
            None => self.views.get()?.as_ref(),
            Some(_) => self.views.get_or_init(make).as_ref(),
        }
    }

    /// What the file holds.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.file
    }

    /// Looks at the memory for views, whose pages are then in place for those who use them. `None` once it
    /// was lent: others may write to it from then on.
    pub(super) fn look_at_views<T>(&self, file: Option<&File>, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        /// One that looks.
        struct Looking<'a>(&'a AtomicUsize);
        impl Drop for Looking<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        let before = self.state.fetch_add(1, Ordering::Acquire);
        let _looking = Looking(&self.state);
        // The slice ends with the closure, and until then nobody is given the address to write to.
        self.views(file).filter(|_| before & LENT == 0).map(|views| look(views))
    }

    /// Where the map for views lies.
    pub(super) fn address(&self, file: Option<&File>) -> Option<*const u8> {
        self.views(file).map(|views| views.as_ptr())
    }

    /// The same, to write to, when nobody looks at it any more. What is written changes this process's pages
    /// only, and no [`Map::bytes`].
    pub(super) fn lend(&self, file: Option<&File>) -> Option<*mut u8> {
        let views = self.views(file)?;
        let mut state = self.state.fetch_or(LENT, Ordering::AcqRel);
        while state & !LENT != 0 {
            // Another thread checks a tensor; those that come now look elsewhere.
            std::thread::yield_now();
            state = self.state.load(Ordering::Acquire);
        }
        Some(views.as_ptr().cast_mut())
    }
}
