//! Sources over files of the operating system: what is opened, mapped, read at positions, or, from a pipe,
//! taken into memory.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Backing, Source, Version, checkpoint, file_system, map, remote};
use crate::error::{Error, Hints, Kind, Result};
use crate::limits::Limits;

/// How a file is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Memory map on local file systems; reads where a map is risky (network and FUSE file systems).
    #[default]
    Auto,
    /// A private, copy-on-write memory map.
    Mmap,
    /// Positioned reads: safe for files that may shrink while they are open.
    Read,
}

impl Io {
    /// `auto`, `mmap` or `read`.
    pub fn parse(name: &str) -> Result<Io> {
        match name {
            "auto" => Ok(Io::Auto),
            "mmap" => Ok(Io::Mmap),
            "read" => Ok(Io::Read),
            other => {
                Err(Error::argument(format!("io must be \"auto\", \"mmap\" or \"read\", not \"{other}\"")))
            }
        }
    }
}

impl Source {
    /// Opens a file that the user named, by path or URL. A pipe is taken into memory, as far as
    /// [`Limits::stream_bytes`] allows by default; devices are refused.
    pub fn open(path: &Path, io: Io) -> Result<Source> {
        Source::open_within(path, io, &Limits::default())
    }

    /// The same, with limits of the caller's.
    pub fn open_within(path: &Path, io: Io, limits: &Limits) -> Result<Source> {
        if let Some(source) = checkpoint::open(path).or_else(|| remote::open(path, io)) {
            return source;
        }
        // Opened without waiting, a pipe that nobody writes to yet would look empty.
        let waits = std::fs::metadata(path).is_ok_and(|metadata| is_pipe(&metadata));
        let (file, metadata) = open_file(path, waits)?;
        match is_pipe(&metadata) {
            // Pipes have no length and no ranges: take them into memory.
            true => Source::drain(file, path, limits.stream_bytes),
            false => Source::of_regular(file, &metadata, path, io),
        }
    }

    /// Opens a file that another file named, or that lies where a name was expected: a regular file, or a
    /// link to one.
    pub fn open_regular(path: &Path, io: Io) -> Result<Source> {
        if let Some(source) = checkpoint::open(path).or_else(|| remote::open(path, io)) {
            return source;
        }
        let (file, metadata) = open_file(path, false)?;
        Source::of_regular(file, &metadata, path, io)
    }

    /// A file of this process's own, which nobody else can change; `path` is where its bytes came from.
    pub(crate) fn of_scratch(file: File, path: &Path) -> Result<Source> {
        let metadata = file.metadata().map_err(|cause| Error::io("cannot examine the copy", path, cause))?;
        Source::of_regular(file, &metadata, path, Io::Auto)
    }

    fn of_regular(file: File, metadata: &Metadata, path: &Path, io: Io) -> Result<Source> {
        if metadata.is_dir() {
            return Err(Error::new(Kind::InvalidArgument, "this is a directory, not a model file")
                .with_path(path)
                .with_hints(Hints::new(
                    "Name a file inside it, or open the folder with `ztensor::open`.",
                    "Name a file inside it, or open the folder with ztensor.open or load_file.",
                    "Name a file inside it, such as model.safetensors or model.safetensors.index.json.",
                )));
        }
        if !metadata.is_file() {
            let kind = if is_pipe(metadata) { "a pipe" } else { "a device" };
            return Err(Error::argument(format!("this is {kind}, not a file")).with_path(path));
        }
        let mut source = Source {
            backing: Backing::Memory(Box::new([])),
            length: metadata.len(),
            stored: None,
            path: Some(path.to_path_buf()),
            remote: false,
            file: Mutex::default(),
            version: Version::of(metadata),
        };
        let mapped = match io {
            Io::Mmap => true,
            Io::Read => false,
            Io::Auto => !file_system::is_remote(&file),
        };
        if source.length == 0 {
            return Ok(source);
        }
        source.backing = if mapped {
            file_system::fetch_ends(&file, source.length);
            let map = map::Map::new(&file, source.length)
                .map_err(|cause| Error::io("cannot map the file", path, cause))?;
            source.file = Mutex::new(Some(Arc::new(file)));
            Backing::Map(map)
        } else {
            Backing::File(Arc::new(file))
        };
        Ok(source)
    }

    /// Takes a pipe into memory, unless it gives more than `most` bytes.
    fn drain(file: File, path: &Path, most: u64) -> Result<Source> {
        let source = Source::read_stream(file, most).map_err(|error| error.with_path(path))?;
        Ok(source.called(path))
    }

    /// Takes all that a reader gives into memory, unless that is more than `most` bytes.
    pub fn read_stream(reader: impl Read, most: u64) -> Result<Source> {
        let mut bytes = Vec::new();
        reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(crate::limits::exceeded(
                "a pipe is taken into memory, and this one gives more than",
                most,
                "bytes",
                "stream",
            ));
        }
        Ok(Source::from_bytes(bytes))
    }

    /// The file that the bytes lie in, also where they are mapped, unless that is closed.
    #[cfg(feature = "hdf5")]
    pub(super) fn file(&self) -> Option<Arc<File>> {
        match &self.backing {
            Backing::File(file) => Some(Arc::clone(file)),
            _ => self.file_behind_map(),
        }
    }

    pub(super) fn file_behind_map(&self) -> Option<Arc<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn read_file(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(file, buffer, offset).map_err(|cause| {
            let error = Error::from(cause);
            let error = match error.kind() {
                Kind::Truncated => Error::truncated("the file became shorter while it was open"),
                _ => error,
            };
            self.name(error.with_offset(offset))
        })
    }

    /// Closes the file behind a map, which keeps the bytes by itself. Views can be lent afterwards if their
    /// map is made now.
    pub(crate) fn close_file(&self, lends_views: bool) {
        if lends_views {
            let _ = self.map_address();
        }
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Opens a file and says what it is: of the opened file, not of what has its name later. Whether it `waits`
/// for somebody at the other end of a pipe is the caller's choice.
fn open_file(path: &Path, waits: bool) -> Result<(File, Metadata)> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    if !waits {
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    }
    #[cfg(not(unix))]
    let _ = waits;
    let file = options.open(path).map_err(|cause| open_error(path, cause))?;
    let metadata = file.metadata().map_err(|cause| Error::io("cannot examine the file", path, cause))?;
    Ok((file, metadata))
}

fn is_pipe(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        metadata.file_type().is_fifo() || metadata.file_type().is_socket()
    }
    #[cfg(not(unix))]
    !(metadata.is_file() || metadata.is_dir())
}

fn open_error(path: &Path, cause: std::io::Error) -> Error {
    let error = Error::io("cannot open", path, cause);
    match error.kind() {
        Kind::NotFound => error.with_hint("Check the path; relative paths start at the current directory."),
        Kind::PermissionDenied => {
            error.with_hint("Check the owner and mode of the file and of the folders above it.")
        }
        _ => error,
    }
}

/// Reads at a position without moving the file's cursor.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}
