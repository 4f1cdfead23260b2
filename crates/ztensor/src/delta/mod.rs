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
use crate::error::{Kind, Result};
use crate::folder;
use crate::open::OpenOptions;
use crate::output::Output;
use crate::reader::Reader;

/// Models up to this size are also archived without their base, and the shorter of the two is kept: what a delta says of its base
/// could outweigh what it saves.
const SMALL: u64 = 4 << 20;

/// Opens the bases of a delta that is to be made. Those that are deltas find their own among the others, or beside them. A folder behind the first
/// that holds no model, or several, is a place where bases of others are looked for.
pub fn open_bases(bases: &[Candidate], options: &OpenOptions) -> Result<Vec<Arc<Reader>>> {
    let mut opened = Vec::with_capacity(bases.len());
    for (place, base) in bases.iter().enumerate() {
        let path = match base {
            Candidate::Opened(reader) => {
                opened.push(Arc::clone(reader));
                continue;
            }
            Candidate::Path(path) => path,
        };
        if place > 0 && path.is_dir() && folder::models(path)?.len() != 1 {
            continue;
        }
        let others = bases.iter().enumerate().filter(|(other, _)| *other != place);
        let others: Vec<Candidate> = others.map(|(_, other)| other.clone()).collect();
        let open = |bases: Vec<Candidate>| OpenOptions { bases, ..options.clone() }.open(path);
        let reader = match open(others) {
            Err(error) if error.kind() == Kind::WrongBase && bases.len() > 1 => {
                open(Vec::new()).map_err(|_| error)?
            }
            other => other?,
        };
        opened.push(Arc::new(reader));
    }
    Ok(opened)
}

/// Stores a model file, or the model in a folder with all of its files, as differences to a base, or to several: the parents of a merge. The delta appears only when it is complete. It needs
/// those of the bases that help; where none does it is a plain archive. An error of `progress` ends the work.
pub fn make(
    target: &Path,
    bases: &[Arc<Reader>],
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let reader = OpenOptions::within(&options.limits).open(target)?;
    make_reader(&reader, bases, output, options, progress).map_err(|error| error.with_path(target))
}

/// Stores an opened model, with all of its files, as differences to bases.
pub fn make_reader(
    reader: &Reader,
    bases: &[Arc<Reader>],
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let started = Instant::now();
    let stats = if is_small(reader) {
        let (bytes, stats) = make_small(reader, bases, options)?;
        progress(stats.original)?;
        let mut out = Output::create(output)?;
        out.write(&bytes)?;
        out.publish(false)?;
        stats
    } else {
        archive::write_file(output, reader, &encode::AgainstBases::new(bases)?, options, progress)?
    };
    Ok(stats.since(started))
}

/// The same, in memory.
pub fn make_bytes(
    target: impl AsRef<[u8]> + Send + Sync + 'static,
    bases: &[Arc<Reader>],
    options: &ArchiveOptions,
) -> Result<(Vec<u8>, Stats)> {
    let started = Instant::now();
    let reader = OpenOptions::within(&options.limits).open_bytes(target)?;
    let (bytes, stats) = if is_small(&reader) {
        make_small(&reader, bases, options)?
    } else {
        archive::write_memory(&reader, &encode::AgainstBases::new(bases)?, options)?
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
fn make_small(reader: &Reader, bases: &[Arc<Reader>], options: &ArchiveOptions) -> Result<(Vec<u8>, Stats)> {
    let delta = archive::write_memory(reader, &encode::AgainstBases::new(bases)?, options)?;
    if delta.1.copied + delta.1.deltas + delta.1.derived == 0 {
        return Ok(delta);
    }
    let plain = archive::write_memory(reader, &archive::Alone, options)?;
    Ok(if plain.0.len() <= delta.0.len() { plain } else { delta })
}
