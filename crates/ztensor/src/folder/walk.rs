//! The files of a folder, and of the folders in it, in the order of their names.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// Folders inside one another that are looked into.
const DEEPEST: usize = 16;
/// Files and folders that are looked at.
const MOST: usize = 100_000;

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The files of the folder itself.
    Flat,
    /// Those of the folders in it as well.
    Deep,
}

/// The regular files of a folder by ascending path. Hidden files and folders (`.git`, `.cache`) are left out; links to files are followed,
/// links to folders are not.
pub(crate) fn files(folder: &Path, depth: Depth) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut seen = 0;
    visit(folder, if depth == Depth::Deep { DEEPEST } else { 0 }, &mut seen, &mut found)?;
    Ok(found)
}

fn visit(folder: &Path, below: usize, seen: &mut usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |cause| Error::io("cannot list the folder", folder, cause);
    let mut entries = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        *seen += 1;
        if *seen > MOST {
            return Err(Error::new(Kind::Limit, format!("there are more than {MOST} files in this folder"))
                .with_path(folder)
                .with_hint("Name the files themselves."));
        }
        if !entry.file_name().to_string_lossy().starts_with('.') {
            entries.push((entry.path(), entry.file_type().map_err(failed)?));
        }
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (path, kind) in entries {
        if kind.is_dir() {
            if let Some(below) = below.checked_sub(1) {
                visit(&path, below, seen, found)?;
            }
        } else if kind.is_file() || (kind.is_symlink() && path.is_file()) {
            found.push(path);
        }
    }
    Ok(())
}
