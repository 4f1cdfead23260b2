//! Bringing in fresh memory just before it is filled, in huge or in small pages, whichever come faster at the
//! moment. Neither is always the right kind. Huge pages take one fault instead of 512, and are zeroed at the
//! speed of memory. But a virtual machine gives free memory back to its host in whole huge pages, and
//! touching such a one means waiting for the host, while small pages come from memory that was in use a
//! moment ago: of 2.7 GB in huge pages the first load of a process took 3 to 12 s on such a machine, in small
//! ones about 1 s, and where the host still had the huge ones 0.4 s. The kernel hands out what was freed last
//! first, so that the first pages say little about those after them; hence every one is timed. This is the
//! only place that asks for huge pages.
#![allow(unsafe_code)]

use crate::threads;
#[cfg(any(target_os = "linux", test))]
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Bytes that one thread brings in and fills at a time: they are still in its second- or third-level cache
/// when they are filled. A round number.
const PIECE: usize = 4 << 20;

/// Memory in parts that threads bring in and fill by themselves. No huge page lies in two of them.
pub fn pieces(memory: &mut [u8]) -> impl Iterator<Item = &mut [u8]> + Send {
    let mut rest = memory;
    std::iter::from_fn(move || {
        let whole = std::mem::take(&mut rest);
        let length = (PIECE - whole.as_ptr().addr() % PIECE).min(whole.len());
        let (piece, after) = whole.split_at_mut(length);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Brings in memory that is about to be filled, on all threads. Its content is lost.
pub fn bring_all(memory: &mut [u8]) {
    if memory.len() >= HUGE {
        let pieces: Vec<&mut [u8]> = pieces(memory).collect();
        threads::map(pieces.into_iter(), bring);
    }
}

/// Brings in memory that is about to be filled, as far as it is not there yet. Its content is lost.
pub fn bring(memory: &mut [u8]) {
    #[cfg(target_os = "linux")]
    {
        let before = memory.as_ptr().addr().next_multiple_of(HUGE) - memory.as_ptr().addr();
        let (head, inside) = memory.split_at_mut(before.min(memory.len()));
        let (huge, tail) = inside.split_at_mut(inside.len() / HUGE * HUGE);
        for page in huge.chunks_exact_mut(HUGE) {
            if !kernel::is_present(page) {
                COSTS.bring(page);
            }
        }
        // Too short for a huge page; small ones at once take two thirds of what they take one by one.
        for part in [head, tail] {
            let part = kernel::whole_pages(part);
            if part.len() >= FEWEST && !kernel::is_present(part) {
                kernel::bring_small(part);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Fewer bytes are faulted in by whoever fills them. A round number: 16 small pages.
#[cfg(target_os = "linux")]
const FEWEST: usize = 64 << 10;

#[cfg(target_os = "linux")]
static COSTS: Costs = Costs::new();

/// What 2 MiB cost lately in nanoseconds of CPU time, as one huge page and as small ones. Approximate, as
/// threads update it without waiting for each other.
#[cfg(any(target_os = "linux", test))]
struct Costs {
    huge: AtomicU32,
    small: AtomicU32,
    /// How many times small pages are taken before huge ones are tried again, and how many they were the last
    /// time.
    wait: AtomicU32,
    pause: AtomicU32,
}

/// What small pages are taken to cost until they have been timed: 1 µs each, the order of magnitude of a
/// fault.
#[cfg(any(target_os = "linux", test))]
const USUAL: u32 = 500_000;
/// Huge pages that turned out slow are tried again after 16 MiB, and after twice as much each time up to
/// 2 GiB, so that a load of gigabytes waits for a few. Round numbers.
#[cfg(any(target_os = "linux", test))]
const FIRST_PAUSE: u32 = 8;
#[cfg(any(target_os = "linux", test))]
const LONGEST_PAUSE: u32 = 1024;

#[cfg(any(target_os = "linux", test))]
impl Costs {
    const fn new() -> Costs {
        Costs {
            huge: AtomicU32::new(0),
            small: AtomicU32::new(USUAL),
            wait: AtomicU32::new(0),
            pause: AtomicU32::new(0),
        }
    }

    /// Whether the next 2 MiB shall be one huge page.
    fn prefer_huge(&self) -> bool {
        self.wait.fetch_update(Relaxed, Relaxed, |wait| wait.checked_sub(1)).is_err()
    }

    fn huge_took(&self, nanoseconds: u32) {
        self.huge.store(nanoseconds, Relaxed);
        let pause = match nanoseconds > self.small.load(Relaxed) {
            true => (self.pause.load(Relaxed) * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
            false => 0,
        };
        self.pause.store(pause, Relaxed);
        self.wait.store(pause, Relaxed);
    }

    fn small_took(&self, nanoseconds: u32) {
        // Smoothed: some come from lists that the kernel keeps at hand, and cost nothing for once.
        let small = self.small.load(Relaxed) / 4 * 3 + nanoseconds / 4;
        self.small.store(small, Relaxed);
        if small > self.huge.load(Relaxed) {
            self.wait.store(0, Relaxed);
        }
    }

    #[cfg(target_os = "linux")]
    fn bring(&self, page: &mut [u8]) {
        if self.prefer_huge() {
            self.huge_took(kernel::timed(|| kernel::bring_huge(page)));
        } else {
            self.small_took(kernel::timed(|| kernel::bring_small(page)));
        }
    }
}

/// Asks for huge pages under memory that will be filled bit by bit, if those were the faster ones lately.
pub(crate) fn advise(memory: &mut Vec<u8>) {
    #[cfg(target_os = "linux")]
    if memory.capacity() >= 2 * HUGE && COSTS.wait.load(Relaxed) == 0 {
        kernel::advise_huge(memory.spare_capacity_mut());
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

#[cfg(target_os = "linux")]
mod kernel {
    use super::HUGE;
    use std::mem::MaybeUninit;

    const SMALL: usize = 4096;

    /// Whether the first of some pages is in memory; where the kernel does not say, it is counted as such.
    pub(super) fn is_present(page: &[u8]) -> bool {
        let mut state = 1_u8;
        // SAFETY: the range lies inside the slice, is aligned to pages, and has one page, for which one byte
        // is written.
        let known = unsafe { libc::mincore(page.as_ptr().cast_mut().cast(), SMALL, &raw mut state) };
        known != 0 || state & 1 == 1
    }

    /// The pages that lie in some memory as a whole.
    pub(super) fn whole_pages(memory: &mut [u8]) -> &mut [u8] {
        let skipped = memory.as_ptr().addr().next_multiple_of(SMALL) - memory.as_ptr().addr();
        let inside = memory.get_mut(skipped..).unwrap_or_default();
        let length = inside.len() / SMALL * SMALL;
        &mut inside[..length]
    }

    /// CPU time of this thread: that of others, which may have the core meanwhile, says nothing about pages.
    pub(super) fn timed(work: impl FnOnce()) -> u32 {
        let before = thread_time();
        work();
        u32::try_from(thread_time().saturating_sub(before)).unwrap_or(u32::MAX)
    }

    fn thread_time() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel fills the struct, or leaves it as it is.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Brings in 2 MiB as one page, if the kernel has one. It need not: then most of it stays to be brought
    /// in by whoever fills it.
    pub(super) fn bring_huge(page: &mut [u8]) {
        advise(page.as_mut_ptr(), page.len());
        touch(&mut page[..1]);
    }

    pub(super) fn bring_small(page: &mut [u8]) {
        // SAFETY: the range lies inside the slice and is aligned to pages; the advice brings pages in and
        // changes no contents.
        let done = unsafe { libc::madvise(page.as_mut_ptr().cast(), page.len(), libc::MADV_POPULATE_WRITE) };
        if done != 0 {
            // A kernel before 5.14.
            page.chunks_mut(SMALL).for_each(touch);
        }
    }

    /// Writes to the first byte, whatever the compiler thinks of it.
    fn touch(memory: &mut [u8]) {
        if let Some(first) = memory.first_mut() {
            // SAFETY: the byte is borrowed for writing.
            unsafe { std::ptr::from_mut(first).write_volatile(0) };
        }
    }

    pub(super) fn advise_huge(memory: &mut [MaybeUninit<u8>]) {
        let skipped = memory.as_ptr().addr().next_multiple_of(HUGE) - memory.as_ptr().addr();
        if let Some(inside) = memory.get_mut(skipped..) {
            advise(inside.as_mut_ptr().cast(), inside.len() / HUGE * HUGE);
        }
    }

    fn advise(start: *mut u8, length: usize) {
        if length > 0 {
            // SAFETY: callers give a range inside memory that they borrow for writing; the advice does not
            // change its contents. It may be refused, which costs speed only.
            unsafe { libc::madvise(start.cast(), length, libc::MADV_HUGEPAGE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_of_the_memory_and_end_where_huge_pages_do() {
        let mut memory = vec![0; 3 * PIECE + 17];
        let (start, length) = (memory.as_ptr().addr(), memory.len());
        let mut end = start;
        for piece in pieces(&mut memory) {
            assert_eq!(piece.as_ptr().addr(), end);
            end += piece.len();
            assert!(end.is_multiple_of(PIECE) || end == start + length);
        }
        assert_eq!(end, start + length);
        assert_eq!(pieces(&mut []).count(), 0);
    }

    #[test]
    fn what_was_brought_in_can_be_filled() {
        for length in [0, 1, HUGE, 9 * HUGE + 5] {
            let mut memory = vec![0; length];
            bring_all(&mut memory);
            memory.fill(7);
            // What is there already keeps its content.
            memory.chunks_mut(PIECE).for_each(bring);
            assert!(memory.iter().all(|&byte| byte == 7));
        }
    }

    /// How many of `count` were huge, with pages that cost so much.
    fn huge(costs: &Costs, count: u32, huge: u32, small: u32) -> u32 {
        let step = |_: &u32| match costs.prefer_huge() {
            true => {
                costs.huge_took(huge);
                true
            }
            false => {
                costs.small_took(small);
                false
            }
        };
        (0..count).filter(step).count() as u32
    }

    #[test]
    fn the_faster_kind_is_taken_and_the_other_tried_ever_more_rarely() {
        let costs = Costs::new();
        assert_eq!(huge(&costs, 1000, 100_000, 500_000), 1000);
        let tried = huge(&costs, 1400, 5_000_000, 500_000);
        assert!((1..=9).contains(&tried), "{tried}");
        // Huge pages became fast again.
        let taken = huge(&costs, 3000, 100_000, 500_000);
        assert!(taken > 1900, "{taken}");
        // Both are slow: small ones have no advantage then.
        let taken = huge(&costs, 1000, 3_000_000, 4_000_000);
        assert!(taken > 900, "{taken}");
    }
}
