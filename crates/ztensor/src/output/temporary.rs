//! The file that becomes the output when it is complete. On Linux it has no name until then, and a new file gets its own name in one step: whatever
//! ends the process, nothing is left behind. To replace a file it needs a name for the moment before the rename; elsewhere, and on file systems
//! without nameless files, it has one all the time. That name follows from the target's, so that the next write to the target removes what a killed
//! process left: a lock tells it from a file that is being written.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::disk;
use super::owner::Owner;

/// A file that is being written, and its name for now, if it has one.
pub(super) struct Temporary {
    name: Option<PathBuf>,
    owner: Owner,
}

impl Temporary {
    /// An empty file in the folder of the target. The process's umask applies, as it would to a file created in the ordinary way.
    pub(super) fn create(target: &Path) -> Result<(File, Temporary)> {
        remove_left_over(target);
        let owner = Owner::current();
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed(super::folder_of(target)) {
            return Ok((file, Temporary { name: None, owner }));
        }
        let (file, name) = named(target, |name| {
            std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(name)
        })?;
        // Where there are no locks, what is left behind stays: nothing tells it from a file that is being written.
        let _ = file.try_lock();
        Ok((file, Temporary { name: Some(name), owner }))
    }

    /// Gives the file its name, in the place of what has that name now.
    pub(super) fn persist(mut self, file: &File, target: &Path) -> Result<()> {
        #[cfg(target_os = "linux")]
        if self.name.is_none() {
            match disk::link(file, target) {
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
                done => return done,
            }
            // A link cannot replace a file, a rename can; for that it needs a name.
            let _ = file.try_lock();
            self.name = Some(named(target, |name| disk::link(file, name))?.1);
        }
        let name = self.name.as_ref().ok_or(ErrorKind::NotFound)?;
        disk::rename(name, target)?;
        self.name = None;
        // Explicitly, because a forked process may hold the same descriptor, and with it the lock.
        let _ = file.unlock();
        Ok(())
    }

    /// Gives the file its name, unless something has that name already.
    pub(super) fn persist_new(mut self, file: &File, target: &Path) -> Result<()> {
        let Some(name) = self.name.take() else {
            #[cfg(target_os = "linux")]
            return disk::link(file, target);
            #[cfg(not(target_os = "linux"))]
            return Err(ErrorKind::NotFound.into());
        };
        let named = tempfile::TempPath::try_from_path(name)?;
        named.persist_noclobber(target).map_err(|failed| failed.error)?;
        let _ = file.unlock();
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = self.name.take().filter(|_| self.owner.is_current()) {
            // Should that fail, the next write to the target tries again.
            let _ = disk::remove(&name);
        }
    }
}

/// The name a file has while it is written; `None` where the target's own name leaves no room for it.
fn usual_name(target: &Path) -> Option<PathBuf> {
    const LONGEST: usize = 255;
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name()?);
    name.push(".ztensor.partial");
    (name.len() <= LONGEST).then(|| super::folder_of(target).join(name))
}

/// Makes something of the usual name, or of a random one where another process is writing to the same target.
pub(super) fn named<T>(target: &Path, make: impl Fn(&Path) -> Result<T>) -> Result<(T, PathBuf)> {
    if let Some(name) = usual_name(target) {
        match make(&name) {
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|made| (made, name)),
        }
    }
    let made = tempfile::Builder::new()
        .prefix(".")
        .suffix(".ztensor.partial")
        .make_in(super::folder_of(target), |name| make(name))?;
    let (made, name) = made.into_parts();
    let name = name.keep().map_err(|failed| failed.error)?;
    Ok((made, name))
}

/// Removes the file of a process that was killed before it renamed it.
fn remove_left_over(target: &Path) {
    let Some(name) = usual_name(target) else { return };
    let left = std::fs::symlink_metadata(&name).is_ok_and(|metadata| metadata.is_file());
    let Some(file) = left.then(|| File::open(&name).ok()).flatten() else { return };
    // Whoever holds the lock may remove or rename the name, so it cannot come to mean another file in between. Nobody needs to know if that
    // fails: another name is found.
    if file.try_lock().is_ok() && super::is_at(&file, &name) {
        let _ = disk::remove(&name);
    }
}

/// A file without a name; `None` where there is no such thing, or no way to name it later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
    std::fs::symlink_metadata(descriptor(&file)).is_ok().then_some(file)
}

/// Where a file without a name is found.
#[cfg(target_os = "linux")]
pub(super) fn descriptor(file: &File) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
