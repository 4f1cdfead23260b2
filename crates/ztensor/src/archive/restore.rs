//! Restoring: the original, byte for byte, or nothing.

use std::borrow::Cow;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use sha2::{Digest as _, Sha256};

use super::description::Description;
use super::digest::windows;
use crate::delta::Base;
use crate::error::{Error, Kind, Result};
use crate::open::OpenOptions;
use crate::output::Output;
use crate::source::Source;

/// Writes the original of an archive. The file appears only after its digest was found right. Returns its length.
pub fn restore(archive: &Path, output: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let (description, source, _) = OpenOptions::default().open_archive(archive)?;
    write_original(&description, &source, None, output, progress).map_err(|error| error.with_path(archive))
}

/// The original of an archive in memory.
pub fn restore_bytes(archive: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Vec<u8>> {
    let (description, source, _) = OpenOptions::default().open_archive_bytes(archive)?;
    write_original_to_memory(&description, &source, None)
}

/// Writes an opened original to a file that appears only after its digest was found right, and that of the base, if it is to be checked.
pub(crate) fn write_original(
    description: &Description,
    source: &Source,
    base: Option<&Base>,
    output: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut out = Output::create(output)?;
    copy(description, source, base, &mut out, progress)?;
    out.publish(false)?;
    Ok(source.len())
}

/// The same, in memory.
pub(crate) fn write_original_to_memory(
    description: &Description,
    source: &Source,
    base: Option<&Base>,
) -> Result<Vec<u8>> {
    let mut out = Output::memory();
    copy(description, source, base, &mut out, &mut |_| {})?;
    Ok(out.into_memory())
}

fn copy(
    description: &Description,
    source: &Source,
    base: Option<&Base>,
    out: &mut Output,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let Some(base) = base else { return copy_windows(description, source, out, progress) };
    std::thread::scope(|scope| {
        let checked = scope.spawn(|| base.check_all());
        let copied = copy_windows(description, source, out, progress);
        // A wrong base explains whatever else went wrong.
        checked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        copied
    })
}

/// Copies a source, decoding the next window while one is hashed and written.
fn copy_windows(
    description: &Description,
    source: &Source,
    out: &mut Output,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut hasher = Sha256::new();
    let mut take = |window: Result<Cow<[u8]>>| -> Result<()> {
        let window = window?;
        hasher.update(&window);
        progress(window.len() as u64);
        out.write(&window)
    };
    if source.window(0) == source.len() {
        windows(source).try_for_each(take)?;
    } else {
        std::thread::scope(|scope| {
            // Without room of its own the channel holds no window besides the two that are worked on.
            let (sender, receiver) = sync_channel(0);
            // It ends early when nobody listens any more, because a write failed.
            scope.spawn(move || windows(source).try_for_each(|window| sender.send(window)));
            receiver.into_iter().try_for_each(&mut take)
        })?;
    }
    if description.original.sha256 == <[u8; 32]>::from(hasher.finalize()) {
        return Ok(());
    }
    Err(Error::new(Kind::Checksum, "the restored bytes are not the original's: the archive is damaged")
        .with_hint("Nothing was written."))
}
