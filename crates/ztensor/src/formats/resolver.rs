//! Where the files beside a file are (shards, external data): a resolver is a function from a name to a source. A folder, a bucket and an archive
//! each have their own, and parsers do not know which one they ask.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::source::{Io, Source, is_url, join};

/// What a file beside the file is wanted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A file of the same folder. It may be a link to anywhere, as in caches of models.
    Sibling,
    /// A shard of the same model, in the same folder.
    Shard,
    /// A file at a relative path, which links may not lead out of the folder.
    Beneath,
}

/// Finds a file beside the file. Names are plain, or relative paths of plain parts: [`Input`](super::Input) has checked them.
pub(crate) type Resolver = Box<dyn Fn(&str, Wanted) -> Result<Arc<Source>> + Send + Sync>;

/// The files in the folder, or the bucket, of a file. One in memory has none.
pub(crate) fn in_folder(file: Option<&Path>, io: Io) -> Resolver {
    let folder = file.map(|path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    });
    Box::new(move |name, wanted| {
        let folder = folder.as_deref().ok_or_else(|| {
            Error::new(Kind::Unsupported, format!("the data refers to another file, \"{name}\""))
                .with_hint("Open it by path, not from memory.")
        })?;
        let path = join(folder, name);
        // There are no links to lead out of a bucket.
        if wanted == Wanted::Beneath && !is_url(folder) {
            let real = |path: &Path| {
                path.canonicalize().map_err(|cause| Error::io("cannot find the external data", path, cause))
            };
            if !real(&path)?.starts_with(real(folder)?) {
                let message = format!("\"{name}\" leads out of the folder of this file");
                return Err(Error::malformed(message).with_path(&path));
            }
        }
        Source::open_regular(&path, io).map(Arc::new)
    })
}

/// Some opened files, by name; nothing is looked for anywhere else.
pub(crate) fn among(files: impl IntoIterator<Item = (String, Arc<Source>)>) -> Resolver {
    let files: HashMap<String, Arc<Source>> = files.into_iter().collect();
    Box::new(move |name, _| {
        let found = files.get(name).cloned();
        found.ok_or_else(|| Error::new(Kind::NotFound, format!("the archive has no file \"{name}\"")))
    })
}
