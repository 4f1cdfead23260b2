//! A checkpoint that stays, without what it needs of those that were removed: its pieces are referred to where others that stay have them, kept where their
//! bases are still there, and encoded anew otherwise. Nothing is committed that does not decode to the digests it had.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::Builder;
use super::prepare::Origin;
use crate::content::chain::{buffer, read_entry};
use crate::content::checkpoint::Checkpoint;
use crate::content::cost;
use crate::content::cut::{part_key, part_numbers};
use crate::content::kin::Kin;
use crate::content::known::plain_key;
use crate::protocol::{Protocol, Slot};
use crate::record::{Encoding, Entry, File, FileKind, Manifest, Pack, depth};
use ztensor::archive::Run;
use ztensor::{ElementType, Error, Hints, Kind, Result, Shape};

/// Re-anchored is what holds on to at least this many halves of the bytes that it would take afresh. At two, an anchor that a few deltas share would be
/// replaced by another of the same size.
const HALVES: u64 = 3;

/// The digests of what a checkpoint's files are made of.
pub(crate) fn contents(manifest: &Manifest) -> impl Iterator<Item = [u8; 32]> {
    origins(manifest).into_keys().map(|number| manifest.entries[number].digest)
}

/// Whether a checkpoint hangs on so many bytes of bases that nothing else has that it is better stored without them, or on contents of one that was. `stays`
/// are the contents of all that stays, `replaced` of what is anchored anew; `holders` says how many checkpoints need an entry: what another holds as well
/// would not go.
pub(crate) fn hangs_on_removed(
    manifest: &Manifest,
    stays: &HashSet<[u8; 32]>,
    replaced: &HashSet<[u8; 32]>,
    holders: &HashMap<[u8; 32], usize>,
) -> bool {
    let is_orphan = |number: usize| !stays.contains(&manifest.entries[number].digest);
    let is_shared =
        |number: usize| holders.get(&manifest.entries[number].digest).is_some_and(|count| *count > 1);
    let held: u64 = (0..manifest.entries.len())
        .filter(|number| is_orphan(*number) && !is_shared(*number))
        .map(|number| manifest.entries[number].stored)
        .fold(0, u64::saturating_add);
    // What has a base that stays is kept as it is stored.
    let hangs = |number: &usize| manifest.entries[*number].encoding.bases().any(is_orphan);
    let afresh: u64 = origins(manifest)
        .into_keys()
        .filter(hangs)
        .map(|number| cost::alone(&manifest.entries, number))
        .fold(0, u64::saturating_add);
    let follows = manifest
        .entries
        .iter()
        .flat_map(|entry| entry.encoding.bases())
        .any(|base| replaced.contains(&manifest.entries[base].digest));
    let outweighs = afresh > 0 && held.saturating_mul(2) >= afresh.saturating_mul(HALVES);
    held > 0 && (outweighs || follows)
}

/// The entries of a manifest that its files are made of, each with where it occurs first.
fn origins(manifest: &Manifest) -> BTreeMap<usize, Origin<'_>> {
    let mut found = BTreeMap::new();
    for file in &manifest.files {
        let FileKind::Regular { skeleton, pieces, .. } = &file.kind else { continue };
        let origin =
            |key, named, stretch| Origin { path: &file.path, key, named, stretch, own: 0, ancestry: None };
        if let Some(entry) = skeleton {
            found.entry(*entry).or_insert_with(|| origin(plain_key(&file.path, usize::MAX), false, None));
        }
        let parts = part_numbers(pieces.iter().map(|piece| piece.tensor.as_deref()));
        for ((number, piece), part) in pieces.iter().enumerate().zip(parts) {
            found.entry(piece.entry).or_insert_with(|| match &piece.tensor {
                Some(tensor) => origin(part_key(tensor, part), true, None),
                None => origin(plain_key(&file.path, number), false, Some(number)),
            });
        }
    }
    found
}

