//! The door for paths: what lies there is opened, be it a file or a folder, and archived.

use std::path::Path;

use super::{ArchiveOptions, Stats, archive_reader};
use crate::error::Result;
use crate::open::OpenOptions;

/// Archives a model file of any format, or the model in a folder, with all of its files. The archive appears only when it is complete. `progress` is told the bytes of each step; an error of it ends the
/// work.
pub fn archive(
    input: &Path,
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let reader = OpenOptions::within(&options.limits).open(input)?;
    archive_reader(&reader, output, options, progress).map_err(|error| error.with_path(input))
}
