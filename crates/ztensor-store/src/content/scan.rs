//! What a checkpoint is made of: a file, or a folder with everything in it. Links that lead out of the folder, devices and names that are no text are
//! refused by name; nothing is left out in silence.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record::{File, FileKind};
use crate::record::{check_paths, check_target};
use ztensor::{Error, Io, OpenOptions, Reader, Result, Source};

/// A file to be added.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its path in the checkpoint.
    pub path: String,
    /// Where it is.
    pub place: PathBuf,
    /// What it is; of a regular file only mode and length are known yet.
    pub kind: FileKind,
    /// Its bytes, where it is no file of its own.
    pub given: Option<Arc<Source>>,
}

impl Found {
    /// Opens it as a model.
    pub fn open(&self) -> Result<Reader> {
        match &self.given {
            Some(source) => OpenOptions::default().open_shared(Arc::clone(source)),
            None => OpenOptions::default().open(&self.place),
        }
    }

    /// Its bytes.
    pub fn source(&self) -> Result<Arc<Source>> {
        match &self.given {
            Some(source) => Ok(Arc::clone(source)),
            None => Source::open(&self.place, Io::Auto).map(Arc::new),
        }
    }
}

/// A checkpoint to be added.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub single: bool,
    pub files: Vec<Found>,
}

impl Scan {
    /// Bytes of all files.
    pub fn length(&self) -> u64 {
        let length = |found: &Found| match found.kind {
            FileKind::Regular { length, .. } => length,
            _ => 0,
        };
        self.files.iter().map(length).sum()
    }
}

/// Looks at a file or a folder.
pub(crate) fn scan(path: &Path) -> Result<Scan> {
    let metadata = fs::metadata(path).map_err(|cause| Error::io("cannot add", path, cause))?;
    let mut files = Vec::new();
    let single = !metadata.is_dir();
    if single {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::argument("the file's name is no text").with_path(path))?;
        files.push(found(name.to_owned(), path.to_path_buf(), &metadata)?);
    } else {
        walk(path, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
    }
    let shown: Vec<File> =
        files.iter().map(|found| File { path: found.path.clone(), kind: found.kind.clone() }).collect();
    check_paths(&shown, single).map_err(|error| error.with_path(path))?;
    Ok(Scan { single, files })
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<Found>) -> Result<()> {
    let fail = |cause| Error::io("cannot list the folder", folder, cause);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let place = entry.path();
        let name = entry.file_name().into_string().map_err(|_| {
            Error::argument("the file's name is no text (UTF-8), which a store needs").with_path(&place)
        })?;
        let path = format!("{prefix}{name}");
        let metadata =
            fs::symlink_metadata(&place).map_err(|cause| Error::io("cannot add", &place, cause))?;
        if metadata.is_symlink() {
            let target =
                fs::read_link(&place).map_err(|cause| Error::io("cannot read the link", &place, cause))?;
            let target = target.to_str().ok_or_else(|| {
                Error::argument("the link's target is no text (UTF-8), which a store needs").with_path(&place)
            })?;
            check_target(&path, target).map_err(|error| {
                error
                    .with_path(&place)
                    .with_hint("Only links inside the folder can be stored; copy what it leads to.")
            })?;
            files.push(Found {
                path,
                kind: FileKind::Link { target: target.to_owned() },
                place,
                given: None,
            });
        } else if metadata.is_dir() {
            walk(&place, &format!("{path}/"), files)?;
            files.push(Found { path, kind: FileKind::Folder { mode: mode(&metadata) }, place, given: None });
        } else {
            files.push(found(path, place, &metadata)?);
        }
    }
    Ok(())
}

fn found(path: String, place: PathBuf, metadata: &fs::Metadata) -> Result<Found> {
    if !metadata.is_file() {
        return Err(Error::argument(
            "this is neither a file nor a folder nor a link; a store does not take it",
        )
        .with_path(&place));
    }
    let kind = FileKind::Regular {
        mode: mode(metadata),
        length: metadata.len(),
        sha256: None,
        skeleton: None,
        pieces: Vec::new(),
    };
    Ok(Found { path, place, kind, given: None })
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o777
}

#[cfg(not(unix))]
fn mode(metadata: &fs::Metadata) -> u32 {
    if metadata.permissions().readonly() { 0o444 } else { 0o644 }
}
