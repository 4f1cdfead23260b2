//! Where files are written: a temporary file in the folder of the target that takes its place in one step, a buffer in memory, or the end of an existing
//! file. Small writes are gathered; large ones go straight to the operating system.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::source::is_url;

#[cfg(all(test, target_os = "linux"))]
mod crash;
pub(crate) mod disk;
mod owner;
mod partial;
#[cfg(all(test, target_os = "linux"))]
mod record;
mod replaced;
mod scratch;
mod temporary;

pub(crate) use owner::Owner;
pub use partial::{Partial, name_file};
pub use scratch::Scratch;
use temporary::Temporary;

/// Writes below this are gathered in a buffer of this size.
const BUFFER: usize = 1 << 20;

/// A file that is being written, by position. It appears under its name when it is published; dropped before that, nothing is left behind.
pub struct Output {
    sink: Sink,
    buffer: Vec<u8>,
    /// Where the buffer's first byte goes.
    sent: u64,
    owner: Owner,
    /// Puts on the disk what was written so far.
    ahead: Option<JoinHandle<std::io::Result<()>>>,
}

enum Sink {
    /// A new file, and the name it is to get; without a temporary, a pipe or a device of that name.
    New { file: File, temporary: Option<Temporary>, target: PathBuf },
    /// A buffer.
    Memory(Vec<u8>),
    /// An existing file being extended.
    Existing { file: File, path: PathBuf },
}

