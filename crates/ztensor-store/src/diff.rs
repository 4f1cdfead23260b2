//! What changed between two checkpoints, by digests alone: nothing is decoded.

use std::collections::BTreeMap;

use crate::record::{Entry, FileKind, Manifest};
use crate::store::Store;
use ztensor::Result;

/// What changed from one checkpoint to another. Tensors are compared across files and formats, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Tensors that only the second has.
    pub added: Vec<String>,
    /// Tensors that only the first has.
    pub removed: Vec<String>,
    /// Tensors of another type or shape, with both.
    pub retyped: Vec<(String, String, String)>,
    /// Tensors with other values.
    pub changed: Vec<String>,
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
        let (first, second) = (self.checkpoint(first)?, self.checkpoint(second)?);
        let (first, second) = (Contents::of(first.manifest()), Contents::of(second.manifest()));
        let mut difference = Difference::default();
        for (name, entry) in &first.tensors {
            match second.tensors.get(name) {
                None => difference.removed.push(name.to_string()),
                Some(other) if other.digest == entry.digest => difference.identical += 1,
                Some(other) if other.length != entry.length || kind(other) != kind(entry) => {
                    difference.retyped.push((name.to_string(), kind(entry), kind(other)));
                }
                Some(_) => difference.changed.push(name.to_string()),
            }
        }
        let new = second.tensors.keys().filter(|name| !first.tensors.contains_key(*name));
        difference.added.extend(new.map(ToString::to_string));
        let mut files: Vec<&str> = first.files.keys().chain(second.files.keys()).copied().collect();
        files.sort_unstable();
        files.dedup();
        let other = files.into_iter().filter(|path| first.files.get(path) != second.files.get(path));
        difference.files.extend(other.map(str::to_owned));
        Ok(difference)
    }
}

/// Tensors by name, and the digests of files without any by path.
struct Contents<'a> {
    tensors: BTreeMap<&'a str, &'a Entry>,
    files: BTreeMap<&'a str, &'a [u8; 32]>,
}

impl Contents<'_> {
    fn of(manifest: &Manifest) -> Contents<'_> {
        let mut contents = Contents { tensors: BTreeMap::new(), files: BTreeMap::new() };
        for file in &manifest.files {
            let FileKind::Regular { pieces, sha256, .. } = &file.kind else { continue };
            let named = pieces.iter().filter_map(|piece| Some((piece.tensor.as_deref()?, piece.entry)));
            let before = contents.tensors.len();
            contents.tensors.extend(named.clone().map(|(name, entry)| (name, &manifest.entries[entry])));
            if named.count() == 0 && before == contents.tensors.len() {
                contents.files.insert(&file.path, sha256);
            }
        }
        contents
    }
}

fn kind(entry: &Entry) -> String {
    format!("{} {:?}", entry.dtype, entry.shape)
}
