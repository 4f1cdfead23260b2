//! The 1.2 reader: footer, manifest, and every rule checked before a tensor is handed out.

use std::borrow::Cow;
use std::collections::HashSet;

use super::journal::{self, Journal};
use super::manifest::Manifest;
use super::{MAGIC, rules};
use crate::error::{Error, Hints, Kind, Result};
use crate::formats::Input;
use crate::index::{Format, Index, Recovered};
use crate::limits::Budget;
use crate::source::{Moment, Source};

/// Every blob starts at a multiple of this.
pub(crate) const ALIGNMENT: u64 = 64;
/// Length field and magic at the end of the file.
pub(crate) const FOOTER: u64 = 16;
/// The largest manifest the format allows.
pub(crate) const LARGEST_MANIFEST: u64 = 1 << 30;

/// Where the manifest lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub offset: u64,
    pub length: u64,
}

impl Tail {
    /// One past the footer.
    pub(crate) fn end(self) -> u64 {
        self.offset + self.length + FOOTER
    }
}

/// What decides which state a file holds: the journal record, or the end of the file.
pub(crate) struct Head {
    record: journal::Bytes,
    journal: Option<Journal>,
    moment: Option<Moment>,
}

impl Head {
    /// Reads it from the file itself, not from a map whose end may be gone.
    pub(crate) fn read(source: &Source) -> Result<Head> {
        let moment = source.moment()?;
        let mut record = journal::NONE;
        if source.len() >= journal::END {
            source.read_directly(journal::OFFSET, &mut record)?;
        }
        Ok(Head { record, journal: Journal::decode(&record), moment })
    }

    /// Whether there is a record to be cleared, or what is left of one.
    pub(crate) fn is_marked(&self) -> bool {
        self.record != journal::NONE
    }

    /// Whether a change was announced.
    fn is_announced(&self) -> bool {
        self.journal.is_some()
    }

    /// The tail of the last complete state.
    pub(crate) fn tail(&self, source: &Source) -> Result<Tail> {
        let Some(journal) = self.journal else { return tail_at(source, source.len()) };
        let announced = journal.tail;
        source.check(announced.offset, announced.end() - announced.offset)?;
        let found = tail_at(source, announced.end())?;
        if found != announced {
            return Err(Error::malformed(format!(
                "the journal record says that a state ends at offset {}, but none does",
                announced.end()
            ))
            .with_offset(journal::OFFSET));
        }
        Ok(found)
    }

    /// Whether the file holds the state that it held when this was read. While a change is announced the record alone decides; otherwise every
    /// change makes the file longer.
    fn holds(&self, source: &Source) -> Result<bool> {
        if self.moment.is_none() {
            // Bytes in memory, or far away: they do not change.
            return Ok(true);
        }
        let now = Head::read(source)?;
        let settled = self.moment.is_none_or(|moment| moment.length == source.len());
        Ok(now.record == self.record && (self.is_announced() || settled && now.moment == self.moment))
    }

    /// What was left behind the state.
    fn recovered(&self, source: &Source, tail: Tail) -> Option<Recovered> {
        let unfinished = source.len().saturating_sub(tail.end());
        let journal = self.journal.filter(|_| unfinished > 0)?;
        Some(Recovered { edit: journal.edit, unfinished })
    }
}

/// Indexes a 1.2 file. Another process may be changing it: then this is the state before or the state after.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    /// Changes during which the file is looked at again.
    const ATTEMPTS: u32 = 200;
    for attempt in 0..ATTEMPTS {
        let source = input.source();
        match attempt_index(&source, &mut input.budget)? {
            Some((index, end)) => {
                drop(source);
                if index.recovered.is_some() {
                    input.narrow(end);
                }
                return Ok(index);
            }
            None => {
                drop(source);
                input.refresh()?;
            }
        }
        if attempt > 8 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    Err(Error::new(Kind::Io, "the file is changed again and again while it is being opened")
        .with_hint("Wait until the process that writes to it has finished."))
}

/// Indexes a file, and says where its state ends; `None` where it changed meanwhile.
fn attempt_index(source: &Source, budget: &mut Budget) -> Result<Option<(Index, u64)>> {
    let head = Head::read(source)?;
    let tail = head.tail(source);
    // Only the tail of a state may be read through a map: what lies behind may be cut off at any moment.
    if !head.holds(source)? {
        return Ok(None);
    }
    let tail = tail?;
    let loaded = load(source, tail, budget);
    if !head.holds(source)? {
        return Ok(None);
    }
    let mut index = loaded?;
    index.recovered = head.recovered(source, tail);
    Ok(Some((index, tail.end())))
}

/// Reads and checks the manifest of a tail.
pub(crate) fn load(source: &Source, tail: Tail, budget: &mut Budget) -> Result<Index> {
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

/// Reads and checks the manifest of a tail, as [`load`] does, for somebody who will write one like it: its bytes, and where objects lie in them.
pub(crate) fn parse(source: &Source, tail: Tail, budget: &mut Budget) -> Result<(Vec<u8>, Manifest)> {
    budget.check_header(tail.length)?;
    let bytes = source.bytes(tail.offset, tail.length)?.into_owned();
    let manifest = Manifest::parse(&bytes, budget).map_err(|error| error.with_offset(tail.offset))?;
    let mut names = HashSet::with_capacity(manifest.entries.len());
    for entry in &manifest.entries {
        if !names.insert(entry.name.as_str()) {
            return Err(
                Error::new(Kind::Duplicate, "the name occurs twice in the file").with_tensor(&entry.name)
            );
        }
        if let Ok(object) = &entry.object {
            rules::check_object(object).map_err(|error| error.with_tensor(&entry.name))?;
        }
    }
    let objects =
        manifest.entries.iter().filter_map(|entry| Some((&entry.name, entry.object.as_ref().ok()?)));
    let blobs = objects.flat_map(|(name, object)| rules::blobs(name, object));
    rules::check_blobs(blobs, MAGIC.len() as u64..tail.offset, ALIGNMENT)?;
    Ok((bytes, manifest))
}

/// The tail whose footer ends at `end`.
pub(crate) fn tail_at(source: &Source, end: u64) -> Result<Tail> {
    if end < MAGIC.len() as u64 + FOOTER {
        return Err(Error::truncated("the file is too short for a footer"));
    }
    let mut footer = [0; FOOTER as usize];
    source.read_directly(end - FOOTER, &mut footer)?;
    let (length, magic) = footer.split_at(8);
    if magic != MAGIC {
        return Err(Error::truncated("the footer is missing: the file was cut off, or a write was interrupted")
            .with_offset(end - FOOTER)
            .with_hints(Hints::new(
                "Fetch it again, if it was downloaded or copied. If an earlier version of this library was interrupted, `ztensor::repair` finds the last complete state.",
                "Fetch it again, if it was downloaded or copied. If an earlier version of ztensor was interrupted, ztensor.repair finds the last complete state.",
                "Fetch it again, if it was downloaded or copied. If an earlier version of ztensor was interrupted, `ztensor repair` finds the last complete state.",
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
