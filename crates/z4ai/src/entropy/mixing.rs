//! Probabilities of single bits that learn: counters per context, and a mixer that weighs what two of them say about the same bit. All arithmetic is on
//! integers, so that both sides agree on every machine.

/// Counters that a mixer weighs.
pub(crate) const INPUTS: usize = 2;

/// Bits of the probabilities that are coded with.
pub(crate) const PROBABILITY_BITS: u32 = 12;
/// How far these stay from 0 and 1.
const MARGIN: u32 = 16;

/// The probability of a 1 in one context, of 2^16 (the upper half), and how often it was updated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter(u32);

/// 2^16 / (updates + 4).
const RATES: [i32; 256] = {
    let mut rates = [0; 256];
    let mut updates = 0;
    while updates < rates.len() {
        rates[updates] = (1 << 16) / (updates as i32 + 4);
        updates += 1;
    }
    rates
};

impl Counter {
    pub const NEW: Self = Self(1 << 31);

    /// The log odds of a 1, in 1/256.
    #[inline(always)]
    pub fn odds(self) -> i32 {
        i32::from(STRETCH[(self.0 >> 20) as usize])
    }

    #[inline(always)]
    pub fn update(&mut self, bit: bool) {
        let (probability, updates) = ((self.0 >> 16) as i32, self.0 & 255);
        let difference = (-i32::from(bit) & 0xffff) - probability;
        // 16 bits times a rate of at most 14.
        let moved = probability + ((difference * RATES[updates as usize]) >> 16);
        self.0 = (moved as u32) << 16 | (updates + u32::from(updates < 255));
    }
}

/// What each of the inputs is worth, in 1/2^16.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights([i32; INPUTS]);

/// No input is worth more than this.
const WEIGHT_LIMIT: i32 = 1 << 18;

impl Weights {
    pub const NEW: Self = Self([1 << 15; INPUTS]);

    /// The probability of a 1, of 2^16, from what counters say.
    #[inline(always)]
    pub fn mix(self, odds: [i32; INPUTS]) -> u32 {
        let sum = (odds[0] * self.0[0] + odds[1] * self.0[1]) >> 16;
        u32::from(SQUASH[(sum.clamp(-2047, 2047) + 2048) as usize & 4095])
    }

    /// Learns from a bit, of which counters with these odds gave this probability.
    #[inline(always)]
    pub fn update(&mut self, odds: [i32; INPUTS], probability: u32, bit: bool) {
        let error = (i32::from(bit) << 16) - probability as i32;
        for (weight, odds) in self.0.iter_mut().zip(odds) {
            *weight = (*weight + ((odds * error) >> 14)).clamp(-WEIGHT_LIMIT, WEIGHT_LIMIT);
        }
    }
}

/// 2^16 / (1 + e^-x) for x from -8 to 8 in halves.
const LOGISTIC: [u32; 33] = [
    22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971, 7812, 11955, 17625, 24743, 32768, 40793,
    47911, 53581, 57724, 60565, 62428, 63615, 64357, 64816, 65097, 65269, 65374, 65438, 65476, 65500, 65514,
];

/// The probability for log odds in 1/256, from -2047 to 2047: between the points of the table, straight lines.
const fn squash(odds: i32) -> u32 {
    let place = ((odds >> 7) + 16) as usize & 31;
    let part = (odds & 127) as u32;
    (LOGISTIC[place] * (128 - part) + LOGISTIC[place + 1] * part + 64) >> 7
}

/// The probabilities of all log odds from -2048 on, kept from 0 and 1.
static SQUASH: [u16; 4096] = {
    let (least, most) = (MARGIN << 4, ((1 << PROBABILITY_BITS) - MARGIN) << 4);
    let mut probabilities = [least as u16; 4096];
    let mut index = 1;
    while index < probabilities.len() {
        let probability = squash(index as i32 - 2048);
        let probability = if probability < least { least } else { probability };
        probabilities[index] = if probability > most { most } else { probability } as u16;
        index += 1;
    }
    probabilities
};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_one_counter_sees_is_learnt() {
        let (mut blind, mut seeing, mut weights) = (Counter::NEW, [Counter::NEW; 8], Weights::NEW);
        let mut cost = 0.0;
        for index in 0..8000 {
            let bit = index % 8 == 3;
            let odds = [blind.odds(), seeing[index % 8].odds()];
            let mixed = weights.mix(odds);
            let probability = f64::from(mixed) / 65536.0;
            cost -= if bit { probability } else { 1.0 - probability }.log2();
            weights.update(odds, mixed, bit);
            blind.update(bit);
            seeing[index % 8].update(bit);
        }
        assert!(cost < 150.0, "{cost}");
    }

    #[test]
    fn logarithms_of_odds_are_monotonic() {
        assert!(STRETCH.is_sorted());
        assert!(STRETCH[2047] <= 0 && STRETCH[2048] >= 0);
    }
}
