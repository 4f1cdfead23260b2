//! The folder of a cache, and its bound. Several processes may fill it, each without knowing of the others: each counts what it writes itself,
//! and looks at the folder again before that could matter.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ztensor::{Error, Result};

use crate::process::PerProcess;

/// What everything lies under, so that nothing of the person's own is ever removed.
const NAME: &str = "ztensor-ranges-1";
/// Files that are no entries are what a killed process left, once they are as old as this.
const LEFT_OVER: Duration = Duration::from_secs(3600);

/// The folder of a cache. Without locks: a forked process may have them for ever.
pub(super) struct Folder {
    path: PathBuf,
    size: u64,
    /// Bytes in the folder when it was last looked at, and what this process has claimed since.
    used: AtomicU64,
    /// Of those, what has been claimed since.
    claimed: AtomicU64,
    /// Bytes that are claimed and may not be in the folder yet.
    in_flight: AtomicU64,
    /// The process that is looking at it, or 0.
    sweeper: AtomicU32,
}

/// Room for an entry, until it is written or given up.
pub(super) struct Room<'a> {
    folder: &'a Folder,
    length: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.folder.in_flight.fetch_sub(self.length, Ordering::SeqCst);
    }
}

struct Found {
    path: PathBuf,
    length: u64,
    used: SystemTime,
}

type Folders = Mutex<HashMap<(PathBuf, u64), &'static Folder>>;

impl Folder {
    /// The folder at a path, made if it is not there. Each is opened once in a process, and kept.
    pub(super) fn open(path: PathBuf, size: u64) -> Result<&'static Folder> {
        static FOLDERS: PerProcess<Folders> = PerProcess::new();
        let mut folders =
            FOLDERS.get(|| Ok(Mutex::default()))?.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(&(path.clone(), size)) {
            return Ok(folder);
        }
        let folder = Folder {
            path: path.join(NAME),
            size,
            used: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            sweeper: AtomicU32::new(0),
        };
        for first in 0..=u8::MAX {
            let path = folder.path.join(format!("{first:02x}"));
            std::fs::create_dir_all(&path)
                .map_err(|cause| Error::io("cannot make the folder of the cache of ranges", &path, cause))?;
        }
        folder.sweep()?;
        let folder: &'static Folder = Box::leak(Box::new(folder));
        folders.insert((path, size), folder);
        Ok(folder)
    }

    /// The file of an entry.
    pub(super) fn entry(&self, key: &[u8; 32], number: u64) -> PathBuf {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.path.join(&key[..2]).join(format!("{key}-{number:x}"))
    }

    /// Claims room for some bytes, where need be by removing what was not used for longest. `None` where that is not to be had without waiting
    /// for another thread: those bytes stay out of the cache.
    pub(super) fn claim(&self, length: u64) -> Result<Option<Room<'_>>> {
        self.in_flight.fetch_add(length, Ordering::SeqCst);
        let room = Room { folder: self, length };
        let used = self.used.fetch_add(length, Ordering::SeqCst) + length;
        let claimed = self.claimed.fetch_add(length, Ordering::Relaxed) + length;
        // Two processes that each write this much between two looks stay within the bound: sweeping leaves twice as much.
        if used > self.size || claimed > self.size / 16 {
            self.sweep()?;
        }
        if self.used.load(Ordering::SeqCst) > self.size {
            self.used.fetch_sub(length, Ordering::SeqCst);
            return Ok(None);
        }
        Ok(Some(room))
    }

    fn sweep(&self) -> Result<()> {
        let this = std::process::id();
        let sweeping = self.sweeper.load(Ordering::Acquire);
        if sweeping == this
            || self.sweeper.compare_exchange(sweeping, this, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return Ok(());
        }
        let swept = self.sweep_now();
        self.sweeper.store(0, Ordering::Release);
        swept
    }

    fn sweep_now(&self) -> Result<()> {
        self.claimed.store(0, Ordering::Relaxed);
        // In this order: what is claimed later is added to `used` later, what was claimed before is in flight or will be found in the folder.
        let before = self.used.load(Ordering::SeqCst);
        let in_flight = self.in_flight.load(Ordering::SeqCst);
        let mut found = self.list()?;
        let mut used = in_flight + found.iter().map(|file| file.length).sum::<u64>();
        found.sort_unstable_by_key(|file| file.used);
        for file in found {
            if used <= self.size - self.size / 8 {
                break;
            }
            remove(&file.path)?;
            used -= file.length;
        }
        self.used.fetch_add(used.wrapping_sub(before), Ordering::SeqCst);
        Ok(())
    }

    fn list(&self) -> Result<Vec<Found>> {
        let fail = |cause| Error::io("cannot look at the cache of ranges", &self.path, cause);
        let now = SystemTime::now();
        let mut found = Vec::new();
        for first in 0..=u8::MAX {
            for file in std::fs::read_dir(self.path.join(format!("{first:02x}"))).map_err(fail)? {
                let file = file.map_err(fail)?;
                let metadata = match file.metadata() {
                    Ok(metadata) => metadata,
                    // Another process has removed it.
                    Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(cause) => return Err(fail(cause)),
                };
                let used = metadata.modified().map_err(fail)?;
                let path = file.path();
                if is_entry(&path) {
                    found.push(Found { path, length: metadata.len(), used });
                } else if metadata.is_file() && now.duration_since(used).is_ok_and(|age| age > LEFT_OVER) {
                    remove(&path)?;
                }
            }
        }
        Ok(found)
    }
}

