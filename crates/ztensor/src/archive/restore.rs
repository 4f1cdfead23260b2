//! Restoring: the original, byte for byte, or nothing.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::base::Base;
use super::description::{Description, FileIdentity};
use super::digest::{identify, windows};
use super::opening::{OpenOptions, Unpacked};
use crate::error::{Error, Kind, Result};
use crate::output::Output;
use crate::source::Source;

/// Writes the original of an archive. It appears only after its digest was found right. Of an original in several files `output` is the folder they go
/// to. An error of `progress` ends the work. Returns the length.
pub fn restore(archive: &Path, output: &Path, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<u64> {
    OpenOptions::default().restore(archive, output, progress)
}

/// The original of an archive in memory.
pub fn restore_bytes(archive: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Vec<u8>> {
    OpenOptions::default().restore_bytes(archive)
}

/// Checks that an archive restores its original, without writing it anywhere.
pub fn verify(archive: &Path) -> Result<()> {
    OpenOptions::default().verify_archive(archive)
}

impl OpenOptions {
    /// Writes the original of an archive or a delta, as [`restore`] does. All of the base of a delta is compared with what that was made
    /// against. An original out of proportion to its archive is refused as far as the limits say.
    pub fn restore(
        &self,
        archive: &Path,
        output: &Path,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        write_files(&self.unpack(archive)?, output, progress).map_err(|error| error.with_path(archive))
    }

    /// Restores the original of an archive or a delta in memory.
    pub fn restore_bytes(&self, archive: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Vec<u8>> {
        let unpacked = self.unpack_bytes(archive)?;
        let [(_, source)] = &unpacked.files[..] else {
            return Err(Error::argument(format!("the archive holds {} files", unpacked.files.len()))
                .with_hint("Restore it from a file to a folder."));
        };
        let mut out = Output::memory();
        unpacked
            .with_base_checked(|| copy(unpacked.description.original, source, &mut out, &mut |_| Ok(())))?;
        Ok(out.into_memory())
    }

    /// Checks that an archive or a delta restores its original, as [`verify`] does.
    pub fn verify_archive(&self, archive: &Path) -> Result<()> {
        let unpacked = self.unpack(archive)?;
        for ((_, source), expected) in unpacked.files.iter().zip(identities(&unpacked.description)) {
            let found = identify(source).map_err(|error| error.with_path(archive))?;
            if found != expected {
                return Err(unpacked.base_error().unwrap_or_else(damaged).with_path(archive));
            }
        }
        Ok(())
    }
}

/// What the restored files must be.
fn identities(description: &Description) -> Vec<FileIdentity> {
    match description.files.is_empty() {
        true => vec![description.original],
        false => description.files.iter().map(|file| file.identity).collect(),
    }
}

fn damaged() -> Error {
    Error::new(Kind::Checksum, "the restored bytes are not the original's: the archive is damaged")
}

/// Writes opened files that appear only after their digests were found right, and that of the base. The first of several comes last: it is
/// the one that refers to the others.
fn write_files(
    unpacked: &Unpacked,
    output: &Path,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<u64> {
    let several = !unpacked.description.files.is_empty();
    let mut written = Vec::with_capacity(unpacked.files.len());
    unpacked.with_base_checked(|| {
        for ((name, source), expected) in unpacked.files.iter().zip(identities(&unpacked.description)) {
            let target = if several { output.join(name) } else { output.to_path_buf() };
            if let (true, Some(folder)) = (several, target.parent()) {
                std::fs::create_dir_all(folder)
                    .map_err(|cause| Error::io("cannot make the folder", folder, cause))?;
            }
            let mut out = Output::create(&target)?;
            copy(expected, source, &mut out, progress)?;
            written.push(out);
        }
        Ok(())
    })?;
    written.into_iter().rev().try_for_each(|out| out.publish(false))?;
    Ok(unpacked.files.iter().map(|(_, source)| source.len()).sum())
}

impl Unpacked {
    /// Does some work while all of the base is compared with what the delta was made against.
    fn with_base_checked(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.bases.is_empty() {
            return work();
        }
        let mut checked = Ok(());
        let done = rayon::in_place_scope(|scope| {
            scope.spawn(|_| checked = self.bases.iter().try_for_each(Base::check_all));
            work()
        });
        // A wrong base explains whatever else went wrong.
        checked.and(done)
    }

    /// What is wrong with the base, if anything is.
    fn base_error(&self) -> Option<Error> {
        self.bases.iter().find_map(|base| base.check_all().err())
    }
}

/// Copies a source, decoding the next window while one is hashed and written.
fn copy(
    expected: FileIdentity,
    source: &Arc<Source>,
    out: &mut Output,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut hasher = Sha256::new();
    let mut windows = windows(source);
    let mut next = windows.next();
    while let Some(window) = next.take() {
        let window = window?;
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| next = windows.next());
            hasher.update(&window);
            progress(window.len() as u64)?;
            out.write(&window)
        })?;
    }
    if expected.sha256 == <[u8; 32]>::from(hasher.finalize()) {
        return Ok(());
    }
    Err(damaged().with_hint("Nothing was written."))
}
