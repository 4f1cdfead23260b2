//! Frequency tables from a few numbers in place of a list of frequencies, which small tensors have no room
//! for. Weights of one scale are close to normally distributed, and those of unknown or mixed scale to a
//! mixture of a few normal distributions; a *shape* says which mixture.

use super::encode::ExponentParts;
use super::{CENTRE, JOINT_BITS};
use crate::entropy::rans::ESCAPE_SYMBOLS;
use crate::entropy::table::{FrequencyTable, Histogram, MAX_PRECISION, SYMBOLS, log2_1024};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// A mixture of three normal distributions, cut into the symbols of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) struct Shape {
    /// The standard deviation minus the expected magnitude, in 1/16 octaves.
    centre: i8,
    /// How much the narrower and the wider distribution weigh, of [`WEIGHTS`].
    narrow: u8,
    wide: u8,
    /// How far they are from the middle one, in half octaves, less 1.
    distance: u8,
    /// Octaves below the expectation that have symbols, less [`LEAST_LOW`].
    low: u8,
    /// Octaves from the expectation on that have symbols, as an index of [`HIGH`].
    high: u8,
}

/// The weights of a mixture sum to this.
const WEIGHTS: u32 = 48;
const LEAST_LOW: u32 = 2;
const HIGH: [u32; 4] = [2, 3, 4, 6];
/// The most symbols of a shape.
const MOST_SYMBOLS: usize = (2 + 15 + 6) << JOINT_BITS;
/// How many of the low 4 bits of a byte of the description a weight takes.
const WEIGHT_LIMIT: u8 = 15;
/// Bits of the probabilities in [`NORMAL`].
const NORMAL_BITS: u32 = 24;
/// Where the quarters of a mantissa begin, in 1/256 octaves.
const QUARTERS: [i32; 4] = [0, 82, 150, 207];
/// The code of an escape frequency of 0, and the largest other code.
const NO_ESCAPES: u8 = 255;
const LAST_ESCAPE_CODE: u8 = 71;

impl Default for Shape {
    /// The shape of weights of one scale that is known roughly.
    fn default() -> Self {
        Self { centre: 14, narrow: 2, wide: 4, distance: 1, low: 7, high: 2 }
    }
}

/// How often each of the four symbols of escapes occurs in a table, as a code in one byte: none, or three
/// bits after the leading one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) struct EscapeRate(u8);

impl EscapeRate {
    fn frequency(self) -> u32 {
        if self.0 == NO_ESCAPES { 0 } else { ((8 + u32::from(self.0 & 7)) << (self.0 >> 3)) >> 3 }
    }

    /// Whether there are any.
    pub fn has_escapes(self) -> bool {
        self.0 != NO_ESCAPES
    }

    /// For so many escapes among so many elements.
    pub fn fit(escapes: u64, total: u64) -> Self {
        if escapes == 0 {
            return Self(NO_ESCAPES);
        }
        let wanted = (escapes << (MAX_PRECISION - JOINT_BITS)) / total.max(1);
        let reached = (0..=LAST_ESCAPE_CODE).map(Self).find(|rate| u64::from(rate.frequency()) >= wanted);
        reached.unwrap_or(Self(LAST_ESCAPE_CODE))
    }

    pub fn write(self, out: &mut Vec<u8>) {
        out.push(self.0);
    }

    pub fn read(reader: &mut Reader) -> Result<Self> {
        let code = reader.u8()?;
        if code > LAST_ESCAPE_CODE && code != NO_ESCAPES {
            return Err(Error::corrupt("an escape rate that there is not"));
        }
        Ok(Self(code))
    }
}

