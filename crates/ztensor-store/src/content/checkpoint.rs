//! An opened checkpoint: its files read like any others, tensor by tensor, through the chains of deltas behind them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::chain::{Chains, buffer};
use super::stream::Stream;
use crate::name::Name;
use crate::protocol::{Current, Protocol};
use crate::record::{Entry, File, FileKind, Manifest};
use ztensor::source::Piece;
use ztensor::{Error, Hints, Kind, Limits, OpenOptions, Reader, Result, Source};

/// What stands between a file and a tensor where two files have tensors of one name.
pub(crate) const SEPARATOR: &str = "::";

/// A checkpoint of a store.
pub struct Checkpoint {
    current: Arc<Current>,
    chains: Arc<Chains>,
    readers: Mutex<BTreeMap<String, Arc<Reader>>>,
}

impl Checkpoint {
    pub(crate) fn new(protocol: &Protocol, current: Arc<Current>) -> Checkpoint {
        Checkpoint {
            chains: Arc::new(Chains::new(protocol.clone(), current.manifest.clone())),
            current,
            readers: Mutex::default(),
        }
    }

    /// The checkpoint's name.
    pub fn name(&self) -> &Name {
        &self.current.manifest.stamp.name
    }

    /// Everything that is known of it.
    pub fn manifest(&self) -> &Manifest {
        &self.current.manifest
    }

    /// The digest of its manifest.
    pub fn root(&self) -> &[u8; 32] {
        &self.current.root
    }

