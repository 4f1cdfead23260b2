//! Fetching ahead: ranges that were announced are downloaded in order, a bounded number of bytes before they are read, so that decoding one
//! tensor overlaps with the download of the next ones. Neighbouring ranges become one request, large ones several.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use ztensor::Result;

use crate::fetch::{CONCURRENT, PART};
use crate::fetcher::Fetcher;
use crate::process;

/// Bytes that may be in memory or on their way before they are read.
const WINDOW: usize = 96 << 20;
/// A gap between two ranges that is cheaper to download than to ask twice: at 100 MB/s it takes 5 ms.
const GAP: u64 = 512 << 10;

/// A download in progress.
pub(crate) struct Ahead {
    fetcher: Arc<Fetcher>,
    /// What is fetched, by offset; no two overlap.
    parts: Vec<Part>,
    state: Mutex<State>,
    arrived: Condvar,
    process: u32,
}

struct Part {
    offset: u64,
    length: usize,
    /// How many of its bytes were announced; the others lie between two ranges that became one request.
    wanted: usize,
}

struct State {
    parts: Vec<Progress>,
    /// The first part that nobody has asked for yet.
    next: usize,
    held: usize,
    in_flight: usize,
    /// Memory of parts that were read, for those to come: fresh pages cost the kernel more than the copy does.
    spare: Vec<Vec<u8>>,
    tasks: Vec<AbortHandle>,
}

enum Progress {
    Waiting,
    Fetching,
    /// The bytes, and how many of those that were announced are still to be read.
    Ready(Vec<u8>, usize),
    /// Read, or failed: whoever wants it fetches it again, and meets the error.
    Gone,
}

impl Ahead {
    /// Starts fetching; `None` where there is nothing to fetch, or no way to.
    pub(crate) fn start(fetcher: Arc<Fetcher>, ranges: Vec<Range<u64>>) -> Option<Arc<Ahead>> {
        let parts = plan(ranges, fetcher.cache.is_some());
        if parts.is_empty() {
            return None;
        }
        let progress = parts.iter().map(|_| Progress::Waiting).collect();
        let state =
            State { parts: progress, next: 0, held: 0, in_flight: 0, spare: Vec::new(), tasks: Vec::new() };
        let ahead = Arc::new(Ahead {
            fetcher,
            parts,
            state: Mutex::new(state),
            arrived: Condvar::new(),
            process: std::process::id(),
        });
        ahead.admit(&mut ahead.state()).ok()?;
        Some(ahead)
    }