impl Output {
    /// A file that appears under its name only when it is complete.
    pub fn create(path: &Path) -> Result<Output> {
        if is_url(path) {
            return Err(Error::unsupported("files are read by URL, and written to folders only")
                .with_path(path)
                .with_hint("Name a file on this machine, and upload it."));
        }
        let fail = |cause| Error::io("cannot create the file", path, cause);
        let target = behind_links(path).map_err(fail)?;
        let existing = std::fs::metadata(&target).ok();
        if existing.as_ref().is_some_and(|metadata| metadata.is_dir()) {
            return Err(Error::argument("this is a directory; name a file").with_path(path));
        }
        if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            // A pipe or a device cannot be replaced by a rename; write to it directly.
            let file = OpenOptions::new().write(true).open(&target).map_err(fail)?;
            return Ok(Output::over(Sink::New { file, temporary: None, target }));
        }
        if let Some(metadata) = &existing {
            replaced::check(&target, metadata)?;
        }
        let (file, temporary) = Temporary::create(&target).map_err(fail)?;
        if let Some(metadata) = &existing {
            replaced::take_over(&file, metadata).map_err(fail)?;
        }
        Ok(Output::over(Sink::New { file, temporary: Some(temporary), target }))
    }

    /// A buffer in memory.
    pub(crate) fn memory() -> Output {
        Output::over(Sink::Memory(Vec::new()))
    }

    /// An existing file, extended from a position on.
    pub(crate) fn extend(file: File, path: &Path, position: u64) -> Output {
        let mut output = Output::over(Sink::Existing { file, path: path.to_path_buf() });
        output.sent = position;
        output
    }

    fn over(sink: Sink) -> Output {
        Output { sink, buffer: Vec::new(), sent: 0, owner: Owner::current(), ahead: None }
    }

    /// The process that writes.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Bytes written so far, counted from the start of the file.
    pub fn position(&self) -> u64 {
        self.sent + self.buffer.len() as u64
    }

    /// Writes zeros up to the next multiple of `alignment`.
    pub(crate) fn align(&mut self, alignment: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut gap = self.position().next_multiple_of(alignment) - self.position();
        while gap > 0 {
            let piece = gap.min(ZEROS.len() as u64);
            self.write(&ZEROS[..piece as usize])?;
            gap -= piece;
        }
        Ok(())
    }

    /// Writes some bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Sink::Memory(memory) = &mut self.sink {
            memory.extend_from_slice(bytes);
            self.sent += bytes.len() as u64;
            return Ok(());
        }
        let direct = bytes.len() >= BUFFER / 4;
        if direct || self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if direct {
            return self.send(bytes);
        }
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(BUFFER);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Copies a part of another file. The kernel does it where it can, without the bytes passing through this process.
    pub(crate) fn copy_from(
        &mut self,
        source: &File,
        offset: u64,
        length: u64,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        /// Copied between two calls of `progress`.
        const PIECE: u64 = 64 << 20;
        self.owner.check()?;
        self.flush()?;
        let mut source = source;
        source.seek(SeekFrom::Start(offset))?;
        let mut left = length;
        while left > 0 {
            let piece = left.min(PIECE);
            let mut part = source.take(piece);
            let copied = match &mut self.sink {
                Sink::New { file, temporary: None, target } => {
                    std::io::copy(&mut part, file).map_err(|cause| write_error(target, cause))?
                }
                Sink::New { file, target: path, .. } | Sink::Existing { file, path } => {
                    disk::copy_at(file, &mut part, self.sent).map_err(|cause| write_error(path, cause))?
                }
                Sink::Memory(memory) => std::io::copy(&mut part, memory)?,
            };
            if copied != piece {
                return Err(Error::truncated("the file became shorter while it was copied"));
            }
            self.sent += copied;
            left -= copied;
            progress(copied)?;
        }
        Ok(())
    }

    /// Whether these bytes were written at an earlier offset.
    pub(crate) fn holds(&mut self, offset: u64, bytes: &[u8]) -> Result<bool> {
        self.flush()?;
        let (file, path) = match &self.sink {
            Sink::Memory(memory) => {
                return Ok(memory.get(offset as usize..).is_some_and(|rest| rest.starts_with(bytes)));
            }
            Sink::New { temporary: None, .. } => return Ok(false),
            Sink::New { file, target, .. } => (file, target),
            Sink::Existing { file, path } => (file, path),
        };
        let mut piece = vec![0; bytes.len().min(BUFFER)];
        for (number, expected) in bytes.chunks(BUFFER).enumerate() {
            let found = &mut piece[..expected.len()];
            crate::source::read_exact_at(file, found, offset + (number * BUFFER) as u64)
                .map_err(|cause| Error::io("cannot read back", path, cause))?;
            if found != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.send(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        result
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.owner.check()?;
        let written = match &mut self.sink {
            Sink::New { file, temporary: None, target } => {
                disk::write(file, bytes).map_err(|cause| write_error(target, cause))
            }
            Sink::New { file, target: path, .. } | Sink::Existing { file, path } => {
                disk::write_at(file, bytes, self.sent).map_err(|cause| write_error(path, cause))
            }
            Sink::Memory(memory) => {
                memory.extend_from_slice(bytes);
                Ok(())
            }
        };
        self.sent += bytes.len() as u64;
        written
    }

    /// Waits until all that was written is on the disk.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.flush()?;
        match &self.sink {
            Sink::New { file, target: path, .. } | Sink::Existing { file, path } => {
                disk::sync(file).map_err(|cause| write_error(path, cause))
            }
            Sink::Memory(_) => Ok(()),
        }
    }

    /// Lets a thread put on the disk what was written so far, so that little is left to wait for when the file is published. Does nothing while the last
    /// such call is at work.
    pub fn sync_ahead(&mut self) -> Result<()> {
        if self.ahead.as_ref().is_some_and(|ahead| !ahead.is_finished()) {
            return Ok(());
        }
        self.wait_ahead()?;
        if let Sink::New { file, temporary: Some(_), .. } = &self.sink {
            let file = file.try_clone()?;
            // Without a thread for it everything is synced at the end.
            self.ahead = std::thread::Builder::new().spawn(move || disk::sync(&file)).ok();
        }
        Ok(())
    }

    /// Waits for the thread, whose failure would not be told again.
    fn wait_ahead(&mut self) -> Result<()> {
        let Some(ahead) = self.ahead.take() else { return Ok(()) };
        let synced = ahead.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread failed")));
        match &self.sink {
            Sink::New { target: path, .. } | Sink::Existing { path, .. } => {
                synced.map_err(|cause| write_error(path, cause))
            }
            Sink::Memory(_) => Ok(()),
        }
    }

    /// Publishes a new file under its name. With `durable`, or when it replaces a file, its bytes reach the disk first, so that a crash
    /// of the machine leaves the old file or the new one.
    pub fn publish(mut self, durable: bool) -> Result<()> {
        self.owner.check()?;
        self.flush()?;
        self.wait_ahead()?;
        match self.sink {
            Sink::Memory(_) => Ok(()),
            Sink::Existing { file, path } => disk::sync(&file).map_err(|cause| write_error(&path, cause)),
            Sink::New { file, temporary, target } => {
                let Some(temporary) = temporary else { return Ok(()) };
                let durable = durable || target.exists();
                if durable {
                    disk::sync(&file).map_err(|cause| write_error(&target, cause))?;
                }
                temporary
                    .persist(&file, &target)
                    .map_err(|cause| Error::io("cannot put the file in place", &target, cause))?;
                if durable { sync_folder(&target) } else { Ok(()) }
            }
        }
    }

    /// Publishes a new file under its name if that is free; says whether it was. Of several at once exactly one succeeds. The bytes and the name
    /// have reached the disk then.
    pub fn publish_new(mut self) -> Result<bool> {
        self.owner.check()?;
        self.flush()?;
        self.wait_ahead()?;
        let Sink::New { file, temporary: Some(temporary), target } = self.sink else {
            return Err(Error::argument("only a new file can be published under a free name"));
        };
        disk::sync(&file).map_err(|cause| write_error(&target, cause))?;
        match temporary.persist_new(&file, &target) {
            Ok(()) => sync_folder(&target).map(|()| true),
            Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(cause) => Err(Error::io("cannot put the file in place", &target, cause)),
        }
    }

    /// The bytes of an output in memory.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        match self.sink {
            Sink::Memory(memory) => memory,
            _ => Vec::new(),
        }
    }
}

