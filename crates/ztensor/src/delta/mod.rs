//! Model deltas: an archive of a model file in which tensors that resemble those of another file, the base, are stored as differences to
//! them. Tensors are found in the base by name, type and shape, whatever moved around them, and by content where they were renamed. A
//! delta opens like any other file, with its base at hand, and restores the original byte for byte.

mod encode;
mod lineage;
mod rebase;

pub use crate::archive::Candidate;
pub use lineage::{Link, lineage};
pub use rebase::rebase;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::archive::{self, ArchiveOptions, Stats};
use crate::error::Result;
use crate::open::OpenOptions;
use crate::output::Output;
use crate::reader::Reader;

/// Models up to this size are also archived without their base, and the shorter of the two is kept: what a delta says of its base
/// could outweigh what it saves.
const SMALL: u64 = 4 << 20;

/// Stores a model file, or the model in a folder with all of its files, as differences to a base. The delta appears only when it is complete. It is a plain archive, which needs no
/// base, where the base does not help. An error of `progress` ends the work.
pub fn make(
    target: &Path,
    base: &Arc<Reader>,
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let reader = OpenOptions::within(&options.limits).open(target)?;
    make_reader(&reader, base, output, options, progress).map_err(|error| error.with_path(target))
}

/// Stores an opened model, with all of its files, as differences to a base.
pub fn make_reader(
    reader: &Reader,
    base: &Arc<Reader>,
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let started = Instant::now();
    let stats = if is_small(reader) {
        let (bytes, stats) = make_small(reader, base, options)?;
        progress(stats.original)?;
        let mut out = Output::create(output)?;
        out.write(&bytes)?;
        out.publish(false)?;
        stats
    } else {
        archive::write_file(output, reader, &encode::AgainstBase::new(base)?, options, progress)?
    };
    Ok(stats.since(started))
}

/// The same, in memory.
pub fn make_bytes(
    target: impl AsRef<[u8]> + Send + Sync + 'static,
    base: &Arc<Reader>,
    options: &ArchiveOptions,
) -> Result<(Vec<u8>, Stats)> {
    let started = Instant::now();
    let reader = OpenOptions::within(&options.limits).open_bytes(target)?;
    let (bytes, stats) = if is_small(&reader) {
        make_small(&reader, base, options)?
    } else {
        archive::write_memory(&reader, &encode::AgainstBase::new(base)?, options)?
    };
    Ok((bytes, stats.since(started)))
}

/// Restores the model file of a delta. All of the base is compared with what the delta was made against, and the file appears only after its
/// digest was found right. Of a model in several files `output` is the folder they go to. An error of `progress` ends the work. Returns the length.
pub fn apply(
    delta: &Path,
    bases: &[Candidate],
    output: &Path,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<u64> {
    OpenOptions { bases: bases.to_vec(), ..OpenOptions::default() }.restore(delta, output, progress)
}

/// Restores the model file of a delta in memory.
pub fn apply_bytes(delta: impl AsRef<[u8]> + Send + Sync + 'static, bases: &[Candidate]) -> Result<Vec<u8>> {
    OpenOptions { bases: bases.to_vec(), ..OpenOptions::default() }.restore_bytes(delta)
}

fn is_small(reader: &Reader) -> bool {
    reader.sources().iter().all(|source| source.len() <= SMALL)
}

/// The shorter of the delta and the plain archive.
fn make_small(reader: &Reader, base: &Arc<Reader>, options: &ArchiveOptions) -> Result<(Vec<u8>, Stats)> {
    let delta = archive::write_memory(reader, &encode::AgainstBase::new(base)?, options)?;
    if delta.1.copied + delta.1.deltas + delta.1.derived == 0 {
        return Ok(delta);
    }
    let plain = archive::write_memory(reader, &archive::Alone, options)?;
    Ok(if plain.0.len() <= delta.0.len() { plain } else { delta })
}
