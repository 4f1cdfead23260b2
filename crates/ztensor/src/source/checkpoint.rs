//! Checkpoints of stores as paths: `store//name` and `store//name/file`, where the store is a directory or a URL. What a store is lives in another
//! crate (`ztensor-store`), behind a function that turns such a path into the files with tensors that it names.

use std::path::Path;
use std::sync::OnceLock;

use super::Source;
use crate::error::{Error, Result};

/// A function that finds the files of a checkpoint: the one that the path names, or all that have tensors, each with its path in the checkpoint. `None`
/// where there is no store.
pub type Finder = fn(store: &str, checkpoint: &str) -> Result<Option<Vec<(String, Source)>>>;

static FINDER: OnceLock<Finder> = OnceLock::new();

/// Files that a message names.
const NAMED: usize = 8;

/// Lets every place that takes a path take checkpoints of stores as well. The first finder stays.
pub fn install_checkpoints(finder: Finder) {
    // A second call comes from a second user of the same crate, with the same function.
    let _ = FINDER.set(finder);
}

/// The files of the checkpoint that a path names; `None` for other paths.
pub fn checkpoint(path: &Path) -> Option<Result<Vec<(String, Source)>>> {
    let text = path.to_str()?;
    let start = text.find("://").map_or(0, |scheme| scheme + "://".len());
    let finder = FINDER.get()?;
    for (place, _) in text.match_indices("//").filter(|(place, _)| *place > start) {
        let (store, name) = (&text[..place], text[place..].trim_matches('/'));
        if name.is_empty() {
            continue;
        }
        match finder(store, name) {
            Ok(None) => {}
            Ok(Some(files)) => return Some(Ok(files)),
            Err(error) => return Some(Err(error.with_path(path))),
        }
    }
    None
}

/// The one file that a path to a checkpoint stands for; `None` for other paths.
pub(super) fn open(path: &Path) -> Option<Result<Source>> {
    let only = |files: Vec<(String, Source)>| {
        let names: Vec<String> = files.iter().take(NAMED).map(|(name, _)| format!("\"{name}\"")).collect();
        let mut files = files.into_iter();
        match (files.next(), files.next()) {
            (Some((_, source)), None) => Ok(source),
            _ => Err(Error::argument(format!("this checkpoint has several files: {}", names.join(", ")))
                .with_path(path)
                .with_hint("Name one of them behind the checkpoint: store//name/file.")),
        }
    };
    Some(checkpoint(path)?.and_then(only))
}
