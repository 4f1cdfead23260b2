//! From an entry of a manifest to its bytes: through its chain of deltas, from no more of the packs than that takes. A reader that misses a pack goes on
//! with another generation of the same checkpoint, if there is one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::computed::Computed;
use super::spare::{Lent, Spare};
use super::stream::Stream;
use crate::protocol::Protocol;
use crate::record::{Encoding, Entry, Manifest, Pack};
use ztensor::{Error, Kind, Result};

/// An opened checkpoint, as far as reading its entries goes.
pub(crate) struct Chains {
    protocol: Protocol,
    generation: Mutex<Arc<Generation>>,
    spare: Spare,
}

/// A manifest with its entries by digest and length.
struct Generation {
    manifest: Manifest,
    by_digest: HashMap<([u8; 32], u64), usize>,
}

impl Generation {
    fn new(manifest: Manifest) -> Arc<Generation> {
        let numbered = manifest.entries.iter().enumerate();
        let by_digest = numbered.map(|(number, entry)| ((entry.digest, entry.length), number)).collect();
        Arc::new(Generation { manifest, by_digest })
    }
}

impl Chains {
    pub(crate) fn new(protocol: Protocol, manifest: Manifest) -> Chains {
        Chains { protocol, generation: Mutex::new(Generation::new(manifest)), spare: Spare::default() }
    }

    fn generation(&self) -> MutexGuard<'_, Arc<Generation>> {
        self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads bytes of the entry with this digest, from `start` on, as many as the buffer takes.
    pub(crate) fn read(&self, digest: &[u8; 32], length: u64, start: u64, out: &mut [u8]) -> Result<()> {
        let is_whole = start == 0 && out.len() as u64 == length;
        self.with(digest, length, |manifest, number| match is_whole {
            true => read_whole(&self.protocol, manifest, number, &self.spare, out),
            false => read_entry(&self.protocol, manifest, number, start, out),
        })
    }

    /// The entry with this digest, to be read from its start to its end; `None` where it is better read as a whole.
    pub(crate) fn stream(&self, digest: &[u8; 32], length: u64) -> Result<Option<Stream>> {
        match self.protocol.backend().is_at_hand() {
            true => {
                self.with(digest, length, |manifest, number| Stream::open(&self.protocol, manifest, number))
            }
            false => Ok(None),
        }
    }

    /// Does something with an entry; once more with that of another generation if a pack is missing.
    fn with<T>(
        &self,
        digest: &[u8; 32],
        length: u64,
        mut work: impl FnMut(&Manifest, usize) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = |generation: &Generation| {
            let number = generation.by_digest.get(&(*digest, length));
            let number = number.ok_or_else(|| {
                Error::malformed("the checkpoint's generations do not have the same contents")
            })?;
            work(&generation.manifest, *number)
        };
        let generation = Arc::clone(&self.generation());
        match attempt(&generation) {
            Err(error) if error.kind() == Kind::NotFound => {
                let stamp = &generation.manifest.stamp;
                let other = self.protocol.other_generation(&stamp.name, stamp.origin, stamp.generation)?;
                let other = Generation::new(other);
                *self.generation() = Arc::clone(&other);
                attempt(&other)
            }
            result => result,
        }
    }
}

/// Reads bytes of an entry, from `start` on, as many as the buffer takes.
pub(crate) fn read_entry(
    protocol: &Protocol,
    manifest: &Manifest,
    number: usize,
    start: u64,
    out: &mut [u8],
) -> Result<()> {
    let entry = entry(manifest, number)?;
    if start == 0 && out.len() as u64 == entry.length {
        return read_whole(protocol, manifest, number, &Spare::default(), out);
    }
    let end = start.checked_add(out.len() as u64).filter(|end| *end <= entry.length);
    let end = end.ok_or_else(|| Error::malformed("more is read of an entry than it has"))?;
    let fetch = |offset: u64, bytes: &mut [u8]| fetch(protocol, manifest, entry, offset, bytes);
    match &entry.encoding {
        Encoding::Raw => {
            let mut all = buffer(entry.length)?;
            fetch(0, &mut all)?;
            check_digest(entry, &all)?;
            out.copy_from_slice(&all[start as usize..end as usize]);
            Ok(())
        }
        Encoding::Frame => {
            z4ai::Frame::open(z4ai::Fetch::new(entry.stored, fetch))?.read_into(start..end, out)
        }
        Encoding::Delta { base } => {
            let length = manifest.entries.get(*base).map_or(0, |base| base.length);
            let fetch_base =
                |offset: u64, bytes: &mut [u8]| read_entry(protocol, manifest, *base, offset, bytes);
            let delta = z4ai::Frame::open(z4ai::Fetch::new(entry.stored, fetch))?;
            delta.against(z4ai::Fetch::new(length, fetch_base))?.trusted().read_into(start..end, out)
        }
        Encoding::Derived { recipe, operands } => {
            let read = |number: usize, start: u64, out: &mut [u8]| {
                read_entry(protocol, manifest, number, start, out)
            };
            Computed::new(manifest, recipe, operands, &read, &fetch)?.read_range(entry, start..end, out)
        }
    }
}

