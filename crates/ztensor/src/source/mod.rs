//! Where bytes come from. A parser never knows a memory map from a buffer from a file that is read piece by piece: it asks a
//! [`Source`] for ranges, which are checked against the length taken at open.

pub(crate) mod assembly;
mod checkpoint;
mod file_system;
#[cfg(feature = "hdf5")]
pub(crate) mod headers;
mod map;
mod remote;
mod reopen;
mod window;

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use assembly::{Announcement, Piece};
pub(crate) use reopen::Moment;

use crate::error::{Error, Kind, Result};
use crate::limits::{Limits, Meter};

pub use checkpoint::{Finder, checkpoint, install_checkpoints};
pub(crate) use remote::join;
pub use remote::{Opener, Ranges, install_opener, is_url};

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

/// A readable sequence of bytes of known length.
pub struct Source {
    backing: Backing,
    length: u64,
    /// Bytes that stand behind an assembled file; others are as long as they are stored.
    stored: Option<u64>,
    path: Option<PathBuf>,
    /// Whether bytes come over a network, here or below.
    remote: bool,
    /// The file behind a map, until it is closed.
    file: Mutex<Option<Arc<File>>>,
}

enum Backing {
    Map(map::Map),
    File(Arc<File>),
    Memory(Box<dyn AsRef<[u8]> + Send + Sync>),
    Assembly(assembly::Assembly),
    Remote(remote::Remote),
}

impl Source {
    /// Opens a file that the user named, by path or URL. A pipe is taken into memory, as far as [`Limits::stream_bytes`] allows by default; devices are refused.
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

    /// Opens a file that another file named, or that lies where a name was expected: a regular file, or a link to one.
    pub fn open_regular(path: &Path, io: Io) -> Result<Source> {
        if let Some(source) = checkpoint::open(path).or_else(|| remote::open(path, io)) {
            return source;
        }
        let (file, metadata) = open_file(path, false)?;
        Source::of_regular(file, &metadata, path, io)
    }

    fn of_regular(file: File, metadata: &Metadata, path: &Path, io: Io) -> Result<Source> {
        if metadata.is_dir() {
            return Err(Error::new(Kind::InvalidArgument, "this is a directory, not a model file")
                .with_path(path)
                .with_hint(
                    "Name a file inside it, such as model.safetensors or model.safetensors.index.json.",
                ));
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
        let mut source = Source::read_stream(file, most).map_err(|error| error.with_path(path))?;
        source.path = Some(path.to_path_buf());
        Ok(source)
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

    /// Bytes in memory, owned by the source.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Source {
        let length = bytes.as_ref().len() as u64;
        let backing = Backing::Memory(Box::new(bytes));
        Source { backing, length, stored: None, path: None, remote: false, file: Mutex::default() }
    }

    /// A file whose parts are in memory, one after the other but not side by side.
    pub fn from_parts(parts: Vec<Box<dyn AsRef<[u8]> + Send + Sync>>) -> Result<Source> {
        let pieces = parts.into_iter().map(|part| Arc::new(assembly::Held(part)) as Arc<dyn Piece>);
        Source::from_pieces(pieces.collect(), None)
    }

    /// A file put together from pieces that are produced when they are read; `path` stands for it in messages.
    pub fn from_pieces(pieces: Vec<Arc<dyn Piece>>, path: Option<&Path>) -> Result<Source> {
        let meter = Arc::new(Meter::new(&Limits::default()));
        meter.stop();
        let assembly = assembly::Assembly::new(pieces, meter)?;
        let stored = assembly.length();
        Ok(Source::from_assembly(assembly, path, stored))
    }

    /// A file put together from pieces; `path` is where they come from, and `stored` bytes stand behind all of them.
    pub(crate) fn from_assembly(assembly: assembly::Assembly, path: Option<&Path>, stored: u64) -> Source {
        let length = assembly.length();
        Source {
            backing: Backing::Assembly(assembly),
            length,
            stored: Some(stored),
            path: path.map(Path::to_path_buf),
            remote: false,
            file: Mutex::default(),
        }
    }

    /// A file that is fetched by ranges from `location`; `head` are its first bytes, as far as they are known.
    pub fn from_ranges(ranges: Box<dyn Ranges>, location: &str, head: Vec<u8>) -> Source {
        let remote = remote::Remote::new(ranges, head);
        Source {
            length: remote.length(),
            stored: None,
            backing: Backing::Remote(remote),
            path: Some(PathBuf::from(location)),
            remote: true,
            file: Mutex::default(),
        }
    }

    /// Announces ranges that will be read, about in this order. A remote file fetches them ahead, also one
    /// behind an archive or a delta; to others it is nothing.
    pub fn announce(&self, ranges: Vec<std::ops::Range<u64>>) {
        match &self.backing {
            Backing::Remote(remote) => remote.announce(ranges),
            Backing::Assembly(assembly) => assembly.announce(&ranges),
            Backing::Map(_) | Backing::File(_) | Backing::Memory(_) => {}
        }
    }

    /// The same source, known to be made of others that come over a network.
    pub(crate) fn over_network(mut self, remote: bool) -> Source {
        self.remote |= remote;
        self
    }

    /// Whether bytes come over a network, from the source itself or from what it is made of.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The path it was opened from.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether ranges can be borrowed without copying.
    pub fn is_addressable(&self) -> bool {
        matches!(self.backing, Backing::Map(_) | Backing::Memory(_))
    }

    /// Borrows a range, where the backing is in the address space and the range is inside it.
    pub fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let bytes = match &self.backing {
            Backing::Map(map) => map.bytes(),
            Backing::Memory(bytes) => (**bytes).as_ref(),
            Backing::Assembly(assembly) => return assembly.slice(offset, length),
            Backing::File(_) | Backing::Remote(_) => return None,
        };
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        bytes.get(start..end)
    }

