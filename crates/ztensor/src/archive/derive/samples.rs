//! Samples of a tensor, on which recipes compete.

use super::trial::{Source, Trial};
use crate::encoding::z4ai_failure;
use crate::error::Result;
use crate::recipe::Number;

/// Samples that recipes are tried on, and bytes of each.
const SAMPLES: u64 = 3;
const SAMPLE: u64 = 16 << 10;
/// A recipe is not compared with others once the sample takes less than this share of what it takes alone.
const SURE: f64 = 0.02;

/// What samples are taken to take alone where that was not asked for, as a share of their bytes: less than floats and levels do.
const FEWEST: f64 = 0.2;

/// Bytes of a delta without differences.
const NOTHING: usize = 48;

/// What recipes are tried on.
pub(super) struct Samples {
    pub(super) ranges: Vec<std::ops::Range<usize>>,
    pub(super) bytes: Vec<u8>,
    pub(super) options: z4ai::Options,
    /// How many times as long all bytes are.
    pub(super) scale: f64,
    /// What the samples take alone, once that was asked for: coding them takes longer than finding a recipe that leaves nothing.
    alone: Option<f64>,
    /// What they take with the best recipe so far.
    least: Option<f64>,
}

impl Samples {
    pub(super) fn new(bytes: &[u8], options: &z4ai::Options) -> Samples {
        let options = z4ai::Options { shape: None, threads: 1, ..options.clone() };
        let ranges = samples(bytes.len() as u64);
        let sample: Vec<u8> = ranges.iter().flat_map(|range| &bytes[range.clone()]).copied().collect();
        let scale = bytes.len() as f64 / sample.len().max(1) as f64;
        Samples { ranges, bytes: sample, options, scale, alone: None, least: None }
    }

    /// What the samples take alone.
    pub(super) fn alone(&mut self) -> Result<f64> {
        if let Some(alone) = self.alone {
            return Ok(alone);
        }
        let alone = z4ai::compress(&self.bytes, &self.options).map_err(z4ai_failure)?.len() as f64;
        self.alone = Some(alone);
        Ok(alone)
    }

    /// A lower bound of what the samples take alone, without coding them.
    pub(super) fn alone_at_least(&self) -> f64 {
        self.alone.unwrap_or(FEWEST * self.bytes.len() as f64)
    }

    /// What the samples take at least, as far as is known.
    pub(super) fn least(&mut self) -> Result<f64> {
        match self.least {
            Some(least) => Ok(least),
            None => self.alone(),
        }
    }

    /// Only recipes are taken that take less.
    pub(super) fn bound(&mut self, least: f64) -> Result<()> {
        self.least = Some(self.least()?.min(least));
        Ok(())
    }

    /// The recipe that takes the fewest bytes, fewer than was found before; `None` where none does.
    pub(super) fn best<'a>(&mut self, trials: Vec<Trial<'a>>) -> Result<Option<Trial<'a>>> {
        let mut found: Option<Trial<'a>> = None;
        for trial in trials {
            let mut reference = Vec::with_capacity(self.bytes.len());
            for range in &self.ranges {
                reference.extend(trial.reference(range.start as u64, range.len())?);
            }
            // Most recipes that are right leave nothing, and coding takes longer than computing.
            let (length, is_delta) = match reference == self.bytes {
                true => (NOTHING, true),
                false => {
                    let coded = z4ai::compress_delta_if_useful(&self.bytes, &reference, &self.options);
                    coded.map(|(frame, is_delta)| (frame.len(), is_delta)).map_err(z4ai_failure)?
                }
            };
            let stored = trial.sources.iter().map(|source| match source {
                Source::Field(Number::I16, _, bytes) => vectors(bytes),
                // Fields become a little shorter.
                Source::Field(_, _, bytes) => 0.9 * bytes.len() as f64,
                Source::Base(..) | Source::Run(..) => 0.0,
            });
            let cost = length as f64 + stored.sum::<f64>() / self.scale;
            // No need to know what they take alone where nothing is left of them.
            let is_nothing = length == NOTHING && cost < SURE * self.alone_at_least() && !self.are_constant();
            if is_delta && (is_nothing || cost < self.least()?) {
                (self.least, found) = (Some(cost), Some(trial));
                if is_nothing || cost < SURE * self.alone()? {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Whether every sixteen bytes are the same: such samples take next to nothing alone, too.
    fn are_constant(&self) -> bool {
        let mut sixteens = self.bytes.chunks_exact(16);
        let first = sixteens.next();
        sixteens.all(|sixteen| Some(sixteen) == first)
    }
}

/// About what vectors take whose largest element is four standard deviations.
fn vectors(bytes: &[u8]) -> f64 {
    let largest =
        bytes.as_chunks().0.iter().map(|of| i16::from_le_bytes(*of).unsigned_abs()).max().unwrap_or(0);
    bytes.len() as f64 / 16.0 * (f64::from(largest.max(1)).log2() + 0.3)
}

/// Ranges all over the bytes, each a whole number of elements whatever their width.
fn samples(length: u64) -> Vec<std::ops::Range<usize>> {
    let (count, size) = if length <= SAMPLES * SAMPLE { (1, length) } else { (SAMPLES, SAMPLE) };
    let place = |number: u64| ((length - size) * number / (SAMPLES - 1) / 16 * 16) as usize;
    (0..count).map(|number| place(number)..place(number) + size as usize).collect()
}
