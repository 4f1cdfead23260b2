//! Entries that are computed: a delta against what a recipe makes of other entries and of fields that are stored with it. A range is computed from ranges.

use std::ops::Range;

use super::chain::buffer;
use crate::record::{Entry, Manifest, Operand};
use ztensor::recipe::{Operands, Recipe};
use ztensor::{Error, Result};

/// Reads bytes of an entry, by its number.
type Read<'a> = dyn Fn(usize, u64, &mut [u8]) -> Result<()> + Sync + 'a;
/// Fetches stored bytes of the computed entry.
type Fetch<'a> = dyn Fn(u64, &mut [u8]) -> Result<()> + Sync + 'a;

/// A recipe and what it is applied to.
pub(super) struct Computed<'a> {
    recipe: Recipe,
    operands: Vec<Source>,
    lengths: Vec<u64>,
    /// Where the delta begins, behind the fields.
    delta: u64,
    read: &'a Read<'a>,
    fetch: &'a Fetch<'a>,
}

/// Where an operand is.
enum Source {
    /// Entries, each with where it begins in the operand.
    Entries(Vec<(u64, usize)>),
    /// A frame among the stored bytes.
    Field(Range<u64>),
}

impl<'a> Computed<'a> {
    pub(super) fn new(
        manifest: &Manifest,
        recipe: &[u8],
        operands: &[Operand],
        read: &'a Read<'a>,
        fetch: &'a Fetch<'a>,
    ) -> Result<Computed<'a>> {
        let recipe = Recipe::decode(recipe)?;
        let (mut sources, mut lengths, mut delta) = (Vec::new(), Vec::new(), 0u64);
        for operand in operands {
            let mut length = 0u64;
            sources.push(match operand {
                Operand::Field { length: decoded, stored } => {
                    let start = delta;
                    delta = delta.saturating_add(*stored);
                    length = *decoded;
                    Source::Field(start..delta)
                }
                Operand::Entries(numbers) => {
                    let mut placed = Vec::with_capacity(numbers.len());
                    for number in numbers {
                        let entry = manifest.entries.get(*number);
                        let entry = entry.ok_or_else(|| Error::malformed("an entry does not exist"))?;
                        placed.push((length, *number));
                        length = length.saturating_add(entry.length);
                    }
                    Source::Entries(placed)
                }
            });
            lengths.push(length);
        }
        Ok(Computed { recipe, operands: sources, lengths, delta, read, fetch })
    }

    /// Decodes a range of an entry that is stored so.
    pub(super) fn read_range(&self, entry: &Entry, range: Range<u64>, out: &mut [u8]) -> Result<()> {
        let compute = |offset: u64, bytes: &mut [u8]| self.apply(offset, bytes);
        let fetch = |offset: u64, bytes: &mut [u8]| (self.fetch)(self.delta.saturating_add(offset), bytes);
        let stored = entry.stored.saturating_sub(self.delta);
        let delta = z4ai::Frame::open(z4ai::Fetch::new(stored, fetch))?;
        delta.against(z4ai::Fetch::new(entry.length, compute))?.trusted().read_into(range, out)
    }

    /// Decodes all of it.
    pub(super) fn read_all(&self, entry: &Entry, out: &mut [u8]) -> Result<()> {
        let mut reference = buffer(entry.length)?;
        self.apply(0, &mut reference)?;
        let mut frame = buffer(entry.stored.saturating_sub(self.delta))?;
        (self.fetch)(self.delta, &mut frame)?;
        z4ai::Frame::open(&frame)?.against(&reference)?.trusted().read_all_into(out)?;
        Ok(())
    }

    fn apply(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.recipe.apply(self, &self.lengths, start, out)
    }
}

impl Operands for Computed<'_> {
    fn read(&self, number: usize, start: u64, out: &mut [u8]) -> Result<()> {
        match self.operands.get(number) {
            Some(Source::Field(range)) => {
                let fetch = |offset: u64, bytes: &mut [u8]| (self.fetch)(range.start + offset, bytes);
                let field = z4ai::Frame::open(z4ai::Fetch::new(range.end - range.start, fetch))?;
                field.read_into(start..start.saturating_add(out.len() as u64), out)?;
                Ok(())
            }
            Some(Source::Entries(placed)) => {
                let (mut position, mut rest) = (start, out);
                let length = self.lengths.get(number).copied().unwrap_or(0);
                while !rest.is_empty() {
                    let place = placed.partition_point(|(begin, _)| *begin <= position);
                    let found = place.checked_sub(1).and_then(|before| placed.get(before));
                    let end = placed.get(place).map_or(length, |(begin, _)| *begin);
                    let (Some((begin, entry)), Some(left)) = (found, end.checked_sub(position)) else {
                        return Err(Error::truncated("an operand is too short"));
                    };
                    let taken = left.min(rest.len() as u64) as usize;
                    if taken == 0 {
                        return Err(Error::truncated("an operand is too short"));
                    }
                    let (part, later) = rest.split_at_mut(taken);
                    (self.read)(*entry, position - begin, part)?;
                    position += taken as u64;
                    rest = later;
                }
                Ok(())
            }
            None => Err(Error::malformed("an operand is missing")),
        }
    }
}
