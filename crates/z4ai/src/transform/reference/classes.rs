//! The classes of chunks, by how many bits their differences have in all. The encoder chooses the boundaries
//! between classes: it looks at some chunks and merges levels that are not worth a class of their own, since
//! naming the class of each chunk costs bits.

use super::counts::{ChunkScratch, View};
use super::element::Word;
use super::{CHUNK_CLASSES, REFERENCE_CHUNK, listed};
use crate::entropy::table::log2_1024;
use crate::threads;

/// Levels per octave of bits; below that many bits each number is its own level.
const LEVELS_PER_OCTAVE: u32 = 16;
/// Levels of up to 2^14 bits, all that a chunk can have.
const COST_LEVELS: usize = LEVELS_PER_OCTAVE as usize * 12;
/// Chunks that are looked at. Deltas: half -0.002 %, double -0.009 %.
const CLASS_SAMPLE: usize = 4096;
/// Chunks that one thread looks at by itself: 512 KiB of fp32. A round number.
const CHUNKS_PER_TASK: usize = 512;

/// The class of each level.
#[derive(Debug)]
pub(super) struct Classes {
    of_level: [u8; COST_LEVELS],
    /// Whether chunks that can list their elements do.
    lists: bool,
}

impl Default for Classes {
    fn default() -> Self {
        Self { of_level: [0; COST_LEVELS], lists: false }
    }
}

fn level(bits: u32) -> usize {
    if bits < LEVELS_PER_OCTAVE {
        return bits as usize;
    }
    let octave = bits.ilog2() - LEVELS_PER_OCTAVE.ilog2();
    ((octave << LEVELS_PER_OCTAVE.ilog2()) + (bits >> octave)) as usize
}

/// Neighbouring levels, and the chunks of the sample that have these.
#[derive(Debug, Clone, Copy)]
struct Range {
    last: usize,
    chunks: u64,
    bits: u64,
}

impl Range {
    /// What sharing a class costs, less what it saves, in 1/1024 bits: the square of the distance in bits,
    /// weighted by how much one bit more or less tells, against naming one of two classes for each chunk.
    fn price(&self, other: &Self) -> i64 {
        let chunks = self.chunks + other.chunks;
        let middle = (self.bits + other.bits) / chunks;
        let distance = (self.bits / self.chunks).abs_diff(other.bits / other.chunks);
        let harmonic = self.chunks * other.chunks / chunks;
        let cost = harmonic * distance * distance * (256 / middle.max(1) + 1);
        let named = chunks * u64::from(log2_1024(chunks))
            - self.chunks * u64::from(log2_1024(self.chunks))
            - other.chunks * u64::from(log2_1024(other.chunks));
        cost as i64 - named as i64
    }
}

impl Classes {
    /// Chooses the boundaries between classes for whole elements against as many.
    pub fn choose<W: Word>(bytes: &[u8], reference: &[u8], view: View) -> Self {
        let length = REFERENCE_CHUNK * W::BYTES;
        let stride = (bytes.len() / length).div_ceil(CLASS_SAMPLE) | 1;
        let stretch = length * stride * CHUNKS_PER_TASK;
        let samples =
            threads::map(bytes.chunks(stretch).zip(reference.chunks(stretch)), |(bytes, reference)| {
                let (mut scratch, mut sample) = (ChunkScratch::<W>::default(), LevelSample::default());
                let chunks = bytes.chunks(length).zip(reference.chunks(length)).step_by(stride);
                chunks.for_each(|(chunk, base)| {
                    let bits = scratch.transform(chunk, base, view);
                    sample.add(bits, &scratch.symbols[..scratch.length], &scratch.exponents);
                });
                sample
            });
        let mut estimate = listed::Estimate::default();
        samples.iter().for_each(|sample| estimate.merge(&sample.listed));
        let lists = estimate.favours_sets();
        let mut seen = [(0u64, 0u64); COST_LEVELS];
        for (bits, _) in
            samples.iter().flat_map(|sample| &sample.chunks).filter(|(_, can_list)| !(lists && *can_list))
        {
            if let Some((chunks, sum)) = seen.get_mut(level(*bits)) {
                *chunks += 1;
                *sum += u64::from(*bits);
            }
        }
        let occupied = seen.iter().enumerate().skip(1).filter(|(_, (chunks, _))| *chunks > 0);
        let mut ranges: Vec<Range> =
            occupied.map(|(last, &(chunks, bits))| Range { last, chunks, bits }).collect();
        merge(&mut ranges);
        let mut of_level = [0; COST_LEVELS];
        for (at, class) in of_level.iter_mut().enumerate().skip(1) {
            // Levels that the sample has not met belong to the range above, or to the last one.
            let above = ranges.iter().position(|range| at <= range.last);
            *class = 1 + above.unwrap_or(ranges.len().saturating_sub(1)) as u8;
        }
        Self { of_level, lists }
    }

    /// The class of a chunk with so many bits and these symbols.
    #[inline(always)]
    pub fn of(&self, bits: u32, symbols: &[u8]) -> u8 {
        let listed = if self.lists { listed::class_of(bits, symbols) } else { None };
        listed.unwrap_or_else(|| self.of_level.get(level(bits)).copied().unwrap_or(0))
    }
}

/// Chunks that were looked at.
#[derive(Debug, Default)]
struct LevelSample {
    /// How many bits each has, and whether it can list its elements.
    chunks: Vec<(u32, bool)>,
    listed: listed::Estimate,
}

impl LevelSample {
    fn add(&mut self, bits: u32, symbols: &[u8], exponents: &[u8]) {
        let can_list = listed::class_of(bits, symbols).is_some();
        if can_list {
            self.listed.add(bits as usize, symbols, exponents);
        }
        self.chunks.push((bits, can_list));
    }
}

/// Merges neighbours, the cheapest first, until there are few enough and each is worth its name.
fn merge(ranges: &mut Vec<Range>) {
    loop {
        let prices = ranges.windows(2).map(|pair| pair[0].price(&pair[1]));
        let Some((at, price)) = prices.enumerate().min_by_key(|(_, price)| *price) else { return };
        if price > 0 && ranges.len() < CHUNK_CLASSES {
            return;
        }
        let second = ranges.remove(at + 1);
        let first = &mut ranges[at];
        *first =
            Range { last: second.last, chunks: first.chunks + second.chunks, bits: first.bits + second.bits };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_rise_with_the_bits() {
        let mut last = 0;
        for bits in 1..=1u32 << 14 {
            assert!(level(bits) == last || level(bits) == last + 1, "{bits}");
            last = level(bits);
        }
        assert!(last < COST_LEVELS);
    }

    #[test]
    fn few_classes_are_left_and_neighbours_of_no_worth_are_merged() {
        let range = |last: usize, chunks: u64, bits: u64| Range { last, chunks, bits: bits * chunks };
        let mut alike = vec![range(1, 1000, 1), range(2, 1000, 2)];
        merge(&mut alike);
        let mut apart = vec![range(1, 1000, 1), range(90, 1000, 2000)];
        merge(&mut apart);
        assert_eq!((alike.len(), apart.len()), (1, 2));
        let mut many: Vec<Range> = (1..100).map(|index| range(index, 50, 40 * index as u64)).collect();
        merge(&mut many);
        assert!(many.len() < CHUNK_CLASSES && many.last().unwrap().last == 99);
    }
}
