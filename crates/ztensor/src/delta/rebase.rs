//! A delta against another base than the one it was made against: a link is dropped from the middle of a chain, and what follows it
//! stays readable without it.

use std::path::Path;
use std::sync::Arc;

use super::make_reader;
use crate::archive::{ArchiveOptions, Candidate, Search, Stats, wrong_base};
use crate::error::{Error, Kind, Result};
use crate::folder::folder_of;
use crate::limits::Meter;
use crate::open::OpenOptions;
use crate::reader::Reader;

/// Stores what a delta restores against another base: `onto`, or the base of its base. The result, which is another file than the delta, is read
/// back and compared before this returns; one that is wrong is removed.
pub fn rebase(
    delta: &Path,
    onto: Option<Arc<Reader>>,
    bases: &[Candidate],
    output: &Path,
    options: &ArchiveOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Stats> {
    let opening = OpenOptions { bases: bases.to_vec(), ..OpenOptions::default() };
    let unpacked = opening.unpack(delta)?;
    let meter = Arc::new(Meter::new(&opening.limits));
    let description = unpacked.description;
    let onto = match onto {
        Some(onto) => onto,
        None => {
            let found = Search::new(&opening, &meter).grandparent(&description, Some(&folder_of(delta)))?;
            let grandparent = found.ok_or_else(|| {
                wrong_base("the base of this delta is no delta against one base, so there is no link to drop")
                    .with_path(delta)
                    .with_hint("Name the file to store it against.")
            })?;
            Arc::clone(grandparent.reader())
        }
    };
    let reader = opening.read_files(unpacked.files, &mut Search::new(&opening, &meter))?;
    meter.stop();
    let stats = make_reader(&reader, std::slice::from_ref(&onto), output, options, progress)
        .map_err(|error| error.with_path(delta))?;
    let written = opening.describe_archive(output)?;
    let verified = match written.sha256 == description.original.digest() {
        true => OpenOptions { bases: vec![onto.into()], ..OpenOptions::default() }.verify_archive(output),
        false => Err(Error::new(Kind::Checksum, "the delta does not restore what it says").with_path(delta)),
    };
    if verified.is_err() {
        std::fs::remove_file(output).map_err(|cause| Error::io("cannot remove the file", output, cause))?;
    }
    verified.map(|()| stats)
}
