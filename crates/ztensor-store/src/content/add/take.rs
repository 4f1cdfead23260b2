//! From a prepared piece to an entry of the manifest: its bytes into a pack, and the chains that it needs from other manifests.

use super::Builder;
use super::prepare::{Derived, Ingredient, Prepared, raw_or_frame};
use crate::content::cost;
use crate::content::known::Place;
use crate::id::Id;
use crate::record::{Encoding, Entry, Operand, depth, needed};
use ztensor::Result;
use ztensor::archive::Run;

impl Builder<'_> {
    /// Takes a piece into the manifest, and what is stored of it into a pack. Returns the entry's number.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        run: &Run,
        (digest, mut prepared): ([u8; 32], Prepared),
    ) -> Result<usize> {
        // Pieces of one window were prepared side by side: a twin may have turned up since.
        if let Some(entry) = self.by_digest.get(&digest) {
            self.stats.duplicates += 1;
            return Ok(*entry);
        }
        let (relation, payload) = match &prepared {
            Prepared::Kin { part, frame } => (self.relation(run, *part, frame.len() as u64), Vec::new()),
            Prepared::Derived(derived) => (self.derivation(run, derived), payload(derived)),
            _ => (None, Vec::new()),
        };
        if matches!(prepared, Prepared::Kin { .. } | Prepared::Derived(_)) && relation.is_none() {
            let codec = run.codec_options(bytes, self.options.effort);
            prepared = raw_or_frame(bytes, z4ai::compress(bytes, &codec)?);
        }
        let (encoding, stored): (_, &[u8]) = match &prepared {
            Prepared::Kin { frame, .. } => {
                self.stats.deltas += 1;
                (relation.unwrap_or(Encoding::Frame), frame)
            }
            Prepared::Derived(derived) => {
                self.stats.deltas += 1;
                self.stats.computed += 1;
                for operand in &derived.operands {
                    if let Ingredient::Stored(places) = operand
                        && let Some(place) = places.first()
                    {
                        *self.taken.entry(place.checkpoint).or_default() += bytes.len() as u64;
                    }
                }
                (relation.unwrap_or(Encoding::Frame), &payload)
            }
            Prepared::Twin(place) => {
                self.stats.duplicates += 1;
                *self.taken.entry(place.checkpoint).or_default() += bytes.len() as u64;
                let entry = self.import(*place);
                self.by_digest.insert(digest, entry);
                return Ok(entry);
            }
            Prepared::Raw | Prepared::Own => (Encoding::Raw, bytes),
            Prepared::Frame(frame) => (Encoding::Frame, frame),
            Prepared::Delta { base, frame } => {
                self.stats.deltas += 1;
                *self.taken.entry(base.checkpoint).or_default() += bytes.len() as u64;
                (Encoding::Delta { base: self.import(*base) }, frame)
            }
        };
        let (pack, offset) = match self.options.dry_run {
            true => (Id([0; 16]), 0),
            false => self.packs.write(stored)?,
        };
        self.stats.stored += stored.len() as u64;
        let entry = Entry {
            digest,
            length: bytes.len() as u64,
            dtype: run.element.to_string(),
            shape: run.shape.to_vec(),
            encoding,
            pack: self.referred.insert_full(pack, None).0,
            offset,
            stored: stored.len() as u64,
        };
        self.entries.push(entry);
        self.by_digest.insert(digest, self.entries.len() - 1);
        Ok(self.entries.len() - 1)
    }

    /// Takes an entry of the store and the chain below it into the manifest.
    pub(super) fn import(&mut self, place: Place) -> usize {
        if let Some(entry) = self.imported.get(&place) {
            return *entry;
        }
        let manifest = self.known.manifest(place);
        for number in needed(&manifest.entries, place.entry) {
            let place = Place { entry: number, ..place };
            if self.imported.contains_key(&place) {
                continue;
            }
            let mut entry = manifest.entries[number].clone();
            let pack = &manifest.packs[entry.pack];
            entry.pack = self.referred.insert_full(pack.id, Some(pack.clone())).0;
            // What an entry needs comes before it.
            let imported = |base: usize| self.imported.get(&Place { entry: base, ..place }).copied();
            entry.encoding = entry.encoding.renumbered(|base| imported(base).unwrap_or_default());
            self.by_digest.entry(entry.digest).or_insert(self.entries.len());
            self.entries.push(entry);
            self.imported.insert(place, self.entries.len() - 1);
        }
        self.imported.get(&place).copied().unwrap_or_default()
    }

    /// The encoding of a piece against a relative in this checkpoint, unless its chain would become too long.
    fn relation(&self, run: &Run, part: usize, stored: u64) -> Option<Encoding> {
        let base = self.family[part].entry?;
        let is_long = depth(&self.entries, base) >= self.options.deepest;
        let in_time = !is_long && cost::is_affordable(&self.entries, base, run.length, stored);
        in_time.then_some(Encoding::Delta { base })
    }

    /// The encoding of a computed piece, unless what it is computed from lies too deep.
    fn derivation(&mut self, run: &Run, derived: &Derived) -> Option<Encoding> {
        let mut operands = Vec::with_capacity(derived.operands.len());
        let mut stored = derived.frame.len() as u64;
        for operand in &derived.operands {
            operands.push(match operand {
                Ingredient::Stored(places) => {
                    Operand::Entries(places.iter().map(|place| self.import(*place)).collect())
                }
                Ingredient::Own(parts) => {
                    let entries = parts.clone().map(|part| self.family[part].entry);
                    Operand::Entries(entries.collect::<Option<_>>()?)
                }
                Ingredient::Field { length, frame } => {
                    stored += frame.len() as u64;
                    Operand::Field { length: *length, stored: frame.len() as u64 }
                }
            });
        }
        let encoding = Encoding::Derived { recipe: derived.recipe.clone(), operands };
        let bases: Vec<usize> = encoding.bases().collect();
        let deepest = bases.iter().map(|base| depth(&self.entries, *base)).max().unwrap_or(0);
        let sizes = (run.length, stored, derived.alone);
        let in_time = cost::is_computed_in_time(&self.entries, &bases, sizes);
        (in_time && deepest < self.options.deepest).then_some(encoding)
    }
}

/// What is stored of a computed piece: its fields, then the delta.
fn payload(derived: &Derived) -> Vec<u8> {
    let fields = derived.operands.iter().map(|operand| match operand {
        Ingredient::Field { frame, .. } => frame.as_slice(),
        Ingredient::Stored(_) | Ingredient::Own(_) => &[],
    });
    fields.chain([derived.frame.as_slice()]).flatten().copied().collect()
}
