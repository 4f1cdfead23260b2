//! Checkpoints that another may have been computed from: a bf16 model whose Q4_K copy is added, an fp32 one whose bf16 copy is. They are found by the names
//! and sizes of tensors; which of them it is, samples tell.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::checkpoint::Checkpoint;
use super::known::{Base, Known, Place};
use crate::protocol::Protocol;
use crate::record::{Encoding, FileKind, Manifest};
use ztensor::archive::{BaseTensor, canonical_name};
use ztensor::index::Data;
use ztensor::recipe::Number;
use ztensor::{ElementType, OpenOptions, Reader, Result};

/// Checkpoints that are tried on samples.
const TRIED: usize = 4;
/// Checkpoints that are looked at, the nearest relatives first: a store has thousands, and one that is added without relatives shall not read them all.
const LOOKED_AT: usize = 2000;
/// What a tensor of the right name counts, against one of the right size.
const BY_NAME: u64 = 4;

/// A tensor whose origin is looked for.
pub(crate) struct Wanted {
    /// What the tools for its format call it, as others do.
    pub name: String,
    pub elements: u64,
    pub dtype: String,
}

/// A checkpoint as one file, and the entries that its tensors are stored in.
pub(crate) struct Parent {
    pub reader: Arc<Reader>,
    places: HashMap<String, Vec<Place>>,
}

impl Parent {
    /// Opens a known checkpoint; `None` where that fails: it is one of several that may serve, and `verify` is there to name what is damaged.
    pub(crate) fn open(protocol: &Protocol, known: &Known, checkpoint: usize) -> Option<Parent> {
        let opened = Checkpoint::new(protocol, Arc::clone(&known.checkpoints[checkpoint]));
        let reader = opened.reader("", &OpenOptions::default()).ok()?;
        let mut places: HashMap<String, Vec<Place>> = HashMap::new();
        let mut seen: HashSet<&str> = HashSet::new();
        let mut ambiguous: HashSet<&str> = HashSet::new();
        for file in &opened.manifest().files {
            let FileKind::Regular { pieces, .. } = &file.kind else { continue };
            let mut here: HashSet<&str> = HashSet::new();
            for piece in pieces {
                let Some(tensor) = piece.tensor.as_deref() else { continue };
                let place = Place { checkpoint, entry: piece.entry };
                // Where two files have a tensor of one name, the file stands before it.
                places.entry(format!("{}::{tensor}", file.path)).or_default().push(place);
                places.entry(tensor.to_owned()).or_default().push(place);
                here.insert(tensor);
            }
            ambiguous.extend(here.iter().filter(|tensor| seen.contains(**tensor)));
            seen.extend(here);
        }
        ambiguous.into_iter().for_each(|tensor| drop(places.remove(tensor)));
        Some(Parent { reader: Arc::new(reader), places })
    }

    /// The entries that a tensor's bytes are in, one after the other; `None` where it does not lie plainly in its file, or not all of it.
    pub(crate) fn places(&self, known: &Known, tensor: &BaseTensor) -> Result<Option<&[Place]>> {
        let found = self.places.get(&tensor.name).filter(|_| tensor.role == "data");
        let component = self.reader.object(&tensor.name)?.component(&tensor.role);
        let (Some(places), Some(component)) = (found, component) else { return Ok(None) };
        let length: u64 = places.iter().map(|place| known.entry(*place).length).sum();
        if !matches!(component.data, Data::Raw(_)) || length != component.length {
            return Ok(None);
        }
        for place in places {
            if !known.is_usable(*place)? || !known.may_be_base(*place) {
                return Ok(None);
            }
        }
        Ok(Some(places))
    }
}

/// The known checkpoints that have floats of another type where these tensors have theirs, the most plausible first.
pub(crate) fn candidates(known: &Known, base: &Base, wanted: &[Wanted]) -> Vec<usize> {
    let mut found: Vec<(u64, usize, usize)> = Vec::new();
    let mut seen: HashSet<Vec<[u8; 32]>> = HashSet::new();
    for (checkpoint, current) in known.checkpoints.iter().enumerate().take(LOOKED_AT) {
        let manifest = &current.manifest;
        let is_wanted = match base {
            Base::Auto => true,
            Base::None => false,
            Base::Checkpoint(name) => *name == manifest.stamp.name,
        };
        if !is_wanted {
            continue;
        }
        let (score, computed, digests) = score(manifest, wanted);
        // Copies of a checkpoint in several formats are one parent.
        if score > 0 && seen.insert(digests) {
            found.push((score, computed, checkpoint));
        }
    }
    // Copies are computed from the original rather than from one another.
    found.sort_by_key(|(score, computed, checkpoint)| (std::cmp::Reverse(*score), *computed, *checkpoint));
    found.into_iter().map(|(_, _, checkpoint)| checkpoint).take(TRIED).collect()
}

/// How many of the wanted tensors a checkpoint may be the origin of, and of what it has for them how many are computed themselves, and the digests.
fn score(manifest: &Manifest, wanted: &[Wanted]) -> (u64, usize, Vec<[u8; 32]>) {
    let mut floats: HashMap<&str, bool> = HashMap::new();
    let (mut score, mut computed, mut digests) = (0, 0, Vec::new());
    for file in &manifest.files {
        let FileKind::Regular { pieces, .. } = &file.kind else { continue };
        let mut rest = pieces.as_slice();
        while let Some(first) = rest.first() {
            let parts = rest.iter().take_while(|piece| piece.tensor == first.tensor).count().max(1);
            let (tensor, later) = rest.split_at(parts);
            rest = later;
            let Some(name) = first.tensor.as_deref() else { continue };
            let entry = &manifest.entries[first.entry];
            let dtype = entry.dtype.as_str();
            if !*floats.entry(dtype).or_insert_with(|| is_float(dtype)) {
                continue;
            }
            let counts = tensor.iter().map(|piece| elements(&manifest.entries[piece.entry].shape));
            let count = counts.fold(0, u64::saturating_add);
            let same_size = |tensor: &&Wanted| tensor.elements == count && tensor.dtype != dtype;
            let mut of_size = wanted.iter().filter(same_size).peekable();
            if of_size.peek().is_some() {
                let canonical = canonical_name(name);
                let named = of_size.any(|tensor| tensor.name == canonical);
                score += if named { BY_NAME } else { 1 };
                computed += usize::from(matches!(entry.encoding, Encoding::Derived { .. }));
                digests.push(entry.digest);
            }
        }
    }
    digests.sort_unstable();
    (score, computed, digests)
}

fn is_float(dtype: &str) -> bool {
    Number::of(&ElementType::parse(dtype)).is_some_and(Number::is_float)
}

fn elements(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |product, size| product.saturating_mul(*size))
}