/// Where a path leads. A symbolic link keeps pointing where it did: what it points to is replaced, or made if it is not there yet.
fn behind_links(path: &Path) -> std::io::Result<PathBuf> {
    /// As many as the kernel follows.
    const LONGEST: usize = 40;
    let mut target = path.to_path_buf();
    for _ in 0..LONGEST {
        match std::fs::canonicalize(&target) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
            found => return found,
        }
        // Nothing is there, or a link to nothing.
        let Ok(next) = std::fs::read_link(&target) else { return Ok(target) };
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(std::io::Error::other("too many symbolic links"))
}

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a rename durable.
fn sync_folder(target: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        let folder = folder_of(target);
        disk::sync_folder(folder).map_err(|cause| Error::io("cannot sync the folder", folder, cause))?;
    }
    #[cfg(not(unix))]
    let _ = target;
    Ok(())
}

/// Waits until a file and its name are on the disk: to be called before something is removed that it was made from.
pub fn make_durable(path: &Path) -> Result<()> {
    let fail = |cause| Error::io("cannot sync", path, cause);
    let target = behind_links(path).map_err(fail)?;
    // Some systems sync only what was opened for writing.
    let file = OpenOptions::new().read(true).write(cfg!(windows)).open(&target).map_err(fail)?;
    disk::sync(&file).map_err(fail)?;
    sync_folder(&target)
}

/// Whether two paths lead to the same file, which is there.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    matches!((std::fs::canonicalize(one), std::fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether a path leads to this very file, not to one that has taken its place.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let (file, path) = (file.metadata().map(identity), std::fs::metadata(path).map(identity));
        matches!((file, path), (Ok(file), Ok(path)) if file == path)
    }
    #[cfg(not(unix))]
    {
        // An open file is not replaced there without the knowledge of who opened it.
        let _ = file;
        path.exists()
    }
}

pub(crate) fn write_error(path: &Path, cause: std::io::Error) -> Error {
    let error = Error::io("cannot write", path, cause);
    match error.kind() {
        crate::error::Kind::NoSpace => {
            error.with_hint("Free some space and try again; what was there before is unchanged.")
        }
        _ => error,
    }
}
