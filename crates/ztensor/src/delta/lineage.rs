//! Which file of a folder is the base of which: the tree that deltas make.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

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
    /// Whether it lies elsewhere and is here because a model of the folder needs it.
    pub elsewhere: bool,
}

/// The models of a folder and of the folders in it, with their bases, which may also be files or lie in folders elsewhere. Only plain files
/// that could be somebody's base are read.
pub fn lineage(folder: &Path, elsewhere: &[PathBuf]) -> Result<Vec<Link>> {
    let options = OpenOptions::default();
    let mut links = Vec::new();
    let mut held: Vec<Vec<FileIdentity>> = Vec::new();
    let mut needed: Vec<Option<Vec<FileIdentity>>> = Vec::new();
    for (model, elsewhere) in with_others(models(folder)?, elsewhere)? {
        let mut stored = 0;
        for file in model.files() {
            stored += Source::open_regular(file, Io::Auto)?.len();
        }
        let source = Source::open_regular(model.path(), Io::Auto)?;
        let is_zt = zt::is_zt(&source.head(8)?);
        // A file that cannot be indexed has no place in the tree, but is there.
        let described = if is_zt { options.describe(source).ok().flatten() } else { None };
        let mut link = Link { model, stored, archive: None, base: None, elsewhere };
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
                held.push(digest_of(&source)?);
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
    Ok(without_unneeded(links))
}

/// The models of a folder, and those of other files and folders that are not among them.
fn with_others(here: Vec<Model>, elsewhere: &[PathBuf]) -> Result<Vec<(Model, bool)>> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let mut add = |model: Model, elsewhere: bool| {
        if model.path().canonicalize().is_ok_and(|path| seen.insert(path)) {
            all.push((model, elsewhere));
        }
    };
    here.into_iter().for_each(|model| add(model, false));
    for path in elsewhere {
        match path.is_dir() {
            true => models(path)?.into_iter().for_each(|model| add(model, true)),
            false => {
                Source::open_regular(path, Io::Auto)?;
                add(Model::file(path), true);
            }
        }
    }
    Ok(all)
}

/// Leaves out what lies elsewhere and is nobody's base.
fn without_unneeded(links: Vec<Link>) -> Vec<Link> {
    let mut kept: Vec<bool> = links.iter().map(|link| !link.elsewhere).collect();
    for link in links.iter().filter(|link| !link.elsewhere) {
        let mut next = link.base;
        while let Some(base) = next.filter(|base| !std::mem::replace(&mut kept[*base], true)) {
            next = links[base].base;
        }
    }
    let places: Vec<Option<usize>> = kept
        .iter()
        .scan(0, |place, kept| {
            *place += usize::from(*kept);
            Some(kept.then(|| *place - 1))
        })
        .collect();
    let renumbered = |link: Link| Link { base: link.base.and_then(|base| places[base]), ..link };
    links.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(link, _)| renumbered(link)).collect()
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
