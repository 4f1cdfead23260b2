//! An entry that is read from its start to its end, a few MiB at a time: its frame and those of the chain below it are opened once, and each window is
//! decoded through all of them while it is in the cache. Nothing is compared with the entry's digest: that is left to who has all of it.

use super::chain::{buffer, links, read_entry};
use crate::protocol::Protocol;
use crate::record::{Encoding, Entry, Manifest, Pack};
use ztensor::{Error, Result};

/// Bytes that are decoded at once, or a block for each thread if that is more. They stay in the cache until they are hashed and written.
const WINDOW: u64 = 4 << 20;

/// An entry, opened.
pub(crate) struct Stream(Layer);

/// What an entry is decoded from.
enum Layer {
    Raw(Stored),
    Frame(z4ai::Frame<Stored>),
    Delta(Box<z4ai::Delta<Stored, Layer>>),
    /// Computed entries end a chain, and are not computed piece by piece.
    Whole(Vec<u8>),
}

/// The stored bytes of an entry.
struct Stored {
    protocol: Protocol,
    pack: String,
    offset: u64,
    length: u64,
}

impl Stream {
    /// Opens an entry; `None` for computed ones, which are better read as a whole.
    pub(super) fn open(protocol: &Protocol, manifest: &Manifest, number: usize) -> Result<Option<Stream>> {
        let chain = links(manifest, number)?;
        let mut below: Option<Layer> = None;
        for (place, (number, entry)) in chain.iter().enumerate().rev() {
            let stored = |pack: &Pack| Stored {
                protocol: protocol.clone(),
                pack: Pack::key(pack.id),
                offset: entry.offset,
                length: entry.stored,
            };
            let stored = manifest.packs.get(entry.pack).map(stored);
            let stored = stored.ok_or_else(|| Error::malformed("a pack does not exist"))?;
            below = Some(match (&entry.encoding, below) {
                (Encoding::Derived { .. }, _) if place == 0 => return Ok(None),
                (Encoding::Derived { .. }, _) => {
                    let mut whole = buffer(entry.length)?;
                    read_entry(protocol, manifest, *number, 0, &mut whole)?;
                    Layer::Whole(whole)
                }
                (Encoding::Raw, _) => Layer::Raw(stored),
                (Encoding::Delta { .. }, Some(base)) => {
                    let delta = z4ai::Frame::open(stored)?.against(base)?.trusted();
                    check_length(entry, delta.frame().decoded_len())?;
                    Layer::Delta(Box::new(delta))
                }
                _ => {
                    let frame = z4ai::Frame::open(stored)?;
                    check_length(entry, frame.decoded_len())?;
                    Layer::Frame(frame)
                }
            });
        }
        Ok(below.map(Stream))
    }

    /// Bytes from `start` on to be read at once: those of whole blocks.
    pub(super) fn window(&self, start: u64) -> u64 {
        let end = match &self.0 {
            Layer::Frame(frame) => pause(frame, start),
            Layer::Delta(delta) => pause(delta.frame(), start),
            Layer::Raw(_) | Layer::Whole(_) => start.saturating_add(WINDOW),
        };
        end.saturating_sub(start)
    }

    /// Reads bytes of the entry, from `start` on, as many as the buffer takes.
    pub(super) fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        z4ai::BlockSource::read_at(&self.0, start, out)
    }
}

/// The end of the last block of a window.
fn pause(frame: &z4ai::Frame<Stored>, start: u64) -> u64 {
    let block = frame.decoding_cost(start..start.saturating_add(1)).unwrap_or(0);
    frame.pause(start, WINDOW.max(block.saturating_mul(rayon::current_num_threads() as u64)))
}

fn check_length(entry: &Entry, decoded: u64) -> Result<()> {
    match entry.length == decoded {
        true => Ok(()),
        false => Err(Error::malformed("a frame does not have as many bytes as its entry")),
    }
}

impl z4ai::BlockSource for Layer {
    type Error = Error;