    fn file(&self, path: &str) -> Result<&File> {
        let found = self.manifest().files.iter().find(|file| file.path == path);
        found.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("the checkpoint \"{}\" has no file \"{path}\"", self.name()))
                .with_hints(Hints::new(
                    "`Checkpoint::manifest` lists its files.",
                    "Store.info(name) lists its files.",
                    "`ztensor store info` lists its files.",
                ))
        })
    }

    /// The bytes of one of its files, decoded as they are read.
    pub fn source(&self, path: &str) -> Result<Source> {
        self.source_as(path, Path::new(path))
    }

    /// The bytes of one of its files, to be read window by window from the first to the last by who compares their digest.
    pub(crate) fn stream(&self, path: &str) -> Result<Source> {
        self.assemble(path, Path::new(path), |entry| {
            let chains = Arc::clone(&self.chains);
            Arc::new(Streamed {
                chains,
                digest: entry.digest,
                length: entry.length,
                stored: entry.stored,
                open: Mutex::default(),
            })
        })
    }

    /// The bytes of one of its files; `shown` is its path in messages, and where files beside it are looked for.
    pub(crate) fn source_as(&self, path: &str, shown: &Path) -> Result<Source> {
        self.assemble(path, shown, |entry| self.stored(entry))
    }

    /// Puts a file together from its skeleton and what `piece` makes of each entry.
    fn assemble(
        &self,
        path: &str,
        shown: &Path,
        piece_of: impl Fn(&Entry) -> Arc<dyn Piece>,
    ) -> Result<Source> {
        let file = self.file(path)?;
        let FileKind::Regular { skeleton, pieces, .. } = &file.kind else {
            return Err(Error::argument(format!("\"{path}\" is a folder or a link, not a file")));
        };
        let manifest = self.manifest();
        let entry = skeleton.map(|entry| &manifest.entries[entry]);
        let length = entry.map_or(0, |entry| entry.length);
        if length > Limits::default().header_bytes {
            return Err(Error::new(Kind::Limit, format!("the skeleton of \"{path}\" is too long")));
        }
        let digest = entry.map_or([0; 32], |entry| entry.digest);
        let skeleton = Skeleton { chains: Arc::clone(&self.chains), digest, length, bytes: OnceLock::new() };
        let skeleton = Arc::new(skeleton);
        let mut parts: Vec<Arc<dyn Piece>> = Vec::with_capacity(2 * pieces.len() + 1);
        let mut taken = 0u64;
        let mut take = |length: u64| {
            let part = Bones { skeleton: Arc::clone(&skeleton), start: taken, length };
            taken += length;
            (length > 0).then(|| Arc::new(part) as Arc<dyn Piece>)
        };
        for piece in pieces {
            parts.extend(take(piece.gap));
            parts.push(piece_of(&manifest.entries[piece.entry]));
        }
        let gaps: u64 = pieces.iter().map(|piece| piece.gap).sum();
        parts.extend(take(skeleton.length.saturating_sub(gaps)));
        Source::from_pieces(parts, Some(shown))
    }

    fn stored(&self, entry: &Entry) -> Arc<dyn Piece> {
        let chains = Arc::clone(&self.chains);
        Arc::new(Stored { chains, digest: entry.digest, length: entry.length, stored: entry.stored })
    }

    /// The bytes of an entry of its manifest, decoded as they are read.
    pub(crate) fn entry_source(&self, number: usize) -> Result<Source> {
        Source::from_pieces(vec![self.stored(&self.manifest().entries[number])], None)
    }

    /// The bytes of an entry of its manifest.
    pub(crate) fn read_entry(&self, entry: &Entry) -> Result<Vec<u8>> {
        let mut bytes = buffer(entry.length)?;
        self.chains.read(&entry.digest, entry.length, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Opens one of its files.
    pub fn open(&self, path: &str) -> Result<Arc<Reader>> {
        if let Some(reader) = self.readers().get(path) {
            return Ok(Arc::clone(reader));
        }
        let reader = Arc::new(OpenOptions::default().open_source(self.source(path)?)?);
        self.readers().insert(path.to_owned(), Arc::clone(&reader));
        Ok(reader)
    }

    fn readers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Reader>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files that have tensors.
    pub fn weights(&self) -> impl Iterator<Item = &str> {
        let has_tensors = |file: &&File| match &file.kind {
            FileKind::Regular { pieces, .. } => pieces.iter().any(|piece| piece.tensor.is_some()),
            _ => false,
        };
        self.manifest().files.iter().filter(has_tensors).map(|file| file.path.as_str())
    }

    /// All tensors, each with its file and its name there. Where two files have a tensor of one name, the file stands before it: `ema.pt::weight`.
    pub fn tensors(&self) -> Result<Vec<(String, String, String)>> {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        let mut found = Vec::new();
        for path in self.weights() {
            for name in self.open(path)?.names() {
                *count.entry(name.to_owned()).or_default() += 1;
                found.push((path.to_owned(), name.to_owned()));
            }
        }
        let shown = |(path, name): (String, String)| match count.get(&name) {
            Some(1) => (name.clone(), path, name),
            _ => (format!("{path}{SEPARATOR}{name}"), path, name),
        };
        Ok(found.into_iter().map(shown).collect())
    }

    /// The reader that has a tensor, and the tensor's name there.
    pub fn find(&self, tensor: &str) -> Result<(Arc<Reader>, String)> {
        for path in self.weights() {
            let own = tensor.strip_prefix(path).and_then(|rest| rest.strip_prefix(SEPARATOR));
            if let Some(own) = own {
                return Ok((self.open(path)?, own.to_owned()));
            }
        }
        let mut found: Option<(Arc<Reader>, &str)> = None;
        for path in self.weights() {
            let reader = self.open(path)?;
            if !reader.contains(tensor) {
                continue;
            }
            if let Some((_, other)) = found {
                return Err(Error::argument(format!(
                    "both \"{other}\" and \"{path}\" have a tensor \"{tensor}\""
                ))
                .with_hint(format!("Name the file before it: \"{path}{SEPARATOR}{tensor}\".")));
            }
            found = Some((reader, path));
        }
        let (reader, _) = found.ok_or_else(|| {
            Error::new(
                Kind::NoSuchTensor,
                format!("the checkpoint \"{}\" has no tensor \"{tensor}\"", self.name()),
            )
            .with_hints(Hints::new(
                "`Checkpoint::tensors` lists the names.",
                "List the names with keys().",
                "`ztensor info` lists the names.",
            ))
        })?;
        Ok((reader, tensor.to_owned()))
    }
}

/// A file's skeleton, read when some of it is: of a checkpoint with a file for each of a thousand ranks most are never looked into.
struct Skeleton {
    chains: Arc<Chains>,
    digest: [u8; 32],
    length: u64,
    bytes: OnceLock<Vec<u8>>,
}

impl Skeleton {
    fn bytes(&self) -> Result<&[u8]> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let mut bytes = buffer(self.length)?;
        self.chains.read(&self.digest, self.length, 0, &mut bytes)?;
        // Two readers at once read the same bytes.
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

/// Bytes of a skeleton.
struct Bones {
    skeleton: Arc<Skeleton>,
    start: u64,
    length: u64,
}

impl Piece for Bones {
    fn length(&self) -> u64 {
        self.length
    }

    fn stored(&self) -> u64 {
        self.length
    }

    fn cost(&self, _start: u64, _length: u64) -> Result<u64> {
        Ok(0)
    }

    fn is_at_hand(&self) -> bool {
        true
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let from = (self.start + start) as usize;
        let part = self.skeleton.bytes()?.get(from..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(part.ok_or_else(|| Error::malformed("a skeleton is too short"))?);
        Ok(())
    }
}

/// An entry.
struct Stored {
    chains: Arc<Chains>,
    digest: [u8; 32],
    length: u64,
    stored: u64,
}

impl Piece for Stored {
    fn length(&self) -> u64 {
        self.length
    }

    fn stored(&self) -> u64 {
        self.stored
    }

    fn cost(&self, _start: u64, length: u64) -> Result<u64> {
        Ok(length)
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.chains.read(&self.digest, self.length, start, out)
    }
}

/// An entry that is read from its start to its end. Its frames are open as long as that takes.
struct Streamed {
    chains: Arc<Chains>,
    digest: [u8; 32],
    length: u64,
    stored: u64,
    open: Mutex<Option<Arc<Stream>>>,
}

impl Streamed {
    /// The open frames, or `None` where the entry is better read as a whole. The lock is not held while they are opened, which may take other threads.
    fn stream(&self) -> Result<Option<Arc<Stream>>> {
        if let Some(stream) = &*self.open() {
            return Ok(Some(Arc::clone(stream)));
        }
        let stream = self.chains.stream(&self.digest, self.length)?.map(Arc::new);
        self.open().clone_from(&stream);
        Ok(stream)
    }

    fn open(&self) -> MutexGuard<'_, Option<Arc<Stream>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece for Streamed {
    fn length(&self) -> u64 {
        self.length
    }

    fn stored(&self) -> u64 {
        self.stored
    }

    fn cost(&self, _start: u64, length: u64) -> Result<u64> {
        Ok(length)
    }

    /// What cannot be opened is an error when it is read.
    fn window(&self, start: u64, most: u64) -> u64 {
        let left = self.length.saturating_sub(start).min(most);
        match self.stream() {
            Ok(Some(stream)) => stream.window(start).clamp(1, left.max(1)),
            _ => left,
        }
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let is_whole = start == 0 && out.len() as u64 == self.length;
        let Some(stream) = (if is_whole { None } else { self.stream()? }) else {
            return self.chains.read(&self.digest, self.length, start, out);
        };
        let mut read = stream.read(start, out);
        if read.as_ref().is_err_and(|error| error.kind() == Kind::NotFound) {
            // A pack has gone; another generation may have the entry elsewhere.
            *self.open() = None;
            read = match self.stream()? {
                Some(stream) => stream.read(start, out),
                None => self.chains.read(&self.digest, self.length, start, out),
            };
        }
        if start.saturating_add(out.len() as u64) == self.length {
            *self.open() = None;
        }
        read
    }
}
