//! Where the base of a delta comes from: any file that holds the bytes which the delta names by length and digest, whatever it is called.
//! Archives and deltas say what they restore, so only plain files of the right length are hashed. The base of a base that is a
//! delta is found in the same way, for a bounded number of links.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::known::digest_of;
use super::wrong_base;
use super::{Base, described};
use crate::archive::{BaseDescription, Description, FileIdentity, NamedFile, OpenOptions, Original};
use crate::error::{Error, Hints, Kind, Result};
use crate::folder::{Depth, files, folder_of, is_plain};
use crate::formats::zt;
use crate::limits::Meter;
use crate::reader::Reader;
use crate::source::{Source, is_url, join};

/// Deltas of deltas that are followed.
const LONGEST_CHAIN: usize = 32;
/// Bases that are opened for one file: those of several bases could otherwise double with every link.
const MOST_OPENED: usize = 256;

/// A place where the base of a delta may be.
#[derive(Clone)]
pub enum Candidate {
    /// A file that is open: the base itself.
    Opened(Arc<Reader>),
    /// A file, or a folder whose files, and those of the folders in it, are looked at.
    Path(PathBuf),
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Candidate::Opened(_) => f.write_str("Opened"),
            Candidate::Path(path) => f.debug_tuple("Path").field(path).finish(),
        }
    }
}

impl From<Arc<Reader>> for Candidate {
    fn from(reader: Arc<Reader>) -> Self {
        Candidate::Opened(reader)
    }
}

impl From<PathBuf> for Candidate {
    fn from(path: PathBuf) -> Self {
        Candidate::Path(path)
    }
}

impl From<&Path> for Candidate {
    fn from(path: &Path) -> Self {
        Candidate::Path(path.to_path_buf())
    }
}

/// A file and what it holds, as far as that is known without reading it.
struct Holder {
    path: PathBuf,
    holds: Holds,
    /// The opened file, where opening it again would cost a request.
    kept: Option<Arc<Source>>,
}

enum Holds {
    /// Its own bytes, so many.
    Plain(u64),
    /// The originals that an archive or a delta restores.
    Originals(Vec<FileIdentity>),
}

impl Holder {
    /// `None` for a file that cannot be a base, because it cannot be read.
    fn of(options: &OpenOptions, path: &Path) -> Option<Holder> {
        Holder::over(options, path, Source::open_regular(path, options.io).ok()?)
    }

    fn over(options: &OpenOptions, path: &Path, source: Source) -> Option<Holder> {
        let (length, path) = (source.len(), path.to_path_buf());
        if !zt::is_zt(&source.head(8).ok()?) {
            let kept = (source.is_remote() || is_url(&path)).then(|| Arc::new(source));
            return Some(Holder { path, holds: Holds::Plain(length), kept });
        }
        let holds = match options.describe(source).ok()? {
            Some(description) => Holds::Originals(originals(&description)),
            None => Holds::Plain(length),
        };
        Some(Holder { path, holds, kept: None })
    }

    fn may_hold(&self, identity: &FileIdentity) -> bool {
        match &self.holds {
            Holds::Plain(length) => *length == identity.length,
            Holds::Originals(originals) => originals.contains(identity),
        }
    }
}

/// Everything that an archive restores: its file, or each of its files.
fn originals(description: &Description) -> Vec<FileIdentity> {
    match description.files.is_empty() {
        true => vec![description.original],
        false => description.files.iter().map(|file| file.identity).collect(),
    }
}

/// A search for the bases of one delta and of the deltas below it.
pub(crate) struct Search<'a> {
    options: &'a OpenOptions,
    /// Counts what is decoded while files are indexed.
    meter: Arc<Meter>,
    given: Option<Rc<Vec<Holder>>>,
    folders: HashMap<PathBuf, Rc<Vec<Holder>>>,
    /// How many deltas are on the way.
    links: usize,
    /// How many bases were opened.
    opened: usize,
    /// Whether the delta whose bases are looked for has several: then a file's length does not tell which of them it is.
    several: bool,
    /// Those of them that were found as somebody's base: none of them is its own.
    opening: Vec<PathBuf>,
    /// What is nowhere to be found.
    lost: HashSet<FileIdentity>,
    /// Whether one of the given places was of use.
    used_given: bool,
}

