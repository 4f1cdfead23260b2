//! The 1.2 reader: footer, manifest, and every rule checked before a tensor is handed out.

use std::borrow::Cow;

use super::manifest::Manifest;
use super::{MAGIC, rules};
use crate::error::{Error, Hints, Result};
use crate::formats::Input;
use crate::index::{Format, Index};
use crate::limits::Budget;
use crate::source::Source;

/// Every blob starts at a multiple of this.
pub(super) const ALIGNMENT: u64 = 64;
/// Length field and magic at the end of the file.
pub(super) const FOOTER: u64 = 16;
/// The largest manifest the format allows.
pub(super) const LARGEST_MANIFEST: u64 = 1 << 30;

/// Where the manifest lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub offset: u64,
    pub length: u64,
}

impl Tail {
    /// One past the footer.
    pub(super) fn end(self) -> u64 {
        self.offset + self.length + FOOTER
    }
}

/// Indexes a 1.2 file.
pub(super) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let tail = tail_at(&source, source.len())?;
    load(&source, tail, &mut input.budget)
}

/// Reads and checks the manifest of a tail.
pub(super) fn load(source: &Source, tail: Tail, budget: &mut Budget) -> Result<Index> {
    budget.check_header(tail.length)?;
    let bytes = source.bytes(tail.offset, tail.length)?;
    let mut index = Index::new(Format::Zt, "");
    // An object takes some hundred bytes of manifest: a fair guess, and in proportion to the file whatever it says.
    index.objects.reserve(bytes.len() / 128);
    let manifest = Manifest::walk(&bytes, budget, &mut |entry| match entry.object {
        Ok(object) => {
            rules::check_object(&object).map_err(|error| error.with_tensor(&entry.name))?;
            index.insert(entry.name, object)
        }
        Err(reason) => {
            index.skip(entry.name, reason);
            Ok(())
        }
    })
    .map_err(|error| error.with_offset(tail.offset))?;
    index.version = Cow::Owned(manifest.version);
    index.attributes = manifest.attributes;
    let blobs = index.objects.iter().flat_map(|(name, object)| rules::blobs(name, object));
    rules::check_blobs(blobs, MAGIC.len() as u64..tail.offset, ALIGNMENT)?;
    Ok(index)
}

/// The tail whose footer ends at `end`.
pub(super) fn tail_at(source: &Source, end: u64) -> Result<Tail> {
    if end < MAGIC.len() as u64 + FOOTER {
        return Err(Error::truncated("the file is too short for a footer"));
    }
    let footer = source.bytes(end - FOOTER, FOOTER)?;
    let (length, magic) = footer.split_at(8);
    if magic != MAGIC {
        return Err(Error::truncated("the footer is missing: the file was cut off, or a write was interrupted")
            .with_offset(end - FOOTER)
            .with_hints(Hints::new(
                "If an append was interrupted, `ztensor::repair` recovers the last complete state; otherwise fetch the file again.",
                "If an append was interrupted, ztensor.repair recovers the last complete state; otherwise fetch the file again.",
                "If an append was interrupted, `ztensor repair` recovers the last complete state; otherwise fetch the file again.",
            )));
    }
    let length = length.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if length > LARGEST_MANIFEST {
        return Err(Error::malformed(format!(
            "the manifest would have {length} bytes, more than the format allows"
        ))
        .with_offset(end - FOOTER));
    }
    let offset = (end - FOOTER).checked_sub(length).filter(|offset| *offset >= MAGIC.len() as u64);
    let offset = offset.ok_or_else(|| {
        Error::malformed(format!("the manifest of {length} bytes would start before the file"))
            .with_offset(end - FOOTER)
    })?;
    Ok(Tail { offset, length })
}
