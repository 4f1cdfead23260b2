//! Files that were cut off by versions of this library without a journal, and files that lost their record. Nothing says where their last
//! complete state ends, and what looks like a state may be the content of a tensor: a `.zt` file kept as bytes, or bytes made to look like one.
//! The state before an interrupted write is always among the candidates, so that a single candidate is that state; between several nobody but the
//! user can choose.

use super::MAGIC;
use super::read::{self, FOOTER, Tail};
use crate::error::{Error, Hints, Kind, Result};
use crate::index::Index;
use crate::limits::{Budget, Limits};
use crate::source::Source;

/// The candidates that are listed in a message.
const LISTED: usize = 8;

const NAME_ONE: Hints = Hints::new(
    "Name the one to go back to: `ztensor::repair_at`.",
    "Name the one to go back to: ztensor.repair(path, at=offset).",
    "Name the one to go back to: `ztensor repair --at OFFSET`.",
);

/// A place where the file may have ended once.
pub(crate) struct Candidate {
    pub tail: Tail,
    tensors: usize,
}

/// The state that an interrupted write left behind.
pub(crate) fn only(source: &Source) -> Result<Tail> {
    let found = all(source)?;
    match &found[..] {
        [] => Err(Error::new(
            Kind::Malformed,
            "no complete manifest was found, so there is no earlier state to go back to",
        )),
        [one] if one.accounts_for_all(source)? => Ok(one.tail),
        several => {
            let list: Vec<String> = several.iter().take(LISTED).map(Candidate::describe).collect();
            let more = if several.len() > LISTED { " and others" } else { "" };
            Err(Error::new(
                Kind::Malformed,
                format!(
                    "the file does not say where its last complete state ends; it may be {}{more}. What looks like a \
                     state may also be the content of a tensor",
                    list.join(", ")
                ),
            )
            .with_hints(NAME_ONE))
        }
    }
}

/// The state that ends at an offset which the user chose.
pub(crate) fn at(source: &Source, end: u64) -> Result<Tail> {
    source.check(end, 0)?;
    let tail = read::tail_at(source, end)?;
    read::load(source, tail, &mut Budget::new(Limits::default()))?;
    Ok(tail)
}

/// Every footer with a valid manifest before it.
fn all(source: &Source) -> Result<Vec<Candidate>> {
    const WINDOW: u64 = 16 << 20;
    let overlap = MAGIC.len() as u64 - 1;
    // Footers that share their manifest's bytes would make this quadratic; a file has few, and they lie apart.
    let mut allowance = source.len().saturating_mul(4).saturating_add(1 << 20);
    let mut found = Vec::new();
    let mut start = MAGIC.len() as u64;
    while start < source.len() {
        let length = (WINDOW + overlap).min(source.len() - start);
        let window = source.bytes(start, length)?;
        for at in positions(&window, MAGIC) {
            let end = start + at as u64 + MAGIC.len() as u64;
            let Ok(tail) = read::tail_at(source, end) else { continue };
            allowance = allowance.checked_sub(tail.length + FOOTER).ok_or_else(|| {
                Error::new(Kind::Limit, "the file has too many places that look like a footer")
                    .with_hints(NAME_ONE)
            })?;
            match read::load(source, tail, &mut Budget::new(Limits::default())) {
                Ok(Index { objects, .. }) => found.push(Candidate { tail, tensors: objects.len() }),
                Err(error) if error.kind() == Kind::Limit => found.push(Candidate { tail, tensors: 0 }),
                Err(_) => {}
            }
        }
        start += length.saturating_sub(overlap).max(1);
        if start + overlap >= source.len() {
            break;
        }
    }
    Ok(found)
}

/// Where a pattern occurs.
fn positions<'a>(bytes: &'a [u8], pattern: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = pattern.first().copied().unwrap_or_default();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + bytes.get(from..)?.iter().position(|byte| *byte == first)?;
            from = at + 1;
            if bytes[at..].starts_with(pattern) {
                return Some(at);
            }
        }
    })
}

impl Candidate {
    fn describe(&self) -> String {
        let plural = if self.tensors == 1 { "" } else { "s" };
        format!("{} ({} tensor{plural})", self.tail.end(), self.tensors)
    }

    /// Whether every byte before the manifest belongs to a tensor or is zero. The state of a file does, as far as this library wrote it; a file
    /// inside a tensor does not know what lies before it.
    fn accounts_for_all(&self, source: &Source) -> Result<bool> {
        const PIECE: u64 = 1 << 20;
        let index = read::load(source, self.tail, &mut Budget::new(Limits::default()))?;
        let mut spans: Vec<(u64, u64)> = index
            .objects
            .values()
            .flat_map(super::rules::spans)
            .map(|span| (span.offset, span.offset.saturating_add(span.length)))
            .collect();
        spans.push((self.tail.offset, self.tail.end()));
        spans.sort_unstable();
        let mut position = MAGIC.len() as u64;
        for (start, end) in spans {
            while position < start {
                let length = PIECE.min(start - position);
                if source.bytes(position, length)?.iter().any(|byte| *byte != 0) {
                    return Ok(false);
                }
                position += length;
            }
            position = position.max(end);
        }
        Ok(index.skipped.is_empty())
    }
}