/// A file that was found, and whether its digest is known to be right.
struct Found {
    source: Arc<Source>,
    is_checked: bool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(options: &'a OpenOptions, meter: &Arc<Meter>) -> Search<'a> {
        Search {
            options,
            meter: Arc::clone(meter),
            given: None,
            folders: HashMap::new(),
            links: 0,
            opened: 0,
            several: false,
            opening: Vec::new(),
            lost: HashSet::new(),
            used_given: false,
        }
    }

    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Finds and opens the bases of a delta that lies in `folder`, if it lies in one.
    pub(crate) fn bases_of(&mut self, delta: &Description, folder: Option<&Path>) -> Result<Vec<Base>> {
        let Some(base) = delta.bases.first() else { return Ok(Vec::new()) };
        let outermost = self.links == 0;
        if self.links >= LONGEST_CHAIN {
            return Err(Error::new(
                Kind::Limit,
                format!("the delta has more than {LONGEST_CHAIN} deltas below it"),
            )
            .with_hints(Hints::new(
                "Restore one in the middle, or drop links with delta::rebase.",
                "Restore one in the middle with z4ai.model_delta.decompress_file.",
                "Restore one in the middle, or drop links: `ztensor delta rebase`.",
            )));
        }
        self.links += 1;
        let several = std::mem::replace(&mut self.several, delta.bases.len() > 1);
        let opened: Result<Vec<Base>> = delta.bases.iter().map(|base| self.open_base(base, folder)).collect();
        self.several = several;
        self.links -= 1;
        if outermost && !self.options.bases.is_empty() && !self.used_given {
            return Err(self.useless(opened.err().unwrap_or_else(|| {
                wrong_base(format!("the delta was made against {}", described(&base.name, base.identity)))
            })));
        }
        opened
    }

    /// Opens a base with a meter of its own: what is decoded for its index does not count for the delta's.
    fn open_base(&mut self, base: &BaseDescription, folder: Option<&Path>) -> Result<Base> {
        self.opened += 1;
        if self.opened > MOST_OPENED {
            return Err(Error::new(Kind::Limit, format!("the delta needs more than {MOST_OPENED} bases")));
        }
        let meter = Arc::new(Meter::new(&self.options.limits));
        let outer = std::mem::replace(&mut self.meter, meter);
        let opened = self.open_metered(base, folder);
        std::mem::replace(&mut self.meter, outer).stop();
        opened.inspect(|base| base.reader().sources().iter().for_each(|file| file.forget_windows()))
    }

    fn open_metered(&mut self, base: &BaseDescription, folder: Option<&Path>) -> Result<Base> {
        if let Some(found) = self.opened(base)? {
            return Ok(found);
        }
        let needed = base.needed();
        let mut sources = Vec::with_capacity(needed.len());
        let mut is_checked = true;
        for file in needed {
            let found = self.find(&file, folder, base)?;
            is_checked &= found.is_checked;
            sources.push((file.name, found.source));
        }
        let reader = self.options.read_files(sources, self)?;
        Base::new(Arc::new(reader), base, is_checked)
    }

    /// The base of the base of a delta, where that is a delta itself: what is left when the link between them is dropped.
    pub(crate) fn grandparent(&mut self, delta: &Description, folder: Option<&Path>) -> Result<Option<Base>> {
        let [base] = &delta.bases[..] else { return Ok(None) };
        let (parts, Some(first)) = (base.files.as_slice(), base.needed().into_iter().next()) else {
            return Ok(None);
        };
        let mut holders = vec![self.given(parts)?];
        if let Some(folder) = folder {
            holders.push(self.beside(folder)?);
        }
        self.links += 1;
        let mut found = Ok(None);
        for holder in holders.iter().flat_map(|holders| holders.iter()) {
            if matches!(holder.holds, Holds::Originals(_)) && holder.may_hold(&first.identity) {
                found = self.options.unpack_link(&holder.path, self).map(|mut unpacked| {
                    match unpacked.bases.len() {
                        1 => unpacked.bases.pop(),
                        _ => None,
                    }
                });
                if matches!(found, Ok(Some(_))) {
                    break;
                }
            }
        }
        self.links -= 1;
        found
    }

    /// The base among the opened files that were given.
    fn opened(&mut self, base: &BaseDescription) -> Result<Option<Base>> {
        let only = self.options.bases.len() == 1 && !self.several;
        for candidate in &self.options.bases {
            let Candidate::Opened(reader) = candidate else { continue };
            let original = Original::of_base(reader)?;
            if original.length() != base.identity.length {
                continue;
            }
            // A single file of the right length is checked where it is used.
            let (is_right, is_checked) = match reader.archived() {
                Some(archive) if archive.files.is_empty() => {
                    (archive.sha256 == base.identity.digest(), false)
                }
                _ if only => (true, false),
                _ => (original.identify()?.0 == base.identity, true),
            };
            if is_right {
                self.used_given = true;
                return Base::new(Arc::clone(reader), base, is_checked).map(Some);
            }
        }
        Ok(None)
    }

    /// One file of a base.
    fn find(&mut self, wanted: &NamedFile, folder: Option<&Path>, base: &BaseDescription) -> Result<Found> {
        let missing = || Base::missing(base, wanted);
        if self.lost.contains(&wanted.identity) {
            return Err(missing());
        }
        let mut problem = None;
        let given = self.given(&base.files)?;
        let only = self.options.bases.len() == 1 && base.files.is_empty();
        let fitting: Vec<&Holder> = given.iter().filter(|file| file.may_hold(&wanted.identity)).collect();
        for holder in &fitting {
            // What is far away is not hashed before it is used; its tensors are checked where they are.
            let unchecked = (only || is_url(&holder.path)) && fitting.len() == 1 && !self.several;
            match self.take(holder, wanted, unchecked) {
                Ok(Some(found)) => {
                    self.used_given = true;
                    return Ok(found);
                }
                Ok(None) => {}
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        if let Some(folder) = folder {
            // The one with the base's name first: the others need not even be looked at.
            let named = Some(join(folder, &wanted.name)).filter(|_| is_plain(&wanted.name));
            let named = named.filter(|path| is_url(path) || path.is_file());
            let named = named.and_then(|path| Holder::of(self.options, &path));
            let beside = match &named {
                Some(holder) if holder.may_hold(&wanted.identity) => {
                    self.take(holder, wanted, is_url(&holder.path) && !self.several)
                }
                _ => Ok(None),
            };
            match beside {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) => problem = problem.or(Some(error)),
            }
            let holders = self.beside(folder)?;
            let others =
                holders.iter().filter(|file| named.as_ref().is_none_or(|named| named.path != file.path));
            for holder in others.filter(|file| file.may_hold(&wanted.identity)) {
                match self.take(holder, wanted, false) {
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) => {}
                    Err(error) => problem = problem.or(Some(error)),
                }
            }
            if let (Some(holder), None) = (named, &problem) {
                let other = format!("\"{}\" has the base's name, but is another file", holder.path.display());
                problem = Some(missing().with_context(&other));
            }
        }
        self.lost.insert(wanted.identity);
        Err(problem.unwrap_or_else(missing))
    }

    /// The wanted bytes out of a file that may hold them; `None` if it does not.
    fn take(&mut self, holder: &Holder, wanted: &NamedFile, unchecked: bool) -> Result<Option<Found>> {
        match &holder.holds {
            Holds::Plain(_) => {
                let source = match &holder.kept {
                    Some(source) => Arc::clone(source),
                    None => Arc::new(Source::open_regular(&holder.path, self.options.io)?),
                };
                if !unchecked && digest_of(&source)? != wanted.identity {
                    return Ok(None);
                }
                Ok(Some(Found { source, is_checked: !unchecked }))
            }
            Holds::Originals(_) => {
                if self.opening.contains(&holder.path) {
                    return Ok(None);
                }
                self.opening.push(holder.path.clone());
                let unpacked = self.options.unpack_link(&holder.path, self);
                self.opening.pop();
                let unpacked = unpacked?;
                let held = originals(&unpacked.description);
                let place = held.iter().position(|held| *held == wanted.identity);
                let source = place.and_then(|place| unpacked.files.into_iter().nth(place));
                // What the archive says of its original is checked where it is used.
                Ok(source.map(|(_, source)| Found { source, is_checked: false }))
            }
        }
    }

    /// The files that were given. Of a model in several files, `parts`, one stands for those beside it.
    fn given(&mut self, parts: &[NamedFile]) -> Result<Rc<Vec<Holder>>> {
        if let Some(given) = &self.given {
            return Ok(Rc::clone(given));
        }
        let mut paths = Vec::new();
        let mut holders = Vec::new();
        for candidate in &self.options.bases {
            let Candidate::Path(path) = candidate else { continue };
            if is_url(path) {
                let source = Source::open_regular(path, self.options.io)?;
                holders.extend(Holder::over(self.options, path, source));
                // A server does not list what lies beside a file; the delta knows the names.
                let names = parts.iter().map(|part| &part.name).filter(|name| is_plain(name));
                paths.extend(names.map(|name| join(&folder_of(path), name)).filter(|other| other != path));
                continue;
            }
            let metadata =
                std::fs::metadata(path).map_err(|cause| Error::io("cannot find the base", path, cause))?;
            if metadata.is_dir() {
                paths.extend(files(path, Depth::Deep)?);
                continue;
            }
            paths.push(path.clone());
            if !parts.is_empty() {
                paths.extend(files(&folder_of(path), Depth::Flat)?);
            }
        }
        holders.extend(paths.iter().filter_map(|path| Holder::of(self.options, path)));
        let given = Rc::new(holders);
        self.given = Some(Rc::clone(&given));
        Ok(given)
    }

    /// The files of a folder.
    fn beside(&mut self, folder: &Path) -> Result<Rc<Vec<Holder>>> {
        if let Some(known) = self.folders.get(folder) {
            return Ok(Rc::clone(known));
        }
        let paths = if is_url(folder) { Vec::new() } else { files(folder, Depth::Flat)? };
        let holders = paths.iter().filter_map(|path| Holder::of(self.options, path));
        let holders: Rc<Vec<Holder>> = Rc::new(holders.collect());
        self.folders.insert(folder.to_path_buf(), Rc::clone(&holders));
        Ok(holders)
    }

    /// The error for places that were given and have nothing to do with the delta, which is why `cause` came about.
    fn useless(&self, cause: Error) -> Error {
        let mut path = None;
        let mut reasons = Vec::new();
        for candidate in &self.options.bases {
            match candidate {
                Candidate::Path(place) => {
                    path = path.or(Some(place));
                    reasons.push(match std::fs::metadata(place) {
                        _ if is_url(place) => format!("\"{}\" is not it", place.display()),
                        Ok(about) if about.is_dir() => format!("nothing in \"{}\" is it", place.display()),
                        Ok(about) => format!("\"{}\" of {} bytes is not it", place.display(), about.len()),
                        Err(error) => format!("\"{}\": {error}", place.display()),
                    });
                }
                Candidate::Opened(reader) => {
                    let length: u64 = reader.sources().iter().map(|file| file.len()).sum();
                    reasons.push(format!("the given file of {length} bytes is not it"));
                }
            }
        }
        if !matches!(cause.kind(), Kind::WrongBase) {
            return cause;
        }
        cause.with_context(&format!("wrong base: {}", reasons.join(", ")))
    }
}