    /// The memory map, if there is one.
    fn map(&self) -> Option<&map::Map> {
        match &self.backing {
            Backing::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Where the memory map for views lies, if there is a map.
    pub fn map_address(&self) -> Option<*const u8> {
        self.map().map(map::Map::address)
    }

    /// The same, to write to: what is written stays in this process and shows in other views, not in what the source gives otherwise. `None`
    /// for other backings, whose bytes must not change.
    pub fn lend_map(&self) -> Option<*mut u8> {
        self.map().map(map::Map::lend)
    }

    /// Looks at a range of the memory for views; `None` without a map, and once [`Source::lend_map`] has given the memory away.
    pub(crate) fn look_at_view<T>(
        &self,
        offset: u64,
        length: u64,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        self.map()?.look_at_views(|views| views.get(start..end).map(look)).flatten()
    }

    /// A range: borrowed where possible, otherwise read. The range is checked before anything is allocated.
    pub fn bytes(&self, offset: u64, length: u64) -> Result<Cow<'_, [u8]>> {
        self.check(offset, length)?;
        if let Some(slice) = self.slice(offset, length) {
            return Ok(Cow::Borrowed(slice));
        }
        let length = usize::try_from(length).map_err(|_| self.out_of_memory(length))?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(length).map_err(|_| self.out_of_memory(length as u64))?;
        buffer.resize(length, 0);
        self.read_into(offset, &mut buffer)?;
        Ok(Cow::Owned(buffer))
    }

    /// Copies a range into a buffer.
    pub fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len() as u64)?;
        if let Some(slice) = self.slice(offset, buffer.len() as u64) {
            buffer.copy_from_slice(slice);
            return Ok(());
        }
        match &self.backing {
            Backing::File(file) => self.read_file(file, offset, buffer),
            Backing::Assembly(assembly) => assembly.read(offset, buffer).map_err(|error| self.name(error)),
            Backing::Remote(remote) => remote.read(offset, buffer).map_err(|error| self.name(error)),
            // `check` passed, so a borrowed range always exists for the other backings.
            Backing::Map(_) | Backing::Memory(_) => Err(self.beyond(offset, buffer.len() as u64)),
        }
    }

    /// Copies a range into a buffer without touching the map, as long as the file behind it is open.
    pub(crate) fn read_directly(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.file_behind_map() {
            Some(file) => {
                self.check(offset, buffer.len() as u64)?;
                self.read_file(&file, offset, buffer)
            }
            None => self.read_into(offset, buffer),
        }
    }

    /// The file that the bytes lie in, also where they are mapped, unless that is closed.
    #[cfg(feature = "hdf5")]
    fn file(&self) -> Option<Arc<File>> {
        match &self.backing {
            Backing::File(file) => Some(Arc::clone(file)),
            _ => self.file_behind_map(),
        }
    }

    fn file_behind_map(&self) -> Option<Arc<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read_file(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(file, buffer, offset).map_err(|cause| {
            let error = Error::from(cause);
            let error = match error.kind() {
                Kind::Truncated => Error::truncated("the file became shorter while it was open"),
                _ => error,
            };
            self.name(error.with_offset(offset))
        })
    }

    /// Closes the file behind a map, which keeps the bytes by itself.
    pub(crate) fn close_file(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Checks that a range lies inside the source.
    pub fn check(&self, offset: u64, length: u64) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(self.beyond(offset, length)),
        }
    }

    /// Bytes from `offset` on that are best read at once when all of the source is wanted: a few MiB, and no piece of an assembled file in
    /// two halves unless it is large.
    pub fn window(&self, offset: u64) -> u64 {
        const WINDOW: u64 = 16 << 20;
        const PIECES: u64 = 8 << 20;
        const LARGE_PIECE: u64 = 64 << 20;
        match &self.backing {
            Backing::Assembly(assembly) => assembly.window(offset, PIECES, LARGE_PIECE),
            _ => WINDOW.min(self.length - offset),
        }
    }

    /// How the bytes at an offset are stored where they are put together from pieces.
    pub(crate) fn encoding(&self, offset: u64) -> Option<&'static str> {
        match &self.backing {
            Backing::Assembly(assembly) => Some(assembly.encoding(offset)),
            _ => None,
        }
    }

    /// The first bytes, up to `most`; of an assembled file no more than are at hand, so that a look at it decodes no tensor.
    pub(crate) fn head(&self, most: u64) -> Result<Cow<'_, [u8]>> {
        let front = match &self.backing {
            Backing::Assembly(assembly) => assembly.front(),
            _ => 0,
        };
        let most = if front > 0 { most.min(front) } else { most };
        self.bytes(0, most.min(self.length))
    }

    /// Whether the bytes are put together from pieces, which are best read whole: each decodes on all cores by itself.
    pub(crate) fn is_assembled(&self) -> bool {
        matches!(self.backing, Backing::Assembly(_))
    }

    /// Bytes that a range takes where it is stored: fewer than its length in an archive.
    pub fn stored_length(&self, offset: u64, length: u64) -> u64 {
        match &self.backing {
            Backing::Assembly(assembly) if length > 0 => assembly.stored(offset, length),
            _ => length,
        }
    }

    /// Bytes that stand behind a range: those that it takes where it is stored, and those of the base that it is made from.
    pub(crate) fn weight(&self, offset: u64, length: u64) -> u64 {
        match &self.backing {
            Backing::Assembly(assembly) if length > 0 => assembly.weight(offset, length),
            _ => length,
        }
    }

    /// Bytes that stand behind all of it.
    pub fn total_stored(&self) -> u64 {
        self.stored.unwrap_or(self.length)
    }

    /// Gives back what was kept while the file was indexed.
    pub(crate) fn forget_windows(&self) {
        if let Backing::Assembly(assembly) = &self.backing {
            assembly.forget();
        }
    }

    fn beyond(&self, offset: u64, length: u64) -> Error {
        self.name(
            Error::truncated(format!(
                "{length} bytes are announced at offset {offset}, but the file has {} bytes",
                self.length
            ))
            .with_offset(offset),
        )
    }

    fn out_of_memory(&self, length: u64) -> Error {
        self.name(Error::new(Kind::Limit, format!("not enough memory for {length} bytes")))
    }

    fn name(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.with_path(path),
            None => error,
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let backing = match self.backing {
            Backing::Map(_) => "map",
            Backing::File(_) => "read",
            Backing::Memory(_) => "memory",
            Backing::Assembly(_) => "assembly",
            Backing::Remote(_) => "remote",
        };
        f.debug_struct("Source")
            .field("backing", &backing)
            .field("length", &self.length)
            .field("path", &self.path)
            .finish()
    }
}

/// Opens a file and says what it is: of the opened file, not of what has its name later. Whether it `waits` for somebody at the other end of a pipe is
/// the caller's choice.
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