fn is_entry(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.is_some_and(|(key, number)| key.len() == 64 && is_hex(key) && !number.is_empty() && is_hex(number))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        // Another process was quicker.
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|cause| Error::io("cannot remove from the cache of ranges", path, cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::entry;

    #[test]
    fn the_bound_is_kept_and_what_was_used_last_stays() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().to_path_buf(), 8 << 20).unwrap();
        let (key, block) = ([3; 32], vec![5; 1 << 20]);
        let put = |number| {
            let _room = folder.claim(entry::length(block.len())).unwrap().expect("room for one entry");
            entry::write(&folder.entry(&key, number), &key, number, &block).unwrap();
        };
        put(0);
        for number in 1..40 {
            put(number);
            // Times of files are no finer than a tick of the kernel's clock.
            std::thread::sleep(Duration::from_millis(12));
            let used: u64 = folder.list().unwrap().iter().map(|file| file.length).sum();
            assert!(used <= 8 << 20, "{used} bytes after {number} entries");
            let first = entry::read(&folder.entry(&key, 0), &key, 0, block.len()).unwrap();
            assert!(first.is_some(), "what is used all the time was removed by entry {number}");
        }
        assert!(folder.list().unwrap().len() >= 6);
    }

    #[test]
    fn the_bound_is_kept_by_many_threads() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().to_path_buf(), 8 << 20).unwrap();
        let block = &vec![5; 1 << 20];
        for round in 0..20 {
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    scope.spawn(move || {
                        for number in 3 * round..3 * round + 3 {
                            if let Some(_room) = folder.claim(entry::length(block.len())).unwrap() {
                                let path = folder.entry(&[thread; 32], number);
                                entry::write(&path, &[thread; 32], number, block).unwrap();
                            }
                        }
                    });
                }
            });
            // Nobody writes now: a list that is made meanwhile may have what goes and what comes after it, and so more than there ever was.
            let used: u64 = folder.list().unwrap().iter().map(|file| file.length).sum();
            assert!(used <= 8 << 20, "{used} bytes");
        }
        assert!(folder.list().unwrap().len() >= 4);
        assert_eq!(folder.in_flight.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_is_no_entry_is_left_alone_until_it_is_old() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().to_path_buf(), 8 << 20).unwrap();
        let (young, old) = (folder.path.join("00/young"), folder.path.join("00/old"));
        let mine = place.path().join("mine");
        for path in [&young, &old, &mine] {
            std::fs::write(path, "x").unwrap();
        }
        let long_ago = SystemTime::now() - 2 * LEFT_OVER;
        for path in [&old, &mine] {
            std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        folder.sweep().unwrap();
        assert!(young.exists() && !old.exists() && mine.exists());
    }
}
