//! Which file of a folder is the base of which: the tree that deltas make.

use std::collections::HashSet;
use std::path::Path;

use crate::archive::{ArchiveInfo, FileIdentity, digest_of};
use crate::error::Result;
use crate::folder::{Model, models};
use crate::formats::zt;
use crate::open::OpenOptions;
use crate::source::{Io, Source};

/// A model in a folder, and what it needs.
#[derive(Clone, Debug)]
pub struct Link {
    /// The model.
    pub model: Model,
    /// Bytes of its files.
    pub stored: u64,
    /// What an archive or a delta says of itself; `None` for a plain file.
    pub archive: Option<ArchiveInfo>,
    /// The number of the model that holds its base, the first of several, in the same list; `None` where it needs none or has none.
    pub base: Option<usize>,
}

/// The models of a folder and of the folders in it, with their bases. Only plain files that could be somebody's base are read.
pub fn lineage(folder: &Path) -> Result<Vec<Link>> {
    let options = OpenOptions::default();
    let mut links = Vec::new();
    let mut held: Vec<Vec<FileIdentity>> = Vec::new();
    let mut needed: Vec<Option<Vec<FileIdentity>>> = Vec::new();
    for model in models(folder)? {
        let mut stored = 0;
        for file in model.files() {
            stored += Source::open_regular(file, Io::Auto)?.len();
        }
        let source = Source::open_regular(model.path(), Io::Auto)?;
        let is_zt = zt::is_zt(&source.head(8)?);
        // A file that cannot be indexed has no place in the tree, but is there.
        let described = if is_zt { options.describe(source).ok().flatten() } else { None };
        let mut link = Link { model, stored, archive: None, base: None };
        match described {
            Some(description) => {
                link.archive = options.describe_archive(link.model.path()).ok();
                let files = description.files.iter().map(|file| file.identity);
                held.push(match description.files.is_empty() {
                    true => vec![description.original],
                    false => files.collect(),
                });
                // A delta of several is drawn below the first.
                let base = description.bases.first();
                needed.push(base.map(|base| base.needed().iter().map(|file| file.identity).collect()));
            }
            None => {
                held.push(Vec::new());
                needed.push(None);
            }
        }
        links.push(link);
    }
    let lengths: HashSet<u64> = needed.iter().flatten().flatten().map(|identity| identity.length).collect();
    for (link, held) in links.iter().zip(&mut held).filter(|(link, _)| link.archive.is_none()) {
        for file in link.model.files() {
            let source = Source::open_regular(file, Io::Auto)?;
            if lengths.contains(&source.len()) {
                held.push(digest_of(file, &source)?);
            }
        }
    }
    for (number, needed) in needed.iter().enumerate() {
        let Some(needed) = needed else { continue };
        let holds = |other: &usize| *other != number && needed.iter().all(|one| held[*other].contains(one));
        let base = (0..held.len()).find(holds);
        if let Some(link) = links.get_mut(number) {
            link.base = base;
        }
    }
    break_cycles(&mut links);
    Ok(links)
}

/// Files that claim to be each other's bases have none.
fn break_cycles(links: &mut [Link]) {
    for number in 0..links.len() {
        let mut seen = HashSet::from([number]);
        let mut next = links[number].base;
        while let Some(base) = next {
            if !seen.insert(base) {
                links[number].base = None;
                break;
            }
            next = links[base].base;
        }
    }
}