impl Builder<'_> {
    /// Makes the next generation of a checkpoint, which refers to nothing but its own contents and what is known.
    pub(crate) fn rebuild(mut self, old: &Checkpoint, slot: &Slot) -> Result<Manifest> {
        let (old, checkpoint) = (old.manifest(), old);
        let mut moved = BTreeMap::new();
        // Bases come before what is stored against them, so that those among the contents have their place by then.
        for (number, mut origin) in origins(old) {
            origin.own = self.family.len();
            if origin.named {
                let source = Arc::new(checkpoint.entry_source(number)?);
                let (run, whole) = (as_run(&old.entries[number]), old.entries[number].shape.clone());
                let name = Some(origin.key.clone());
                self.family.push(Kin { source, run, name, whole, start: 0, entry: None });
            }
            let place = self.carry(old, number, &origin)?;
            moved.insert(number, place);
            if origin.named {
                self.family[origin.own].entry = Some(place);
            }
        }
        self.packs.finish_open()?;
        for pack in self.packs.finished() {
            self.referred.insert(pack.id, Some(pack.clone()));
        }
        let packs: Option<Vec<Pack>> = self.referred.values().cloned().collect();
        let files = old
            .files
            .iter()
            .map(|file| File { path: file.path.clone(), kind: renumbered(&file.kind, &moved) });
        let mut stamp = self.protocol.stamp(slot)?;
        stamp.time = old.stamp.time;
        let manifest = Manifest {
            stamp,
            parent: old.parent.clone(),
            metadata: old.metadata.clone(),
            single: old.single,
            files: files.collect(),
            packs: packs.ok_or_else(|| Error::new(Kind::Io, "a pack was not completed"))?,
            entries: self.entries,
        };
        check_contents(self.protocol, &manifest, &moved.into_values().collect::<Vec<_>>())?;
        Ok(manifest)
    }

    /// Gives an entry of the old manifest a place in the new one. Returns its number there.
    fn carry(&mut self, old: &Manifest, number: usize, origin: &Origin<'_>) -> Result<usize> {
        let entry = &old.entries[number];
        if let Some(place) = self.at_hand(old, number)? {
            return Ok(place);
        }
        let mut bases = BTreeMap::new();
        for base in entry.encoding.bases() {
            if let Some(place) = self.at_hand(old, base)? {
                bases.insert(base, place);
            }
        }
        if entry.encoding.bases().all(|base| bases.contains_key(&base)) {
            let encoding = entry.encoding.renumbered(|base| bases.get(&base).copied().unwrap_or_default());
            let length = (entry.length, entry.stored, cost::alone(&old.entries, number));
            let in_time = match &encoding {
                Encoding::Raw | Encoding::Frame => true,
                Encoding::Delta { base } => {
                    cost::is_affordable(&self.entries, *base, entry.length, entry.stored)
                }
                Encoding::Derived { .. } => {
                    cost::is_computed_in_time(&self.entries, &encoding.bases().collect::<Vec<_>>(), length)
                }
            };
            let is_deep = encoding.bases().any(|base| depth(&self.entries, base) >= self.options.deepest);
            if in_time && !is_deep {
                return Ok(self.keep(old, number, encoding));
            }
        }
        let mut bytes = buffer(entry.length)?;
        read_entry(self.protocol, old, number, 0, &mut bytes)?;
        let run = as_run(entry);
        let prepared = self.prepare(&bytes, &run, origin)?;
        if prepared.0 != entry.digest {
            return Err(differs());
        }
        self.take(&bytes, &run, prepared)
    }

    /// The entry of the new manifest, or of one that is known, with the bytes and type of an old one.
    fn at_hand(&mut self, old: &Manifest, number: usize) -> Result<Option<usize>> {
        let entry = &old.entries[number];
        if let Some(place) = self.by_digest.get(&entry.digest) {
            let found = &self.entries[*place];
            return Ok((found.dtype == entry.dtype && found.length == entry.length).then_some(*place));
        }
        let twin = self.known.twin(&entry.digest, entry.length)?;
        let twin = twin.filter(|place| self.known.entry(*place).dtype == entry.dtype);
        Ok(twin.map(|place| {
            let place = self.import(place);
            self.by_digest.insert(entry.digest, place);
            place
        }))
    }

    /// Takes an entry over as it is stored.
    fn keep(&mut self, old: &Manifest, number: usize, encoding: Encoding) -> usize {
        let mut entry = old.entries[number].clone();
        let pack = &old.packs[entry.pack];
        entry.pack = self.referred.insert_full(pack.id, Some(pack.clone())).0;
        entry.encoding = encoding;
        self.by_digest.insert(entry.digest, self.entries.len());
        self.entries.push(entry);
        self.entries.len() - 1
    }
}

fn as_run(entry: &Entry) -> Run {
    Run {
        offset: 0,
        length: entry.length,
        tensor: None,
        element: ElementType::parse(&entry.dtype),
        shape: Shape::from(entry.shape.clone()),
        // An entry does not say.
        blocks: None,
    }
}

fn renumbered(kind: &FileKind, moved: &BTreeMap<usize, usize>) -> FileKind {
    let mut kind = kind.clone();
    if let FileKind::Regular { skeleton, pieces, .. } = &mut kind {
        let numbers = skeleton.iter_mut().chain(pieces.iter_mut().map(|piece| &mut piece.entry));
        numbers.for_each(|number| *number = moved.get(number).copied().unwrap_or(usize::MAX));
    }
    kind
}

/// Decodes entries and compares them with their digests.
fn check_contents(protocol: &Protocol, manifest: &Manifest, numbers: &[usize]) -> Result<()> {
    numbers.par_iter().try_for_each(|number| {
        let entry = &manifest.entries[*number];
        let mut bytes = buffer(entry.length)?;
        read_entry(protocol, manifest, *number, 0, &mut bytes)?;
        match Sha256::digest(&bytes)[..] == entry.digest[..] {
            true => Ok(()),
            false => Err(differs()),
        }
    })
}

fn differs() -> Error {
    Error::new(Kind::Checksum, "a tensor does not decode to the bytes that were added: the store is damaged")
        .with_hints(Hints::new(
            "Nothing was replaced. `Store::verify` names what is damaged.",
            "Nothing was replaced. Store.verify(decode=True) names what is damaged.",
            "Nothing was replaced. `ztensor store verify --decode` names what is damaged.",
        ))
}
