//! Fetching ahead: ranges that were announced are downloaded in order, a bounded number of bytes before they are read, so that decoding one
//! tensor overlaps with the download of the next ones. Neighbouring ranges become one request, large ones several.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use ztensor::Result;

use crate::fetch::{CONCURRENT, PART, fetch_part};
use crate::origin::Origin;
use crate::process;

/// Bytes that may be in memory or on their way before they are read.
const WINDOW: usize = 96 << 20;
/// A gap between two ranges that is cheaper to download than to ask twice: at 100 MB/s it takes 5 ms.
const GAP: u64 = 512 << 10;

/// A download in progress.
pub(crate) struct Ahead {
    origin: Arc<dyn Origin>,
    /// What is fetched, by offset; no two overlap.
    parts: Vec<Part>,
    state: Mutex<State>,
    arrived: Condvar,
    process: u32,
}

struct Part {
    offset: u64,
    length: usize,
}

struct State {
    parts: Vec<Progress>,
    /// The first part that nobody has asked for yet.
    next: usize,
    held: usize,
    in_flight: usize,
    tasks: Vec<AbortHandle>,
}

enum Progress {
    Waiting,
    Fetching,
    /// The bytes, and how many of them are still to be read.
    Ready(Vec<u8>, usize),
    /// Read, or failed: whoever wants it fetches it again, and meets the error.
    Gone,
}

impl Ahead {
    /// Starts fetching; `None` where there is nothing to fetch, or no way to.
    pub(crate) fn start(origin: Arc<dyn Origin>, ranges: Vec<Range<u64>>) -> Option<Arc<Ahead>> {
        let parts = plan(ranges);
        if parts.is_empty() {
            return None;
        }
        let progress = parts.iter().map(|_| Progress::Waiting).collect();
        let state = State { parts: progress, next: 0, held: 0, in_flight: 0, tasks: Vec::new() };
        let ahead = Arc::new(Ahead {
            origin,
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
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Progress::Ready(bytes, unread) => {
                    out.copy_from_slice(&bytes[within..within + out.len()]);
                    *unread = unread.saturating_sub(out.len());
                    if *unread == 0 {
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
        let (origin, part) = (Arc::clone(&self.origin), &self.parts[number]);
        let (offset, length) = (part.offset, part.length);
        let task = process::runtime()?.spawn(async move {
            let mut bytes = vec![0; length];
            let fetched = fetch_part(&*origin, offset, &mut bytes).await;
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
            Ok(bytes) => state.parts[number] = Progress::Ready(bytes, self.parts[number].length),
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

/// Sorts ranges, joins those that lie close together and cuts what is long.
fn plan(mut ranges: Vec<Range<u64>>) -> Vec<Part> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    let parts = joined.into_iter().flat_map(|range| {
        let count = (range.end - range.start).div_ceil(PART as u64);
        // Equal parts: the last one is then not a sliver that costs a round trip of its own.
        let each = (range.end - range.start).div_ceil(count);
        (0..count).map(move |number| {
            let offset = range.start + number * each;
            Part { offset, length: (range.end - offset).min(each) as usize }
        })
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let parts = plan(ranges.iter().map(|(start, end)| *start..*end).collect());
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
}
