//! What a store holds already: entries by content, for duplicates, and by name and shape, for bases. All of it is a hint; that a pack is there is
//! looked up before it is relied on, and again after the commit.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::cut::{part_key, part_numbers};
use crate::id::Id;
use crate::name::Name;
use crate::protocol::{Current, Protocol};
use crate::record::{Entry, FileKind, Manifest, needed};
use ztensor::Result;

/// An entry of one of the known checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub checkpoint: usize,
    pub entry: usize,
}

/// The checkpoints of a store at one time.
pub(crate) struct Known {
    protocol: Protocol,
    /// The nearest relatives first.
    pub checkpoints: Vec<Arc<Current>>,
    by_digest: HashMap<[u8; 32], Place>,
    /// Tensors by name, and pieces of other files by path and number; with the path of the file.
    by_key: HashMap<String, Vec<(String, Place)>>,
    /// Tensors by what they are.
    by_kind: HashMap<(String, Vec<u64>), Vec<Place>>,
    endangered: BTreeSet<Id>,
    /// Where only contents of checkpoints may be bases: their digests.
    bases: Option<HashSet<[u8; 32]>>,
    there: Mutex<HashMap<Id, bool>>,
}

/// Which checkpoints bases are looked for in.
#[derive(Clone, Debug, Default)]
pub enum Base {
    /// In all, the nearest relatives first.
    #[default]
    Auto,
    /// In none: every tensor is stored by itself, unless an equal one is there.
    None,
    /// In this one.
    Checkpoint(Name),
}

/// Candidates for a base that are looked at, more than are compared: some may not be usable.
const CANDIDATES: usize = 32;

/// The key of a piece that is no tensor.
pub(crate) fn plain_key(path: &str, number: usize) -> String {
    format!("\0{path}\0{number}")
}

impl Known {
    pub(crate) fn new(
        protocol: &Protocol,
        name: &Name,
        mut checkpoints: Vec<Arc<Current>>,
        base: &Base,
        endangered: BTreeSet<Id>,
    ) -> Known {
        let kinship = |current: &Current| {
            let other = current.manifest.stamp.name.as_str();
            let same = name.as_str().split('/').zip(other.split('/')).take_while(|(a, b)| a == b).count();
            // Times are seconds: of several adds in one, the steps tell which was the last.
            (same, current.manifest.stamp.time, current.manifest.stamp.name.step())
        };
        checkpoints.sort_by_key(|current| std::cmp::Reverse(kinship(current)));
        let mut known = Known {
            protocol: protocol.clone(),
            checkpoints,
            by_digest: HashMap::new(),
            by_key: HashMap::new(),
            by_kind: HashMap::new(),
            endangered,
            bases: None,
            there: Mutex::default(),
        };
        for checkpoint in 0..known.checkpoints.len() {
            known.take(checkpoint, base);
        }
        known
    }

    /// Lets nothing be a base but these contents: what others were stored against and only removed ones had is not used again.
    pub(crate) fn with_bases(self, contents: HashSet<[u8; 32]>) -> Known {
        Known { bases: Some(contents), ..self }
    }

    /// Whether an entry may be a base at all.
    pub(crate) fn may_be_base(&self, place: Place) -> bool {
        self.bases.as_ref().is_none_or(|bases| bases.contains(&self.entry(place).digest))
    }

    fn take(&mut self, checkpoint: usize, base: &Base) {
        let current = Arc::clone(&self.checkpoints[checkpoint]);
        let manifest = &current.manifest;
        for (entry, stored) in manifest.entries.iter().enumerate() {
            self.by_digest.entry(stored.digest).or_insert(Place { checkpoint, entry });
        }
        let wanted = match base {
            Base::Auto => true,
            Base::None => false,
            Base::Checkpoint(name) => *name == manifest.stamp.name,
        };
        if !wanted {
            return;
        }
        for file in &manifest.files {
            let FileKind::Regular { pieces, skeleton, .. } = &file.kind else { continue };
            if let Some(entry) = skeleton {
                let place = Place { checkpoint, entry: *entry };
                self.by_key
                    .entry(plain_key(&file.path, usize::MAX))
                    .or_default()
                    .push((file.path.clone(), place));
            }
            let parts = part_numbers(pieces.iter().map(|piece| piece.tensor.as_deref()));
            for ((number, piece), part) in pieces.iter().enumerate().zip(parts) {
                let place = Place { checkpoint, entry: piece.entry };
                let key = match &piece.tensor {
                    Some(tensor) => {
                        let Entry { dtype, shape, .. } = &manifest.entries[piece.entry];
                        self.by_kind.entry((dtype.clone(), shape.clone())).or_default().push(place);
                        part_key(tensor, part)
                    }
                    None => plain_key(&file.path, number),
                };
                self.by_key.entry(key).or_default().push((file.path.clone(), place));
            }
        }
    }

    pub(crate) fn manifest(&self, place: Place) -> &Manifest {
        &self.checkpoints[place.checkpoint].manifest
    }

    pub(crate) fn entry(&self, place: Place) -> &Entry {
        &self.manifest(place).entries[place.entry]
    }

    /// An entry with the same bytes.
    pub(crate) fn twin(&self, digest: &[u8; 32], length: u64) -> Result<Option<Place>> {
        let found = self.by_digest.get(digest).copied().filter(|place| self.entry(*place).length == length);
        match found {
            Some(place) if self.is_usable(place)? => Ok(Some(place)),
            _ => Ok(None),
        }
    }

    /// Entries that may be near: of the same name and kind, in the same file first; otherwise of the same kind. The nearest relatives first. Also
    /// whether they are of the same name.
    pub(crate) fn candidates(
        &self,
        key: &str,
        path: &str,
        dtype: &str,
        shape: &[u64],
        plain: bool,
    ) -> (Vec<Place>, bool) {
        let same = |place: &Place| {
            let entry = self.entry(*place);
            plain || (entry.dtype == dtype && entry.shape == shape)
        };
        let named = self.by_key.get(key).map(Vec::as_slice).unwrap_or_default();
        let of =
            |own: bool| named.iter().filter(move |(file, _)| (file == path) == own).map(|(_, place)| *place);
        let places = self.distinct(of(true).chain(of(false)).filter(same));
        if !places.is_empty() || plain {
            return (places, true);
        }
        let kin = self.by_kind.get(&(dtype.to_owned(), shape.to_vec()));
        (self.distinct(kin.into_iter().flatten().copied()), false)
    }

    /// The first places whose bytes differ from one another.
    fn distinct(&self, places: impl Iterator<Item = Place>) -> Vec<Place> {
        let mut seen = HashSet::new();
        places.filter(|place| seen.insert(self.entry(*place).digest)).take(CANDIDATES).collect()
    }

    /// Whether all packs of an entry's chain are there and not about to go.
    pub(crate) fn is_usable(&self, place: Place) -> Result<bool> {
        let manifest = self.manifest(place);
        for number in needed(&manifest.entries, place.entry) {
            let pack = manifest.packs[manifest.entries[number].pack].id;
            if self.endangered.contains(&pack) || !self.is_there(pack)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_there(&self, pack: Id) -> Result<bool> {
        let known = self.there.lock().unwrap_or_else(PoisonError::into_inner).get(&pack).copied();
        if let Some(there) = known {
            return Ok(there);
        }
        let there = self.protocol.has_pack(pack)?;
        self.there.lock().unwrap_or_else(PoisonError::into_inner).insert(pack, there);
        Ok(there)
    }
}
