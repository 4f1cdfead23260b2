//! What writers, removers, re-anchorers, readers and collectors do, in terms of the real protocol, with packs of a few bytes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ztensor::{Kind, Result};
use ztensor_store::backend::Backend;
use ztensor_store::protocol::{Commit, GcOptions, Protocol, Slot};
use ztensor_store::record::{Manifest, Pack, PackDigest};
use ztensor_store::{Id, Name, Surroundings};

pub const GRACE: Duration = Duration::from_secs(1000);
pub const STORE: Id = Id([7; 16]);

/// What actors were told, or saw.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Added {
        name: Name,
        origin: Id,
        generation: u64,
    },
    RemoveStarted {
        name: Name,
    },
    Removed {
        name: Name,
        origin: Id,
    },
    /// A reader missed a pack of a checkpoint that it had opened.
    Missed {
        name: Name,
        origin: Id,
        at: Duration,
    },
}

pub type Events = Arc<Mutex<Vec<Event>>>;

/// Random numbers of one seed.
pub struct Seeded(pub Mutex<u64>);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(Mutex::new(seed))
    }

    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = *state;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }
}

impl Surroundings for Seeded {
    fn id(&self) -> Result<Id> {
        Ok(Id(((u128::from(self.next()) << 64) | u128::from(self.next())).to_be_bytes()))
    }

    fn time(&self) -> u64 {
        0
    }
}

pub fn protocol(backend: Arc<dyn Backend>, seed: u64) -> Protocol {
    Protocol::new(backend, Arc::new(Seeded::new(seed)), STORE, GRACE)
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Puts a pack of a few bytes.
pub fn put_pack(protocol: &Protocol) -> Result<Pack> {
    let id = protocol.id()?;
    let mut upload = protocol.backend().put(&Pack::key(id))?;
    upload.write(b"pack")?;
    upload.finish()?;
    Ok(Pack { id, length: 4, digest: PackDigest::Xxh3([0; 16]) })
}

fn manifest(protocol: &Protocol, slot: &Slot, packs: Vec<Pack>) -> Result<Manifest> {
    Ok(Manifest { packs, ..Manifest::new(protocol.stamp(slot)?) })
}

/// Packs of live checkpoints that are not proposed, to be reused.
fn reusable(protocol: &Protocol) -> Result<Vec<Pack>> {
    let endangered = protocol.proposals()?.endangered();
    for (name, generation) in protocol.names()?.into_iter().filter(|(name, _)| !name.is_hidden()) {
        if let Some(current) = protocol.listed(&name, generation)? {
            let fine = |pack: &Pack| !endangered.contains(&pack.id);
            let packs: Vec<Pack> = current.manifest.packs.into_iter().filter(fine).collect();
            for pack in &packs {
                if !protocol.has_pack(pack.id)? {
                    return Ok(Vec::new());
                }
            }
            if !packs.is_empty() {
                return Ok(packs);
            }
        }
    }
    Ok(Vec::new())
}

/// Adds a checkpoint; `reuse`: with the packs of another. A doomed one is tried once more, with packs of its own.
pub fn add(protocol: &Protocol, target: &Name, reuse: bool, pin: bool, events: &Events) -> Result<()> {
    let mut slot = protocol.slot(target)?;
    let mut packs = if reuse { reusable(protocol)? } else { Vec::new() };
    packs.push(put_pack(protocol)?);
    let pinned = pin.then(|| protocol.pin(packs.clone())).transpose()?;
    for _ in 0..2 {
        let manifest = manifest(protocol, &slot, packs)?;
        match protocol.commit(&manifest)? {
            Commit::Success => {
                let (origin, generation) = (manifest.stamp.origin, slot.generation);
                events.lock().unwrap().push(Event::Added { name: target.clone(), origin, generation });
                break;
            }
            Commit::Conflict => break,
            Commit::Doomed(_) => {
                slot = protocol.bury(&manifest.stamp)?;
                packs = vec![put_pack(protocol)?];
            }
        }
    }
    if let Some(pin) = pinned {
        protocol.unpin(&pin)?;
    }
    Ok(())
}

pub fn remove(protocol: &Protocol, target: &Name, events: &Events) -> Result<()> {
    events.lock().unwrap().push(Event::RemoveStarted { name: target.clone() });
    let origin = protocol.current(target)?.manifest.stamp.origin;
    protocol.remove(target)?;
    events.lock().unwrap().push(Event::Removed { name: target.clone(), origin });
    Ok(())
}

/// Gives a checkpoint a new generation in a pack of its own; `keep`: beside the old ones.
pub fn reanchor(protocol: &Protocol, target: &Name, keep: bool) -> Result<()> {
    let mut rewrite = |slot: &Slot, old: &Manifest| {
        let mut packs = if keep { old.packs.clone() } else { Vec::new() };
        packs.push(put_pack(protocol)?);
        manifest(protocol, slot, packs)
    };
    protocol.reanchor(target, &mut rewrite).map(|_| ())
}

pub fn collect(protocol: &Protocol, now: bool, times: usize) -> Result<()> {
    for _ in 0..times {
        protocol.gc(GcOptions { now, force: true, dry_run: false })?;
    }
    Ok(())
}

/// Opens a checkpoint and looks for its packs a while later, as often as asked.
pub fn read(
    protocol: &Protocol,
    target: &Name,
    times: usize,
    events: &Events,
    now: &Mutex<Duration>,
) -> Result<()> {
    let mut manifest = protocol.current(target)?.manifest;
    let origin = manifest.stamp.origin;
    for _ in 0..times {
        if protocol.missing_pack(&manifest)?.is_none() {
            continue;
        }
        match protocol.other_generation(target, origin, manifest.stamp.generation) {
            Ok(other) => manifest = other,
            Err(error) if error.kind() == Kind::Gone => {
                let at = *now.lock().unwrap();
                events.lock().unwrap().push(Event::Missed { name: target.clone(), origin, at });
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
