//! Probabilities of single bits that are counted: tallies per context, and what two of them say about the
//! same bit, taken together. All arithmetic is on integers, so that both sides agree on every machine.

/// Bits of the probabilities that are coded with.
pub(crate) const PROBABILITY_BITS: u32 = 12;
/// How far these stay from 0 and 1. At maximum effort: half and double change less than 0.001 %.
const PROBABILITY_MARGIN: u32 = 16;

/// How many ones a context had, and how many bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    ones: u32,
    seen: u32,
}

/// A tally of more bits than this forgets half of them. No more than these are added at a time. At maximum
/// effort: half and double change less than 0.001 %.
const TALLY_MEMORY: u32 = 4096;
/// How many bits the probability that is assumed at first counts for. At maximum effort: half and double of
/// either change about 0.001 %.
const PRIOR_ODDS: u32 = 8;
const PRIOR_CHANCE: u32 = 16;

impl Tally {
    pub const NEW: Self = Self { ones: 0, seen: 0 };

    /// Adds so many ones among so many bits.
    #[inline(always)]
    pub fn add(&mut self, ones: u32, seen: u32) {
        let (ones, seen) = (self.ones + ones, self.seen + seen);
        let forgets = u32::from(seen > TALLY_MEMORY);
        (self.ones, self.seen) = (ones >> forgets, seen >> forgets);
    }

    /// The log odds of a 1, in 1/256, where nothing was known.
    pub fn odds(self) -> i32 {
        i32::from(STRETCH[(self.probability(1 << 15, PRIOR_ODDS) >> 4) as usize & 4095])
    }

    /// The probability of a 1 in 1/2^[`PROBABILITY_BITS`]. The prior is what two tallies say whose log odds
    /// have this [`sum_of`].
    #[inline(always)]
    pub fn chance(self, sum: usize) -> u32 {
        let probability = self.probability(ASSUMED[sum % SUMS], PRIOR_CHANCE) >> (16 - PROBABILITY_BITS);
        probability.clamp(PROBABILITY_MARGIN, (1 << PROBABILITY_BITS) - PROBABILITY_MARGIN)
    }

    /// The probability of a 1, of 2^16.
    #[inline(always)]
    fn probability(self, assumed: u32, weight: u32) -> u32 {
        ((self.ones << 16) + assumed * weight) / (self.seen + weight)
    }
}

/// 2^16 / (1 + e^-x) for x from -8 to 8 in halves.
const LOGISTIC: [u32; 33] = [
    22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971, 7812, 11955, 17625, 24743, 32768, 40793,
    47911, 53581, 57724, 60565, 62428, 63615, 64357, 64816, 65097, 65269, 65374, 65438, 65476, 65500, 65514,
];

/// The probability for log odds in 1/256, from -2047 to 2047: between the points of the table, straight
/// lines.
const fn squash(odds: i32) -> u32 {
    let place = ((odds >> 7) + 16) as usize & 31;
    let part = (odds & 127) as u32;
    (LOGISTIC[place] * (128 - part) + LOGISTIC[place + 1] * part + 64) >> 7
}

/// By the top 12 bits of a probability: the least log odds that reach the middle of that interval.
static STRETCH: [i16; 4096] = {
    let mut stretch = [0; 4096];
    let (mut odds, mut index) = (-2047, 0);
    while index < stretch.len() {
        while odds < 2047 && squash(odds) < 16 * index as u32 + 8 {
            odds += 1;
        }
        stretch[index] = odds as i16;
        index += 1;
    }
    stretch
};

/// How many log odds the sums of two are told apart as, and how many of their units each stands for.
pub(crate) const SUMS: usize = 64;
pub(crate) const SUM_BITS: u32 = 6;

/// The number of the sum of what two tallies say.
#[inline(always)]
pub(crate) fn sum_of(first: i32, second: i32) -> usize {
    (((first + second) >> SUM_BITS) + SUMS as i32 / 2).clamp(0, SUMS as i32 - 1) as usize
}

/// The log odds that two tallies with this [`sum_of`] stand for. They often count the same signs, so these
/// are less than the sum.
const fn assumed_odds(sum: usize) -> i32 {
    let middle = (((sum % SUMS) as i32 - SUMS as i32 / 2) << SUM_BITS) + (1 << (SUM_BITS - 1));
    (middle * 11) >> 4
}

/// The probabilities of these odds.
static ASSUMED: [u32; SUMS] = {
    let mut assumed = [0; SUMS];
    let mut sum = 0;
    while sum < SUMS {
        assumed[sum] = squash(assumed_odds(sum));
        sum += 1;
    }
    assumed
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_one_tally_sees_is_learnt() {
        let (mut blind, mut seeing, mut sums) = (Tally::NEW, [Tally::NEW; 8], [Tally::NEW; SUMS]);
        let mut cost = 0.0;
        for index in 0..8000 {
            let bit = index % 8 == 3;
            let sum = sum_of(blind.odds(), seeing[index % 8].odds());
            let probability = f64::from(sums[sum].chance(sum)) / 4096.0;
            cost -= if bit { probability } else { 1.0 - probability }.log2();
            sums[sum].add(u32::from(bit), 1);
            blind.add(u32::from(bit), 1);
            seeing[index % 8].add(u32::from(bit), 1);
        }
        assert!(cost < 220.0, "{cost}");
    }

    #[test]
    fn logarithms_of_odds_are_monotonic() {
        assert!(STRETCH.is_sorted());
        assert!(STRETCH[2047] <= 0 && STRETCH[2048] >= 0);
    }

    #[test]
    fn no_tally_is_certain() {
        for ones in [0, TALLY_MEMORY] {
            let mut tally = Tally::NEW;
            (0..100).for_each(|_| tally.add(ones, TALLY_MEMORY));
            assert!((PROBABILITY_MARGIN..=4096 - PROBABILITY_MARGIN).contains(&tally.chance(SUMS / 2)));
            assert!(tally.odds().abs() <= 2047);
        }
    }
}
