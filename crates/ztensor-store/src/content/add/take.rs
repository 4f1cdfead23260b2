//! From a prepared piece to an entry of the manifest: its bytes into a pack, and the chains that it needs from other manifests.

use super::Builder;
use super::prepare::{Prepared, raw_or_frame};
use crate::content::cast::Cast;
use crate::content::cost;
use crate::content::kin::Relative;
use crate::content::known::Place;
use crate::id::Id;
use crate::record::{Encoding, Entry, depth};
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
        let relation = match &prepared {
            Prepared::Kin { relative, frame } => self.relation(run, *relative, frame.len() as u64),
            _ => None,
        };
        if matches!(prepared, Prepared::Kin { .. }) && relation.is_none() {
            let codec = run.codec_options(bytes, self.options.effort);
            prepared = raw_or_frame(bytes, z4ai::compress(bytes, &codec)?);
        }
        let (encoding, stored): (_, &[u8]) = match &prepared {
            Prepared::Kin { frame, .. } => {
                self.stats.deltas += 1;
                (relation.unwrap_or(Encoding::Frame), frame)
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
        let mut chain = vec![place.entry];
        while let Some(base) = chain.last().and_then(|entry| manifest.entries[*entry].encoding.base()) {
            chain.push(base);
        }
        let mut below = None;
        for number in chain.into_iter().rev() {
            let place = Place { entry: number, ..place };
            if let Some(entry) = self.imported.get(&place) {
                below = Some(*entry);
                continue;
            }
            let mut entry = manifest.entries[number].clone();
            let pack = &manifest.packs[entry.pack];
            entry.pack = self.referred.insert_full(pack.id, Some(pack.clone())).0;
            if let Some(base) = below {
                entry.encoding = entry.encoding.with_base(base);
            }
            self.by_digest.entry(entry.digest).or_insert(self.entries.len());
            self.entries.push(entry);
            self.imported.insert(place, self.entries.len() - 1);
            below = Some(self.entries.len() - 1);
        }
        below.unwrap_or_default()
    }

    /// The encoding of a piece against a relative in this checkpoint, unless its chain would become too long or its entry has another type.
    fn relation(&self, run: &Run, relative: Relative, stored: u64) -> Option<Encoding> {
        let base = self.kin[relative.kin].entry?;
        let is_long = depth(&self.entries, base) >= self.options.deepest;
        if is_long || !cost::is_affordable(&self.entries, base, run.length, stored) {
            return None;
        }
        let found = Cast::between(&self.entries[base].dtype, &run.element.to_string());
        match relative.cast {
            None => Some(Encoding::Delta { base }),
            Some(cast) => (found == Some(cast)).then_some(Encoding::Cast { base }),
        }
    }
}
