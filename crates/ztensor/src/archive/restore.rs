//! Restoring: the original, byte for byte, or nothing.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::description::Description;
use super::digest::{identify, windows};
use crate::delta::Base;
use crate::error::{Error, Kind, Result};
use crate::open::OpenOptions;
use crate::output::Output;
use crate::source::Source;

/// Writes the original of an archive. The file appears only after its digest was found right. An error of `progress` ends the work. Returns its
/// length.
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
        let (description, source, base) = self.open_archive(archive)?;
        write_original(&description, &source, base.as_ref(), output, progress)
            .map_err(|error| error.with_path(archive))
    }

    /// Restores the original of an archive or a delta in memory.
    pub fn restore_bytes(&self, archive: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Vec<u8>> {
        let (description, source, base) = self.open_archive_bytes(archive)?;
        write_original_to_memory(&description, &source, base.as_ref())
    }

    /// Checks that an archive restores its original, as [`verify`] does.
    pub fn verify_archive(&self, archive: &Path) -> Result<()> {
        let (description, source, _) = self.open_archive(archive)?;
        let restored = identify(&[Arc::new(source)]).map_err(|error| error.with_path(archive))?;
        if restored.sha256 == description.original.sha256 {
            Ok(())
        } else {
            Err(damaged().with_path(archive))
        }
    }
}

fn damaged() -> Error {
    Error::new(Kind::Checksum, "the restored bytes are not the original's: the archive is damaged")
}

/// Writes an opened original to a file that appears only after its digest was found right, and that of the base, if it is to be checked.
fn write_original(
    description: &Description,
    source: &Source,
    base: Option<&Base>,
    output: &Path,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<u64> {
    let mut out = Output::create(output)?;
    copy(description, source, base, &mut out, progress)?;
    out.publish(false)?;
    Ok(source.len())
}

/// The same, in memory.
fn write_original_to_memory(
    description: &Description,
    source: &Source,
    base: Option<&Base>,
) -> Result<Vec<u8>> {
    let mut out = Output::memory();
    copy(description, source, base, &mut out, &mut |_| Ok(()))?;
    Ok(out.into_memory())
}

fn copy(
    description: &Description,
    source: &Source,
    base: Option<&Base>,
    out: &mut Output,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let Some(base) = base else { return copy_windows(description, source, out, progress) };
    let mut checked = Ok(());
    let copied = rayon::in_place_scope(|scope| {
        scope.spawn(|_| checked = base.check_all());
        copy_windows(description, source, out, progress)
    });
    // A wrong base explains whatever else went wrong.
    checked.and(copied)
}

/// Copies a source, decoding the next window while one is hashed and written.
fn copy_windows(
    description: &Description,
    source: &Source,
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
    if description.original.sha256 == <[u8; 32]>::from(hasher.finalize()) {
        return Ok(());
    }
    Err(damaged().with_hint("Nothing was written."))
}
