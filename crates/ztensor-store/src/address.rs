//! Checkpoints as paths: `store//name`, `store//name/file`. [`install`] lets everything that opens model files open these, so that no command and no
//! function needs to know of stores.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::content::Checkpoint;
use crate::record::FileKind;
use crate::store::Store;
use ztensor::formats::may_have_boxes;
use ztensor::source::is_url;
use ztensor::{Error, Kind, OpenOptions, Reader, Result, Source};

/// Files that a message names.
const NAMED: usize = 8;

/// Lets every place of `ztensor` that takes a path take a checkpoint of a store as well.
pub fn install() {
    ztensor::source::install_checkpoints(find);
}

/// The files that `store//checkpoint` names; `None` where there is no store.
fn find(store: &str, checkpoint: &str) -> Result<Option<Vec<(String, Source)>>> {
    let opened = match is_url(Path::new(store)) {
        // A key in a bucket may have two slashes in it, and mean nothing by them.
        true => match Store::open(store) {
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Unsupported) => return Ok(None),
            opened => opened?,
        },
        false if !Path::new(store).join("store.json").is_file() => return Ok(None),
        false => Store::open(store)?,
    };
    let (found, inside) = opened.locate(checkpoint)?;
    let address = format!("{store}//{}", found.name());
    found.files_at(inside, Path::new(&address)).map(Some)
}

impl Store {
    /// The checkpoint that a path begins with, and the rest of the path, which is inside it.
    pub fn locate<'a>(&self, path: &'a str) -> Result<(Checkpoint, &'a str)> {
        let whole = match self.checkpoint(path) {
            Err(error) if error.kind() == Kind::NotFound => error,
            found => return Ok((found?, "")),
        };
        for (place, _) in path.rmatch_indices('/') {
            match self.checkpoint(&path[..place]) {
                Err(error) if error.kind() == Kind::NotFound => {}
                found => return Ok((found?, &path[place + 1..])),
            }
        }
        Err(whole)
    }
}

impl Checkpoint {
    /// Opens the checkpoint as one file: all its tensors, whichever file they are in, or those of one file or folder in it. Where two files have a tensor
    /// of one name, the file stands before it: `ema.pt::weight`.
    pub fn reader(&self, inside: &str, options: &OpenOptions) -> Result<Reader> {
        let files = self.files_at(inside, Path::new(self.name().as_str()))?;
        options.open_joined(files.into_iter().map(|(name, source)| (name, Arc::new(source))).collect())
    }

    /// The file or the files with tensors at a path inside the checkpoint, each by its path; messages show them below `address`.
    fn files_at(&self, inside: &str, address: &Path) -> Result<Vec<(String, Source)>> {
        let files = self.manifest().files.iter();
        let regular = files.filter(|file| matches!(file.kind, FileKind::Regular { .. }));
        let all: Vec<&str> = regular.map(|file| file.path.as_str()).collect();
        let below = |path: &&str| {
            let rest = path.strip_prefix(inside);
            inside.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut found: Vec<&str> = match all.iter().find(|path| **path == inside) {
            Some(file) => vec![*file],
            None => {
                // What describes tensors in boxes of other files has none of its own; of torch's files only that one says what is in them.
                let describes = |path: &&str| may_have_boxes(path) || path.ends_with(".distcp");
                let weights: HashSet<&str> = self.weights().collect();
                let wanted = all.iter().copied().filter(|path| weights.contains(path) || describes(path));
                wanted.filter(below).collect()
            }
        };
        // An archive has no tensors of its own, and opens as what is in it.
        if let (true, true, [only]) = (found.is_empty(), inside.is_empty(), all.as_slice()) {
            found.push(*only);
        }
        if found.is_empty() {
            let names: Vec<String> = all.iter().take(NAMED).map(|path| format!("\"{path}\"")).collect();
            let what = match inside {
                "" => format!("the checkpoint \"{}\" has no tensors", self.name()),
                inside => format!("the checkpoint \"{}\" has no file \"{inside}\"", self.name()),
            };
            return Err(Error::new(Kind::NotFound, what).with_hint(format!("It has {}.", names.join(", "))));
        }
        let source = |path: &str| {
            let shown: PathBuf = match self.manifest().single {
                true => address.to_path_buf(),
                false => address.join(path),
            };
            Ok((path.to_owned(), self.source_as(path, &shown)?))
        };
        found.into_iter().map(source).collect()
    }
}
