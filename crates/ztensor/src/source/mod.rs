//! Where bytes come from. A parser never knows a memory map from a buffer from a file that is read piece by
//! piece: it asks a [`Source`] for ranges, which are checked against the length taken at open.

pub(crate) mod assembly;
mod checkpoint;
mod file;
mod file_system;
#[cfg(feature = "hdf5")]
pub(crate) mod headers;
mod map;
mod remote;
mod reopen;
mod version;
mod window;

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use assembly::{Announcement, Piece};
pub(crate) use reopen::Moment;

use crate::error::{Error, Kind, Result};
use crate::limits::{Limits, Meter};

pub use checkpoint::{Finder, checkpoint, install_checkpoints};
pub use file::Io;
pub(crate) use file::read_exact_at;
pub(crate) use remote::join;
pub use remote::{Opener, Ranges, install_opener, is_url, url_file_name};
pub(crate) use version::Version;
pub(crate) use window::Ahead;

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
    /// What the file was like when it was opened; `None` for what is no file, or one that is expected to change.
    version: Option<Version>,
}

enum Backing {
    Map(map::Map),
    File(Arc<File>),
    Memory(Box<dyn AsRef<[u8]> + Send + Sync>),
    Assembly(assembly::Assembly),
    Remote(remote::Remote),
}

impl Source {
    /// Bytes in memory, owned by the source.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Source {
        let length = bytes.as_ref().len() as u64;
        let backing = Backing::Memory(Box::new(bytes));
        Source {
            backing,
            length,
            stored: None,
            path: None,
            remote: false,
            file: Mutex::default(),
            version: None,
        }
    }

    /// The same source with a path, which stands for it in messages and leads to the files beside it.
    pub(crate) fn called(mut self, path: &Path) -> Source {
        self.path = Some(path.to_path_buf());
        self
    }

    /// A file whose parts are in memory, one after the other but not side by side.
    pub fn from_parts(parts: Vec<Box<dyn AsRef<[u8]> + Send + Sync>>) -> Result<Source> {
        let pieces = parts.into_iter().map(|part| Arc::new(assembly::Held(part)) as Arc<dyn Piece>);
        Source::from_pieces(pieces.collect(), None)
    }

    /// A file put together from pieces that are produced when they are read; `path` stands for it in
    /// messages.
    pub fn from_pieces(pieces: Vec<Arc<dyn Piece>>, path: Option<&Path>) -> Result<Source> {
        let meter = Arc::new(Meter::new(&Limits::default()));
        meter.stop();
        let assembly = assembly::Assembly::new(pieces, meter)?;
        let stored = assembly.length();
        Ok(Source::from_assembly(assembly, path, stored))
    }

    /// A file put together from pieces; `path` is where they come from, and `stored` bytes stand behind all
    /// of them.
    pub(crate) fn from_assembly(assembly: assembly::Assembly, path: Option<&Path>, stored: u64) -> Source {
        let length = assembly.length();
        Source {
            backing: Backing::Assembly(assembly),
            length,
            stored: Some(stored),
            path: path.map(Path::to_path_buf),
            remote: false,
            file: Mutex::default(),
            version: None,
        }
    }

    /// A file that is fetched by ranges from `location`; `head` are its first bytes, as far as they are
    /// known.
    pub fn from_ranges(ranges: Box<dyn Ranges>, location: &str, head: Vec<u8>) -> Source {
        let remote = remote::Remote::new(ranges, head);
        Source {
            length: remote.length(),
            stored: None,
            backing: Backing::Remote(remote),
            path: Some(PathBuf::from(location)),
            remote: true,
            file: Mutex::default(),
            version: None,
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

    /// Where the memory map for views lies, if there is one.
    #[doc(hidden)]
    pub fn map_address(&self) -> Option<*const u8> {
        self.map()?.address(self.file_behind_map().as_deref())
    }

    /// The same, to write to: what is written stays in this process and shows in other views, not in what the
    /// source gives otherwise. `None` for other backings, whose bytes must not change, and where the file was
    /// closed before anybody asked.
    #[doc(hidden)]
    pub fn lend_map(&self) -> Option<*mut u8> {
        self.map()?.lend(self.file_behind_map().as_deref())
    }

    /// Looks at a range of the memory for views; `None` without a map, and once [`Source::lend_map`] has
    /// given the memory away.
    pub(crate) fn look_at_view<T>(
        &self,
        offset: u64,
        length: u64,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let file = self.file_behind_map();
        self.map()?.look_at_views(file.as_deref(), |views| views.get(start..end).map(look)).flatten()
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

    /// Checks that a range lies inside the source.
    pub fn check(&self, offset: u64, length: u64) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(self.beyond(offset, length)),
        }
    }

    /// Bytes from `offset` on that are best read at once when all of the source is wanted: a few MiB, and no
    /// piece of an assembled file in two halves unless it is large.
    pub fn window(&self, offset: u64) -> u64 {
        const WINDOW: u64 = 16 << 20;
        const PIECES: u64 = 8 << 20;
        const LARGE_PIECE: u64 = 64 << 20;
        match &self.backing {
            Backing::Assembly(assembly) => assembly.window(offset, PIECES, LARGE_PIECE),
            _ => WINDOW.min(self.length - offset),
        }
    }

    /// How the bytes at an offset are computed where they are put together from pieces, if they are.
    pub(crate) fn recipe(&self, offset: u64) -> Option<String> {
        match &self.backing {
            Backing::Assembly(assembly) => assembly.recipe(offset),
            _ => None,
        }
    }

    /// How the bytes at an offset are stored where they are put together from pieces.
    pub(crate) fn encoding(&self, offset: u64) -> Option<&'static str> {
        match &self.backing {
            Backing::Assembly(assembly) => Some(assembly.encoding(offset)),
            _ => None,
        }
    }

    /// The first bytes, up to `most`; of an assembled file no more than are at hand, so that a look at it
    /// decodes no tensor.
    pub(crate) fn head(&self, most: u64) -> Result<Cow<'_, [u8]>> {
        let front = match &self.backing {
            Backing::Assembly(assembly) => assembly.front(),
            _ => 0,
        };
        let most = if front > 0 { most.min(front) } else { most };
        self.bytes(0, most.min(self.length))
    }

    /// Whether the bytes are put together from pieces, which are best read whole: each decodes on all cores
    /// by itself.
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

    /// Bytes that stand behind a range: those that it takes where it is stored, and those of the base that it
    /// is made from.
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