    /// Whether this process started it: the threads of another one do not work here.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Whether all of a range is part of the download, and not read yet.
    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        let state = self.state();
        let first = self.parts.partition_point(|part| part.offset + part.length as u64 <= range.start);
        let mut covered = range.start;
        for (part, progress) in self.parts.iter().zip(&state.parts).skip(first) {
            if covered >= range.end || part.offset > covered || matches!(progress, Progress::Gone) {
                break;
            }
            covered = part.offset + part.length as u64;
        }
        covered >= range.end
    }

    /// Copies what was fetched ahead from `offset` on, waiting for what is on its way; returns how many bytes of the buffer are filled.
    pub(crate) fn take(self: &Arc<Self>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        let first = self.parts.partition_point(|part| part.offset + part.length as u64 <= offset);
        for (number, part) in self.parts.iter().enumerate().skip(first) {
            let position = offset + filled as u64;
            if filled == buffer.len() || part.offset > position {
                break;
            }
            let within = (position - part.offset) as usize;
            let count = (part.length - within).min(buffer.len() - filled);
            if !self.take_part(number, within, &mut buffer[filled..filled + count])? {
                break;
            }
            filled += count;
        }
        Ok(filled)
    }

    fn take_part(self: &Arc<Self>, number: usize, within: usize, out: &mut [u8]) -> Result<bool> {
        let mut state = self.state();
        loop {
            match &mut state.parts[number] {
                Progress::Gone => return Ok(false),
                // Wanted before its turn: nobody waits for what does not come.
                Progress::Waiting => self.spawn(&mut state, number)?,
                Progress::Fetching => {
                    process::check_interrupted()?;
                    let waited = self.arrived.wait_timeout(state, process::BETWEEN_LOOKS);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Progress::Ready(bytes, unread) => {
                    out.copy_from_slice(&bytes[within..within + out.len()]);
                    *unread = unread.saturating_sub(out.len());
                    if *unread == 0 {
                        let spare = std::mem::take(bytes);
                        state.spare.push(spare);
                        state.parts[number] = Progress::Gone;
                        state.held -= self.parts[number].length;
                        self.admit(&mut state)?;
                    }
                    return Ok(true);
                }
            }
        }
    }

    /// Starts as many of the next parts as there is room for.
    fn admit(self: &Arc<Self>, state: &mut State) -> Result<()> {
        while let Some(part) = self.parts.get(state.next) {
            if !matches!(state.parts[state.next], Progress::Waiting) {
                state.next += 1;
            } else if state.in_flight < CONCURRENT && (state.held == 0 || state.held + part.length <= WINDOW)
            {
                let number = state.next;
                self.spawn(state, number)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn spawn(self: &Arc<Self>, state: &mut State, number: usize) -> Result<()> {
        state.parts[number] = Progress::Fetching;
        state.held += self.parts[number].length;
        state.in_flight += 1;
        let ahead = Arc::downgrade(self);
        let (fetcher, part) = (Arc::clone(&self.fetcher), &self.parts[number]);
        let (offset, length) = (part.offset, part.length);
        let mut bytes = state.spare.pop().unwrap_or_default();
        let task = process::runtime()?.spawn(async move {
            match bytes.capacity() {
                0 => bytes = vec![0; length],
                _ => bytes.resize(length, 0),
            }
            let fetched = fetcher.fetch_part(offset, &mut bytes).await;
            // Without a reader there is nobody to keep them for.
            if let Some(ahead) = ahead.upgrade() {
                ahead.arrive(number, fetched.map(|()| bytes));
            }
        });
        state.tasks.push(task.abort_handle());
        Ok(())
    }

    fn arrive(self: &Arc<Self>, number: usize, fetched: Result<Vec<u8>>) {
        let mut state = self.state();
        state.in_flight -= 1;
        match fetched {
            Ok(bytes) => state.parts[number] = Progress::Ready(bytes, self.parts[number].wanted),
            Err(_) => {
                // The error is not lost: the reader asks again, and gets the server's answer itself.
                state.parts[number] = Progress::Gone;
                state.held -= self.parts[number].length;
            }
        }
        // A failure to start more shows when they are asked for.
        let _ = self.admit(&mut state);
        drop(state);
        self.arrived.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if self.is_ours() {
            self.state().tasks.iter().for_each(AbortHandle::abort);
        }
    }
}

/// Sorts ranges, joins those that lie close together and cuts what is long: into equal parts, so that the last one is not a sliver that costs
/// a round trip of its own, or at multiples of a part's length, where blocks of a cache end.
fn plan(mut ranges: Vec<Range<u64>>, at_multiples: bool) -> Vec<Part> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let wanted = join(&ranges, 0);
    let longest = PART as u64;
    let mut parts: Vec<Part> = Vec::new();
    for range in join(&wanted, GAP) {
        let count = (range.end - range.start).div_ceil(longest);
        let each = (range.end - range.start).div_ceil(count);
        let mut offset = range.start;
        while offset < range.end {
            let most = if at_multiples { longest - offset % longest } else { each };
            let length = (range.end - offset).min(most) as usize;
            parts.push(Part { offset, length, wanted: 0 });
            offset += length as u64;
        }
    }
    let mut first = 0;
    for part in &mut parts {
        let end = part.offset + part.length as u64;
        while wanted.get(first).is_some_and(|range| range.end <= part.offset) {
            first += 1;
        }
        let inside = wanted[first..].iter().take_while(|range| range.start < end);
        part.wanted = inside.map(|range| (range.end.min(end) - range.start.max(part.offset)) as usize).sum();
    }
    parts
}

/// Joins sorted ranges that overlap, or lie no further apart than `gap`.
fn join(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => joined.push(range.clone()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let parts = plan(ranges.iter().map(|(start, end)| *start..*end).collect(), false);
        parts.iter().map(|part| (part.offset, part.offset + part.length as u64)).collect()
    }

    #[test]
    fn neighbours_become_one_request_and_large_ranges_several() {
        assert_eq!(planned(&[(100, 200), (0, 50), (60, 90), (5, 5)]), [(0, 200)]);
        let far = GAP + 201;
        assert_eq!(planned(&[(0, 200), (far, far + 1)]), [(0, 200), (far, far + 1)]);
        let part = PART as u64;
        assert_eq!(planned(&[(0, 2 * part + 2)]).len(), 3);
        assert_eq!(planned(&[(7, 2 * part + 7)]), [(7, part + 7), (part + 7, 2 * part + 7)]);
    }

    #[test]
    fn parts_cover_every_range_once() {
        let ranges = [(0, 3 << 20), (1 << 20, 40 << 20), (90 << 20, 91 << 20), ((1 << 40) - 5, 1 << 40)];
        let parts = planned(&ranges);
        assert!(parts.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        for (start, end) in ranges {
            let covered: u64 =
                parts.iter().map(|part| part.1.min(end).saturating_sub(part.0.max(start))).sum();
            assert_eq!(covered, end - start);
        }
    }

    #[test]
    fn a_part_is_done_when_what_was_announced_of_it_is_read() {
        let far = 20 << 20;
        let ranges = vec![0..100, 50..150, 200..300, far..far + 10];
        let wanted: Vec<_> = plan(ranges, false).iter().map(|part| (part.length, part.wanted)).collect();
        assert_eq!(wanted, [(300, 250), (10, 10)]);
        let parts = plan(vec![0..PART as u64, PART as u64 + 6..2 * PART as u64 + 6], false);
        assert_eq!(parts.iter().map(|part| part.wanted).sum::<usize>(), 2 * PART);
    }

    #[test]
    fn parts_of_cached_files_end_where_blocks_do() {
        let part = PART as u64;
        let parts = plan(vec![5..part, part..2 * part + 9], true);
        let spans: Vec<_> =
            parts.iter().map(|part| (part.offset, part.offset + part.length as u64)).collect();
        assert_eq!(spans, [(5, part), (part, 2 * part), (2 * part, 2 * part + 9)]);
    }
}