/// Decodes all of an entry: the end of its chain first, then one delta after the other, so that two of them are in memory however long the chain is. Bases are
/// not compared with the digests that deltas have of them: every block has a checksum of what comes out, and every file its digest.
fn read_whole(
    protocol: &Protocol,
    manifest: &Manifest,
    number: usize,
    spare: &Spare,
    out: &mut [u8],
) -> Result<()> {
    let chain = links(manifest, number)?;
    let mut below: Option<Lent<'_>> = None;
    for (place, (_, entry)) in chain.iter().enumerate().rev() {
        let mut own = None;
        let into: &mut [u8] = match place {
            0 => &mut *out,
            _ => own.insert(spare.take(entry.length)?),
        };
        let fetch = |offset: u64, bytes: &mut [u8]| fetch(protocol, manifest, entry, offset, bytes);
        match (&entry.encoding, below.as_deref()) {
            (Encoding::Raw, _) => {
                fetch(0, into)?;
                check_digest(entry, into)?;
            }
            (Encoding::Derived { recipe, operands }, _) => {
                let all = stored(entry, spare, fetch)?;
                let fetch = |offset: u64, bytes: &mut [u8]| {
                    let from = usize::try_from(offset).ok().and_then(|offset| all.get(offset..));
                    let part = from.and_then(|from| from.get(..bytes.len()));
                    bytes.copy_from_slice(part.ok_or_else(|| Error::truncated("an entry is too short"))?);
                    Ok(())
                };
                let read = |number: usize, start: u64, out: &mut [u8]| {
                    read_entry(protocol, manifest, number, start, out)
                };
                Computed::new(manifest, recipe, operands, &read, &fetch)?.read_all(entry, into)?;
            }
            (Encoding::Delta { .. }, Some(reference)) => {
                let frame = stored(entry, spare, fetch)?;
                let read = |frame: z4ai::Frame<_>| frame.against(reference)?.trusted().read_all_into(into);
                z4ai::Frame::open(&*frame).and_then(read)?;
            }
            _ => {
                let frame = stored(entry, spare, fetch)?;
                z4ai::Frame::open(&*frame).and_then(|frame| frame.read_all_into(into))?;
            }
        }
        below = own;
    }
    Ok(())
}

/// An entry, the base of that, and so on to the end of the chain, each with its number.
pub(super) fn links(manifest: &Manifest, number: usize) -> Result<Vec<(usize, &Entry)>> {
    let mut chain = vec![(number, entry(manifest, number)?)];
    while let Some(Encoding::Delta { base }) = chain.last().map(|(_, entry)| &entry.encoding) {
        chain.push((*base, entry(manifest, *base)?));
    }
    Ok(chain)
}

fn entry(manifest: &Manifest, number: usize) -> Result<&Entry> {
    manifest.entries.get(number).ok_or_else(|| Error::malformed("an entry does not exist"))
}

/// Fetches stored bytes of an entry.
fn fetch(
    protocol: &Protocol,
    manifest: &Manifest,
    entry: &Entry,
    offset: u64,
    bytes: &mut [u8],
) -> Result<()> {
    let pack = manifest.packs.get(entry.pack).ok_or_else(|| Error::malformed("a pack does not exist"))?;
    let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= entry.stored);
    end.ok_or_else(|| Error::malformed("a frame ends behind its entry"))?;
    protocol.backend().get(&Pack::key(pack.id), entry.offset + offset, bytes)
}

fn stored<'a>(
    entry: &Entry,
    spare: &'a Spare,
    fetch: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<Lent<'a>> {
    let mut frame = spare.take(entry.stored)?;
    fetch(0, &mut frame)?;
    Ok(frame)
}

fn check_digest(entry: &Entry, bytes: &[u8]) -> Result<()> {
    match Sha256::digest(bytes)[..] == entry.digest[..] {
        true => Ok(()),
        false => {
            Err(Error::new(Kind::Checksum, "the stored bytes are not what was added: the pack is damaged"))
        }
    }
}

/// Zeros, as far as there is memory for them.
pub(crate) fn buffer(length: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    resize(&mut bytes, length)?;
    Ok(bytes)
}

/// Makes a buffer so long, as far as there is memory for it; what is in it is of no use.
pub(crate) fn resize(bytes: &mut Vec<u8>, length: u64) -> Result<()> {
    let missing = || Error::new(Kind::Limit, format!("not enough memory for {length} bytes"));
    let length = usize::try_from(length).map_err(|_| missing())?;
    bytes.try_reserve_exact(length.saturating_sub(bytes.len())).map_err(|_| missing())?;
    bytes.resize(length, 0);
    Ok(())
}
