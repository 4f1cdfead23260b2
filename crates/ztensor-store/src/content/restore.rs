//! Restoring: every file byte for byte, each under its name only after its digest was found right.

use std::fs;
use std::path::{Path, PathBuf};

use super::chain::resize;
use super::checkpoint::Checkpoint;
use super::intact::Intact;
use crate::record::{File, FileKind};
use ztensor::{Error, Kind, Output, Result, Source};

/// What was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetStats {
    /// The file or folder.
    pub path: PathBuf,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Writes a checkpoint to a folder, which has to be new or empty, or a checkpoint of one file to a file.
pub(crate) fn restore(
    checkpoint: &Checkpoint,
    output: &Path,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<GetStats> {
    let manifest = checkpoint.manifest();
    if let (true, [file]) = (manifest.single, manifest.files.as_slice()) {
        let path = if output.is_dir() { output.join(&file.path) } else { output.to_path_buf() };
        if path.exists() {
            return Err(taken(&path));
        }
        let bytes = restore_file(checkpoint, file, &path, progress)?;
        return Ok(GetStats { path, files: 1, bytes });
    }
    match fs::read_dir(output).map(Iterator::count) {
        Ok(0) => {}
        Ok(_) => return Err(taken(output)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => make_folder(output)?,
        Err(cause) => return Err(Error::io("cannot restore into", output, cause)),
    }
    let mut stats = GetStats { path: output.to_path_buf(), ..GetStats::default() };
    // Links come last: nothing is ever written through one.
    for file in &manifest.files {
        let path = output.join(&file.path);
        match &file.kind {
            FileKind::Folder { .. } => make_folder(&path)?,
            FileKind::Regular { .. } => {
                if let Some(folder) = path.parent() {
                    make_folder(folder)?;
                }
                stats.bytes += restore_file(checkpoint, file, &path, progress)?;
                stats.files += 1;
            }
            FileKind::Link { .. } => {}
        }
    }
    for file in &manifest.files {
        if let FileKind::Link { target } = &file.kind {
            let path = output.join(&file.path);
            if let Some(folder) = path.parent() {
                make_folder(folder)?;
            }
            link(target, &path)?;
        }
    }
    // The deepest first: a folder that may not be written to is complete by then.
    for file in manifest.files.iter().rev() {
        if let FileKind::Folder { mode } = file.kind {
            set_mode(&output.join(&file.path), mode)?;
        }
    }
    Ok(stats)
}

fn restore_file(
    checkpoint: &Checkpoint,
    file: &File,
    path: &Path,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<u64> {
    let FileKind::Regular { mode, .. } = &file.kind else { return Ok(0) };
    let source = checkpoint.stream(&file.path)?;
    let mut output = Output::create(path)?;
    let mut intact = Intact::new(checkpoint.manifest(), file);
    copy(&source, &mut intact, &mut |bytes| output.write(bytes), progress)?;
    if !intact.finish() {
        return Err(damaged(&file.path).with_path(path).with_hint("Nothing was written under this name."));
    }
    output.publish(false)?;
    set_mode(path, *mode)?;
    Ok(source.len())
}

/// Compares a file's bytes with its digests, without writing them anywhere.
pub(crate) fn check(
    checkpoint: &Checkpoint,
    file: &File,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let FileKind::Regular { .. } = &file.kind else { return Ok(()) };
    let source = checkpoint.stream(&file.path)?;
    let mut intact = Intact::new(checkpoint.manifest(), file);
    copy(&source, &mut intact, &mut |_| Ok(()), progress)?;
    match intact.finish() {
        true => Ok(()),
        false => Err(damaged(&file.path)),
    }
}

/// Hands out a source window by window, decoding the next while one is hashed and written. The memory of two windows is used for all of them: fresh
/// memory costs as much as decoding into it.
fn copy(
    source: &Source,
    intact: &mut Intact<'_>,
    write: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut position = 0;
    let mut read = |window: &mut Vec<u8>| -> Result<()> {
        let length = if position < source.len() { source.window(position) } else { 0 };
        resize(window, length)?;
        source.read_into(position, window)?;
        position += length;
        Ok(())
    };
    let (mut window, mut next) = (Vec::new(), Vec::new());
    read(&mut window)?;
    while !window.is_empty() {
        let mut found = Ok(());
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| found = read(&mut next));
            intact.update(&window);
            write(&window)?;
            progress(window.len() as u64)
        })?;
        found?;
        std::mem::swap(&mut window, &mut next);
    }
    Ok(())
}

fn damaged(path: &str) -> Error {
    Error::new(
        Kind::Checksum,
        format!("the bytes of \"{path}\" are not those that were added: the store is damaged"),
    )
}

fn taken(path: &Path) -> Error {
    Error::new(Kind::Duplicate, "there is something already")
        .with_path(path)
        .with_hint("Name a new or empty folder, or a new file.")
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|cause| Error::io("cannot make the folder", path, cause))
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|cause| Error::io("cannot set the mode", path, cause))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn link(target: &str, path: &Path) -> Result<()> {
    std::os::unix::fs::symlink(target, path).map_err(|cause| Error::io("cannot make the link", path, cause))
}

#[cfg(not(unix))]
fn link(_: &str, path: &Path) -> Result<()> {
    Err(Error::unsupported("symbolic links are not restored on this system").with_path(path))
}
