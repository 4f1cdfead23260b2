//! Paths of files in a checkpoint: none leads out of the folder that it is restored to, on any system.

use std::collections::BTreeMap;

use super::manifest::{File, FileKind};
use ztensor::{Error, Result};

/// Checks the paths of all files: each by itself, and that none is a file or a link and a folder at once.
pub(crate) fn check_paths(files: &[File], single: bool) -> Result<()> {
    let mut kinds: BTreeMap<&str, &FileKind> = BTreeMap::new();
    for file in files {
        check_path(&file.path)?;
        if let FileKind::Link { target } = &file.kind {
            check_target(&file.path, target)?;
        }
        if kinds.insert(&file.path, &file.kind).is_some() {
            return Err(refuse(&file.path, "it occurs twice"));
        }
    }
    for file in files {
        let mut above = file.path.as_str();
        while let Some((folder, _)) = above.rsplit_once('/') {
            if kinds.get(folder).is_some_and(|kind| !matches!(kind, FileKind::Folder { .. })) {
                return Err(refuse(&file.path, "it lies below a file or a link"));
            }
            above = folder;
        }
    }
    let plain = |file: &File| matches!(file.kind, FileKind::Regular { .. }) && !file.path.contains('/');
    match (single, files) {
        (false, _) => Ok(()),
        (true, [file]) if plain(file) => Ok(()),
        (true, _) => Err(Error::malformed("a checkpoint of one file has another number of files")),
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.len() > 4096 {
        return Err(refuse(path, "it is too long"));
    }
    path.split('/').try_for_each(|segment| check_segment(path, segment))
}

fn check_segment(path: &str, segment: &str) -> Result<()> {
    let odd = |c: char| c.is_control() || matches!(c, '\\' | ':');
    match segment {
        "" | "." | ".." => Err(refuse(path, "a segment is empty or made of dots")),
        _ if segment.chars().any(odd) => {
            Err(refuse(path, "it has a control character, a backslash or a colon"))
        }
        _ if segment.len() > 255 => Err(refuse(path, "a segment is too long")),
        _ => Ok(()),
    }
}

/// Checks that a link leads, taken literally, to a place inside the folder.
pub(crate) fn check_target(path: &str, target: &str) -> Result<()> {
    let mut depth = path.split('/').count() as i64 - 1;
    let out = || {
        Error::malformed(format!(
            "the symbolic link \"{}\" leads out of its folder, to \"{}\"",
            path.escape_debug(),
            target.escape_debug()
        ))
    };
    if target.is_empty() || target.starts_with('/') || target.len() > 4096 {
        return Err(out());
    }
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => depth -= 1,
            _ => {
                check_segment(target, segment)?;
                depth += 1;
            }
        }
        if depth < 0 {
            return Err(out());
        }
    }
    Ok(())
}

fn refuse(path: &str, why: &str) -> Error {
    let shown: String = path.chars().take(200).collect();
    Error::malformed(format!("the path \"{}\" is not one that is restored: {why}", shown.escape_debug()))
}
