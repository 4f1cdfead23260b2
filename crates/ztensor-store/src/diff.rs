//! What changed between two checkpoints. Digests tell which tensors did; only those are decoded, part by part.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::SEPARATOR;
use crate::content::cut::part_numbers;
use crate::record::{Entry, FileKind, Manifest};
use crate::store::Store;
use ztensor::{ElementDifference, ElementType, Error, Result};

/// What changed from one checkpoint to another. Tensors are compared across files and formats, by name; where two files of a checkpoint have a tensor of one
/// name, by file and name: `ema.pt::weight`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Tensors that only the second has.
    pub added: Vec<String>,
    /// Tensors that only the first has.
    pub removed: Vec<String>,
    /// Tensors of another type or shape, with both.
    pub retyped: Vec<(String, String, String)>,
    /// Tensors with other values, and how these differ.
    pub changed: Vec<(String, ElementDifference)>,
    /// Tensors that are the same.
    pub identical: u64,
    /// Files without tensors that were added, removed or changed.
    pub files: Vec<String>,
}

impl Difference {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        let tensors = self.added.len() + self.removed.len() + self.retyped.len() + self.changed.len();
        tensors + self.files.len() == 0
    }
}

impl Store {
    /// Compares two checkpoints.
    pub fn diff(&self, first: &str, second: &str) -> Result<Difference> {
        let (left, right) = (self.checkpoint(first)?, self.checkpoint(second)?);
        let (first, second) = (Contents::of(left.manifest()), Contents::of(right.manifest()));
        let several: BTreeSet<&str> = first.in_several_files().chain(second.in_several_files()).collect();
        let (ours, theirs) = (first.shown(&several), second.shown(&several));
        let mut difference = Difference::default();
        for (name, parts) in &ours {
            let Some(others) = theirs.get(name) else {
                difference.removed.push(name.clone());
                continue;
            };
            let pairs = || parts.iter().zip(others.iter());
            if parts.len() == others.len() && pairs().all(|(one, other)| one.digest == other.digest) {
                difference.identical += 1;
                continue;
            }
            if kind(parts) != kind(others) || parts.len() != others.len() {
                difference.retyped.push((name.clone(), kind(parts), kind(others)));
                continue;
            }
            let compare = |(one, other): (&&Entry, &&Entry)| -> Result<ElementDifference> {
                let element = ElementType::parse(&one.dtype);
                let ours = left.read_entry(one)?;
                match one.digest == other.digest {
                    true => Ok(ElementDifference::between(&element, &ours, &ours)),
                    false => Ok(ElementDifference::between(&element, &ours, &right.read_entry(other)?)),
                }
            };
            let whole = pairs().try_fold(ElementDifference::default(), |sum, pair| {
                Ok::<_, Error>(sum.and(compare(pair)?))
            })?;
            difference.changed.push((name.clone(), whole));
        }
        difference.added.extend(theirs.into_keys().filter(|name| !ours.contains_key(name)));
        let mut files: Vec<&str> = first.files.keys().chain(second.files.keys()).copied().collect();
        files.sort_unstable();
        files.dedup();
        let other = files.into_iter().filter(|path| match (first.files.get(path), second.files.get(path)) {
            (Some(one), Some(other)) => !one.equals(other),
            _ => true,
        });
        difference.files.extend(other.map(str::to_owned));
        Ok(difference)
    }
}

/// Tensors by name and file, each with its parts, and files without any by path.
struct Contents<'a> {
    tensors: BTreeMap<(&'a str, &'a str), Vec<&'a Entry>>,
    files: BTreeMap<&'a str, Plain<'a>>,
}

/// A file without tensors.
struct Plain<'a> {
    sha256: Option<&'a [u8; 32]>,
    /// The digests of its pieces.
    pieces: Vec<&'a [u8; 32]>,
}

impl Plain<'_> {
    /// Whether both have the same bytes; where one has no digest of its own, whether they have the same pieces.
    fn equals(&self, other: &Plain<'_>) -> bool {
        match (self.sha256, other.sha256) {
            (Some(one), Some(other)) => one == other,
            _ => self.pieces == other.pieces,
        }
    }
}

impl<'a> Contents<'a> {
    /// Names of tensors that more than one file has.
    fn in_several_files(&self) -> impl Iterator<Item = &'a str> {
        let names = || self.tensors.keys().map(|(name, _)| *name);
        names().zip(names().skip(1)).filter(|(one, next)| one == next).map(|(name, _)| name)
    }

    /// The tensors as they are shown: before the name of one that several files have, in whichever checkpoint, stands its file.
    fn shown(&self, several: &BTreeSet<&str>) -> BTreeMap<String, &[&'a Entry]> {
        let tensors = self.tensors.iter().map(|((name, path), parts)| match several.contains(name) {
            true => (format!("{path}{SEPARATOR}{name}"), parts.as_slice()),
            false => ((*name).to_owned(), parts.as_slice()),
        });
        tensors.collect()
    }

    fn of(manifest: &'a Manifest) -> Contents<'a> {
        let mut contents = Contents { tensors: BTreeMap::new(), files: BTreeMap::new() };
        for file in &manifest.files {
            let FileKind::Regular { pieces, sha256, skeleton, .. } = &file.kind else { continue };
            let mut empty = true;
            let parts = part_numbers(pieces.iter().map(|piece| piece.tensor.as_deref()));
            for (piece, part) in pieces.iter().zip(parts) {
                let Some(name) = piece.tensor.as_deref() else { continue };
                empty = false;
                let found = contents.tensors.entry((name, file.path.as_str())).or_default();
                if part == 0 {
                    // Of a tensor that a file has twice, the last counts.
                    found.clear();
                }
                found.push(&manifest.entries[piece.entry]);
            }
            if empty {
                let numbers = skeleton.iter().copied().chain(pieces.iter().map(|piece| piece.entry));
                let pieces = numbers.map(|entry| &manifest.entries[entry].digest).collect();
                contents.files.insert(&file.path, Plain { sha256: sha256.as_ref(), pieces });
            }
        }
        contents
    }
}

/// Type and shape of a tensor: its parts differ in the first dimension at most.
fn kind(parts: &[&Entry]) -> String {
    let Some(first) = parts.first() else { return String::new() };
    let mut shape = first.shape.clone();
    if let ([_, _, ..], Some(length)) = (parts, shape.first_mut()) {
        *length = parts.iter().filter_map(|part| part.shape.first()).sum();
    }
    format!("{} {shape:?}", first.dtype)
}