impl Shape {
    /// Appends the shape.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.centre as u8);
        out.push(self.narrow | self.wide << 4);
        out.push(self.distance | self.low << 2 | self.high << 6);
    }

    /// Reads what [`Shape::write`] wrote.
    pub fn read(reader: &mut Reader) -> Result<Self> {
        let [centre, weights, rest] = reader.array()?;
        Ok(Self {
            centre: centre as i8,
            narrow: weights & WEIGHT_LIMIT,
            wide: weights >> 4,
            distance: rest & 3,
            low: rest >> 2 & 15,
            high: rest >> 6,
        })
    }

    fn low_octaves(self) -> u32 {
        LEAST_LOW + u32::from(self.low)
    }

    fn high_octaves(self) -> u32 {
        HIGH[usize::from(self.high & 3)]
    }

    /// The first symbol that is no escape, and how many there are.
    pub fn symbols(self) -> (usize, usize) {
        let first = (CENTRE as usize - self.low_octaves() as usize) << JOINT_BITS;
        (first, ((self.low_octaves() + self.high_octaves()) as usize) << JOINT_BITS)
    }

    /// The table for elements whose expectation is `phase` sixteenths of an octave above a power of two.
    pub fn table(self, phase: i32, escapes: EscapeRate) -> FrequencyTable {
        let escape = escapes.frequency();
        let (first, count) = self.symbols();
        let size = (1 << MAX_PRECISION) - ESCAPE_SYMBOLS as u32 * escape;
        let mut bounds = [0u32; MOST_SYMBOLS + 1];
        for (index, bound) in bounds.iter_mut().enumerate().take(count).skip(1) {
            let octave = (index >> JOINT_BITS) as i32 - self.low_octaves() as i32;
            let edge = 256 * octave + QUARTERS[index & 3] - 16 * (phase + i32::from(self.centre));
            *bound = ((u64::from(size) * u64::from(self.below(edge))) >> NORMAL_BITS) as u32;
        }
        bounds[count] = size;
        // Every symbol has a frequency: the tails push the bounds towards the middle.
        for index in 1..=count {
            bounds[index] = bounds[index].max(bounds[index - 1] + 1);
        }
        bounds[count] = size;
        for index in (0..count).rev() {
            bounds[index] = bounds[index].min(bounds[index + 1] - 1);
        }
        let mut frequencies = [0u16; SYMBOLS];
        frequencies[..ESCAPE_SYMBOLS].fill(escape as u16);
        for (frequency, bounds) in frequencies[first..].iter_mut().zip(bounds.windows(2)).take(count) {
            *frequency = (bounds[1] - bounds[0]) as u16;
        }
        FrequencyTable { precision: MAX_PRECISION, frequencies }
    }

    /// The probability of a magnitude below `edge` (in 1/256 octaves, over the standard deviation of the
    /// middle distribution), of `2^NORMAL_BITS`.
    fn below(self, edge: i32) -> u32 {
        let distance = 128 * (i32::from(self.distance) + 1);
        let (narrow, wide) = (u32::from(self.narrow), u32::from(self.wide));
        let sum = u64::from(WEIGHTS - narrow - wide) * u64::from(normal(edge))
            + u64::from(narrow) * u64::from(normal(edge + distance))
            + u64::from(wide) * u64::from(normal(edge - distance));
        (sum / u64::from(WEIGHTS)) as u32
    }

    /// About how many bits symbols with these counts take with the best shape.
    pub fn fit_roughly(histograms: &[Histogram]) -> u64 {
        let start = Self::default().with_range(histograms);
        start.with_centre(start.cost(histograms), histograms).1
    }

    /// A good shape for these counts, its rate of escapes, and the bits that they and what they code take,
    /// found with few tries.
    pub fn fit_quickly(histograms: &[Histogram]) -> (Self, EscapeRate, u64) {
        let start = Self::default().with_range(histograms);
        let centres = [12, 14, 16].map(|centre| Self { centre, ..start });
        let best = cheapest(centres, histograms);
        let widths = [(0, 0), (5, 8)].map(|(narrow, wide)| Self { narrow, wide, ..best.0 });
        let (shape, cost) = cheaper(best, cheapest(widths, histograms));
        (shape, shape.escape_rate(histograms), cost + 32)
    }

    /// This shape with the centre that makes it cheapest, and its cost; `cost` is what it costs without.
    fn with_centre(self, cost: u64, histograms: &[Histogram]) -> (Self, u64) {
        let (mut step, mut best) = (4i8, (self, cost));
        while step != 0 {
            let neighbours = [step, -step].map(|step| best.0.centre.saturating_add(step));
            let found = cheapest(neighbours.map(|centre| Self { centre, ..best.0 }), histograms);
            if found.1 < best.1 { best = found } else { step /= 2 }
        }
        best
    }

    /// The shape that codes symbols with these counts in the fewest bits, and how many. The counts are by
    /// context, the expectations of which are evenly spread over an octave.
    pub fn fit(histograms: &[Histogram]) -> (Self, u64) {
        let start = Self::default().with_range(histograms);
        let mut best = (start, start.cost(histograms));
        // One number after the other, as long as that helps.
        for _ in 0..3 {
            let before = best.1;
            best = best.0.with_centre(best.1, histograms);
            let shapes = [0, 2, 5, 9, 15].map(|wide| Self { wide, ..best.0 });
            best = cheaper(best, cheapest(shapes, histograms));
            let shapes = [0, 2, 5, 9, 15].map(|narrow| Self { narrow, ..best.0 });
            best = cheaper(best, cheapest(shapes, histograms));
            let shapes = [0, 1, 2, 3].map(|distance| Self { distance, ..best.0 });
            best = cheaper(best, cheapest(shapes, histograms));
            if best.1 + best.1 / 2000 > before {
                break;
            }
        }
        best
    }

    /// This shape with symbols for those octaves that are not too rare for a table.
    fn with_range(self, histograms: &[Histogram]) -> Self {
        let mut octaves = [0u64; SYMBOLS >> JOINT_BITS];
        for histogram in histograms {
            for (octave, counts) in octaves.iter_mut().zip(histogram.chunks_exact(1 << JOINT_BITS)) {
                *octave += counts.iter().map(|&count| u64::from(count)).sum::<u64>();
            }
        }
        let total: u64 = octaves.iter().sum();
        // A frequency of 1 in each of its four symbols overpays an octave below a sixth of that.
        let kept = |octave: &usize| (octaves[*octave] * 6) << (MAX_PRECISION - 2) >= total.max(1);
        let centre = CENTRE as usize;
        let first = (1..octaves.len()).find(kept).unwrap_or(centre);
        let last = (1..octaves.len()).rev().find(kept).unwrap_or(centre);
        let low = (centre.saturating_sub(first)).clamp(LEAST_LOW as usize, LEAST_LOW as usize + 15);
        let high = HIGH.iter().position(|&high| last < centre + high as usize).unwrap_or(HIGH.len() - 1);
        Self { low: low as u8 - LEAST_LOW as u8, high: high as u8, ..self }
    }

    /// The symbol's own escape: whether it is outside the range.
    pub fn escapes(self, symbol: u8) -> bool {
        let (first, count) = self.symbols();
        !(first..first + count).contains(&usize::from(symbol))
    }

    /// How many symbols with these counts are escapes, and how many there are.
    fn count_escapes(self, histograms: &[Histogram]) -> (u64, u64) {
        let (first, count) = self.symbols();
        let sum = |counts: &[u32]| counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        let total: u64 = histograms.iter().map(|histogram| sum(histogram)).sum();
        let inside: u64 = histograms.iter().map(|histogram| sum(&histogram[first..first + count])).sum();
        (total - inside, total)
    }

    /// The exponent parts that have symbols.
    pub fn parts(self) -> ExponentParts {
        let (first, count) = self.symbols();
        ExponentParts {
            first: (first >> JOINT_BITS) as i16,
            last: ((first + count) >> JOINT_BITS) as i16 - 1,
        }
    }

    /// The rate of escapes among symbols with these counts.
    pub fn escape_rate(self, histograms: &[Histogram]) -> EscapeRate {
        let (escapes, total) = self.count_escapes(histograms);
        EscapeRate::fit(escapes, total)
    }

    /// Bits of the symbols with these counts, an escape counting as a byte.
    fn cost(self, histograms: &[Histogram]) -> u64 {
        let (first, count) = self.symbols();
        let (escapes, total) = self.count_escapes(histograms);
        let rate = EscapeRate::fit(escapes, total);
        let bits = |frequency: u32| u64::from(MAX_PRECISION * 1024 - log2_1024(u64::from(frequency)));
        let mut cost = escapes * (bits(rate.frequency().max(1)) + 8 * 1024);
        for (context, histogram) in histograms.iter().enumerate() {
            let table = self.table((16 * context / histograms.len()) as i32, rate);
            let coded = histogram[first..first + count].iter().zip(&table.frequencies[first..]);
            cost +=
                coded.map(|(&count, &frequency)| u64::from(count) * bits(u32::from(frequency))).sum::<u64>();
        }
        cost / 1024
    }
}