    fn length(&self) -> u64 {
        match self {
            Layer::Raw(stored) => stored.length,
            Layer::Frame(frame) => frame.decoded_len(),
            Layer::Delta(delta) => delta.frame().decoded_len(),
            Layer::Whole(bytes) => bytes.len() as u64,
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        match self {
            Layer::Raw(stored) => stored.read_at(offset, out),
            Layer::Frame(frame) => frame.read_into(range, out),
            Layer::Delta(delta) => delta.read_into(range, out),
            Layer::Whole(bytes) => Ok((&bytes).read_at(offset, out)?),
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Layer::Whole(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl z4ai::BlockSource for Stored {
    type Error = Error;

    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.length);
        end.ok_or_else(|| Error::malformed("more is read of an entry than is stored"))?;
        self.protocol.backend().get(&self.pack, self.offset + offset, out)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::{Backend, Memory};
    use crate::{AddOptions, CreateOptions, Store, System};
    use ztensor::Writer;

    /// A store of two checkpoints: frames, a delta, and what does not shrink.
    fn store(memory: &Memory) -> Store {
        let backend: Arc<dyn Backend> = Arc::new(memory.clone());
        let store = Store::create_on(backend, Arc::new(System), &CreateOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mixed = |place: u32| place.wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
        for step in 0..2u32 {
            let path = folder.path().join(format!("{step}.zt"));
            let weights: Vec<f32> = (0..5000)
                .map(|place| mixed(place) as f32 / 4e9 + (mixed(place ^ step << 20) >> 20) as f32 * 1e-7)
                .collect();
            let noise: Vec<u32> = (0..300).map(|place| mixed(place ^ 77 << 12)).collect();
            let mut writer = Writer::create(&path).unwrap();
            writer.add("weight", &[50, 100], &weights).unwrap();
            writer.add("noise", &[300], &noise).unwrap();
            writer.finish().unwrap();
            store.add(&path, &step.to_string(), &AddOptions::default(), &mut |_| Ok(())).unwrap();
        }
        store
    }

    /// All of an entry, so many bytes at a time.
    fn read(stream: &Stream, length: u64, step: usize) -> Result<Vec<u8>> {
        let mut bytes = buffer(length)?;
        for (number, part) in bytes.chunks_mut(step).enumerate() {
            stream.read((number * step) as u64, part)?;
        }
        Ok(bytes)
    }

    #[test]
    fn windows_of_any_length_are_those_of_the_entry_and_damage_is_an_error_or_shows_in_the_bytes() {
        let memory = Memory::new();
        let store = store(&memory);
        let mut deltas = 0;
        for name in ["0", "1"] {
            let checkpoint = store.checkpoint(name).unwrap();
            let manifest = checkpoint.manifest();
            for (number, entry) in manifest.entries.iter().enumerate() {
                let open = |store: &Store| Stream::open(store.protocol(), manifest, number);
                let Some(stream) = open(&store).unwrap() else { continue };
                deltas += usize::from(entry.encoding.has_base());
                let expected = checkpoint.read_entry(entry).unwrap();
                for step in [1 + expected.len() / 7, 4096, expected.len().max(1)] {
                    assert!(read(&stream, entry.length, step).unwrap() == expected, "{name} {number} {step}");
                }
                let window = stream.window(0);
                assert!(window > 0 || entry.length == 0);
                assert!(stream.read(entry.length, &mut [0]).is_err());
                let key = Pack::key(manifest.packs[entry.pack].id);
                let pack = memory.read(&key, u64::MAX).unwrap().unwrap();
                for place in
                    (entry.offset..entry.offset + entry.stored).step_by(1 + entry.stored as usize / 64)
                {
                    let mut damaged = pack.clone();
                    damaged[place as usize] ^= 0x41;
                    memory.delete(&key).unwrap();
                    memory.create(&key, &damaged).unwrap();
                    let found = open(&store).and_then(|stream| read(&stream.unwrap(), entry.length, 4096));
                    // Blocks of frames have checksums; what is stored as it is has the digest of the file.
                    match &entry.encoding {
                        Encoding::Raw => assert!(found.unwrap() != expected),
                        _ => assert!(found.is_err() || found.is_ok_and(|bytes| bytes == expected)),
                    }
                }
                memory.delete(&key).unwrap();
                memory.create(&key, &pack).unwrap();
            }
        }
        assert!(deltas > 0);
    }
}
