//! Restoring: the original, byte for byte, or nothing.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::description::Description;
use super::digest::{hexadecimal, in_windows};
use crate::error::{Error, Kind, Result};
use crate::open::OpenOptions;
use crate::output::Output;

/// Writes the original of an archive. The file appears only after its digest was found right. Returns its length.
pub fn restore(archive: &Path, output: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let (description, source) = OpenOptions::default().open_archive(archive)?;
    let mut out = Output::create(output)?;
    let mut hasher = Sha256::new();
    in_windows(&source, |window| {
        hasher.update(window);
        progress(window.len() as u64);
        out.write(window)
    })
    .map_err(|error| error.with_path(archive))?;
    check_digest(&description, &hexadecimal(&hasher.finalize())).map_err(|error| error.with_path(archive))?;
    out.publish(false)?;
    Ok(source.len())
}

/// Compares what was restored with what was archived.
fn check_digest(description: &Description, found: &str) -> Result<()> {
    if found == description.sha256 {
        return Ok(());
    }
    Err(Error::new(Kind::Checksum, "the restored bytes are not the original's: the archive is damaged")
        .with_hint("Nothing was written."))
}
