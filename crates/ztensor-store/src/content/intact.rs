//! Whether the bytes of a file are those that were added: by the digest of the file, or where it has none by those of the entries that it is made of.

use sha2::{Digest as _, Sha256};

use crate::record::{File, FileKind, Manifest};

/// Takes the bytes of a file, in their order.
pub(super) struct Intact<'a> {
    /// What is left of the file, in reverse: stretches of so many bytes, each with the digest of all of it.
    rest: Vec<Stretch<'a>>,
    /// Of the stretch that is being read.
    hasher: Sha256,
    /// The skeleton lies between the others.
    skeleton: Option<(Sha256, &'a [u8; 32])>,
    good: bool,
}

struct Stretch<'a> {
    left: u64,
    /// `None` where it is a part of the skeleton.
    digest: Option<&'a [u8; 32]>,
}

impl<'a> Intact<'a> {
    pub(super) fn new(manifest: &'a Manifest, file: &'a File) -> Intact<'a> {
        let mut intact = Intact { rest: Vec::new(), hasher: Sha256::new(), skeleton: None, good: true };
        let FileKind::Regular { length, sha256, skeleton, pieces, .. } = &file.kind else { return intact };
        if let Some(digest) = sha256 {
            intact.rest.push(Stretch { left: *length, digest: Some(digest) });
            intact.settle();
            return intact;
        }
        let mut bones = 0;
        if let Some(entry) = skeleton.and_then(|number| manifest.entries.get(number)) {
            bones = entry.length;
            intact.skeleton = Some((Sha256::new(), &entry.digest));
        }
        for piece in pieces {
            bones = bones.saturating_sub(piece.gap);
            intact.rest.push(Stretch { left: piece.gap, digest: None });
            if let Some(entry) = manifest.entries.get(piece.entry) {
                intact.rest.push(Stretch { left: entry.length, digest: Some(&entry.digest) });
            }
        }
        intact.rest.push(Stretch { left: bones, digest: None });
        intact.rest.reverse();
        intact.settle();
        intact
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(stretch) = self.rest.last_mut() else {
                self.good = false;
                return;
            };
            let taken = stretch.left.min(bytes.len() as u64);
            let (part, later) = bytes.split_at(taken as usize);
            match (&stretch.digest, &mut self.skeleton) {
                (Some(_), _) => self.hasher.update(part),
                (None, Some((hasher, _))) => hasher.update(part),
                (None, None) => self.good = false,
            }
            stretch.left -= taken;
            bytes = later;
            self.settle();
        }
    }

    /// Compares the digests of what is complete.
    fn settle(&mut self) {
        while let Some(stretch) = self.rest.pop_if(|stretch| stretch.left == 0) {
            if let Some(digest) = stretch.digest {
                self.good &= self.hasher.finalize_reset()[..] == digest[..];
            }
        }
    }

    /// Whether all of the file was there, and as it should be.
    pub(super) fn finish(self) -> bool {
        let skeleton = self.skeleton.is_none_or(|(hasher, digest)| hasher.finalize()[..] == digest[..]);
        self.good && self.rest.is_empty() && skeleton
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::name::Name;
    use crate::record::{Encoding, Entry, Piece, Stamp};

    /// A manifest with a file of three entries, the last of them its skeleton, and the file's bytes.
    fn file() -> (Manifest, Vec<u8>) {
        let contents: [&[u8]; 3] = [b"weights", b"", b"<head><end>"];
        let entry = |bytes: &&[u8]| Entry {
            digest: Sha256::digest(bytes).into(),
            length: bytes.len() as u64,
            dtype: "u8".into(),
            shape: vec![bytes.len() as u64],
            encoding: Encoding::Frame,
            pack: 0,
            offset: 0,
            stored: 1,
        };
        let piece = |gap, entry| Piece { gap, entry, tensor: None };
        let pieces = vec![piece(6, 0), piece(0, 1), piece(0, 0)];
        let kind = FileKind::Regular { mode: 0o644, length: 25, sha256: None, skeleton: Some(2), pieces };
        let id = Id([0; 16]);
        let stamp = Stamp { name: Name::new("a").unwrap(), generation: 0, write: id, origin: id, time: 0 };
        let manifest = Manifest {
            files: vec![File { path: "a".into(), kind }],
            entries: contents.iter().map(entry).collect(),
            ..Manifest::new(stamp)
        };
        (manifest, b"<head>weightsweights<end>".to_vec())
    }

    fn is_intact(manifest: &Manifest, bytes: &[u8], step: usize) -> bool {
        let mut intact = Intact::new(manifest, &manifest.files[0]);
        bytes.chunks(step).for_each(|part| intact.update(part));
        intact.finish()
    }

    #[test]
    fn any_changed_byte_is_found_whichever_digests_there_are() {
        let (mut manifest, bytes) = file();
        for whole in [false, true] {
            if let FileKind::Regular { sha256, .. } = &mut manifest.files[0].kind {
                *sha256 = whole.then(|| Sha256::digest(&bytes).into());
            }
            for step in 1..=bytes.len() {
                assert!(is_intact(&manifest, &bytes, step), "{step}");
            }
            for place in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[place] ^= 1;
                assert!(!is_intact(&manifest, &changed, 4), "{place}");
                assert!(!is_intact(&manifest, &bytes[..place], 4), "{place}");
            }
            assert!(!is_intact(&manifest, &[&bytes[..], b"more"].concat(), 4));
        }
    }
}