/// The shape of these that codes the counts in the fewest bits.
fn cheapest<const N: usize>(shapes: [Shape; N], histograms: &[Histogram]) -> (Shape, u64) {
    let priced = shapes.map(|shape| (shape, shape.cost(histograms)));
    priced.into_iter().min_by_key(|(_, cost)| *cost).unwrap_or_default()
}

fn cheaper(a: (Shape, u64), b: (Shape, u64)) -> (Shape, u64) {
    if b.1 < a.1 { b } else { a }
}

/// The probability that a normally distributed number is smaller in magnitude than 2 to the power of `edge` /
/// 256 standard deviations, of `2^NORMAL_BITS`: straight lines between the points of [`NORMAL`].
fn normal(edge: i32) -> u32 {
    let place = (edge - NORMAL_FIRST).clamp(0, 16 * (NORMAL.len() as i32 - 1) - 1);
    let (index, part) = ((place >> 4) as usize, (place & 15) as u32);
    (NORMAL[index] * (16 - part) + NORMAL[index + 1] * part) >> 4
}

/// The first point of [`NORMAL`], in 1/256 octaves.
const NORMAL_FIRST: i32 = -12 * 256;

/// `2^24 erf(2^(i / 16 - 12) / sqrt 2)`.
const NORMAL: [u32; 241] = [
    3268, 3413, 3564, 3722, 3886, 4059, 4238, 4426, 4622, 4826, 5040, 5263, 5496, 5740, 5994, 6259, 6536,
    6826, 7128, 7443, 7773, 8117, 8476, 8852, 9244, 9653, 10_080, 10_527, 10_993, 11_479, 11_988, 12_518,
    13_073, 13_651, 14_256, 14_887, 15_546, 16_234, 16_953, 17_704, 18_487, 19_306, 20_161, 21_053, 21_985,
    22_959, 23_975, 25_037, 26_145, 27_303, 28_511, 29_774, 31_092, 32_468, 33_906, 35_407, 36_975, 38_612,
    40_321, 42_106, 43_971, 45_917, 47_950, 50_073, 52_290, 54_605, 57_023, 59_547, 62_184, 64_937, 67_812,
    70_814, 73_949, 77_223, 80_642, 84_212, 87_941, 91_834, 95_900, 100_146, 104_579, 109_209, 114_044,
    119_093, 124_366, 129_872, 135_622, 141_626, 147_896, 154_444, 161_281, 168_421, 175_877, 183_664,
    191_795, 200_285, 209_152, 218_411, 228_080, 238_177, 248_721, 259_731, 271_229, 283_236, 295_774,
    308_867, 322_539, 336_816, 351_724, 367_293, 383_550, 400_526, 418_253, 436_764, 456_094, 476_279,
    497_356, 519_365, 542_347, 566_345, 591_403, 617_569, 644_890, 673_418, 703_206, 734_309, 766_785,
    800_694, 836_098, 873_064, 911_659, 951_955, 994_026, 1_037_949, 1_083_804, 1_131_676, 1_181_653,
    1_233_823, 1_288_284, 1_345_133, 1_404_473, 1_466_410, 1_531_056, 1_598_525, 1_668_938, 1_742_418,
    1_819_095, 1_899_102, 1_982_578, 2_069_667, 2_160_516, 2_255_279, 2_354_115, 2_457_187, 2_564_664,
    2_676_718, 2_793_528, 2_915_276, 3_042_148, 3_174_337, 3_312_035, 3_455_440, 3_604_753, 3_760_174,
    3_921_907, 4_090_155, 4_265_118, 4_446_998, 4_635_988, 4_832_278, 5_036_051, 5_247_479, 5_466_721,
    5_693_921, 5_929_206, 6_172_678, 6_424_414, 6_684_462, 6_952_832, 7_229_494, 7_514_372, 7_807_338,
    8_108_202, 8_416_712, 8_732_539, 9_055_276, 9_384_429, 9_719_407, 10_059_519, 10_403_966, 10_751_838,
    11_102_107, 11_453_629, 11_805_141, 12_155_268, 12_502_527, 12_845_338, 13_182_043, 13_510_920,
    13_830_216, 14_138_173, 14_433_066, 14_713_243, 14_977_174, 15_223_494, 15_451_055, 15_658_968,
    15_846_648, 16_013_848, 16_160_679, 16_287_619, 16_395_505, 16_485_506, 16_559_079, 16_617_908,
    16_663_826, 16_698_737, 16_724_529, 16_742_999, 16_755_783, 16_764_308, 16_769_769, 16_773_115,
    16_775_070, 16_776_153, 16_776_721, 16_777_000, 16_777_128, 16_777_183, 16_777_205, 16_777_212,
    16_777_215, 16_777_216, 16_777_216, 16_777_216, 16_777_216, 16_777_216, 16_777_216, 16_777_216,
    16_777_216, 16_777_216,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_normal_distribution_costs_little_more_than_its_entropy() {
        // The counts of the default shape itself, which the fit should find again.
        let histograms: Vec<Histogram> = (0..8)
            .map(|context| {
                Shape::default().table(2 * context, EscapeRate(NO_ESCAPES)).frequencies.map(u32::from)
            })
            .collect();
        let entropy: u64 = histograms.iter().map(|counts| crate::entropy::table::entropy_bits(counts)).sum();
        let (_, cost) = Shape::fit(&histograms);
        assert!(cost < entropy + entropy / 200, "{cost} {entropy}");
    }

    proptest! {
        #[test]
        fn any_shape_is_a_table(bytes: [u8; 3], phase in 0..16, escape in 0u8..=LAST_ESCAPE_CODE) {
            let mut reader = Reader::new(&bytes, "test");
            let shape = Shape::read(&mut reader).unwrap();
            let mut out = Vec::new();
            shape.write(&mut out);
            prop_assert_eq!(&out[..], &bytes[..]);
            for rate in [EscapeRate(escape), EscapeRate(NO_ESCAPES)] {
                let table = shape.table(phase, rate);
                prop_assert_eq!(table.frequencies.iter().map(|&f| u32::from(f)).sum::<u32>(), 1 << MAX_PRECISION);
                let (first, count) = shape.symbols();
                prop_assert!(table.frequencies[first..first + count].iter().all(|&f| f > 0));
            }
        }
    }
}
