//! Chunks in which a few elements have the smallest difference, one step towards zero, and the others none,
//! as decay leaves them. Such a chunk is coded enumeratively: as one number, the rank of the set of changed
//! elements among all sets of that size. That is shorter than a symbol for each element, and elements without
//! a difference need no decoding.

use super::{CHUNK_CLASSES, EXPONENT_NUMBERS, REFERENCE_CHUNK};
use crate::entropy::bits::{BitReader, BitWriter};
use crate::entropy::table::{entropy_bits, log2_1024};
use crate::error::{Error, Result};

/// The most elements of such a chunk that have a difference.
pub(super) const MOST_LISTED: usize = 8;
/// The class of chunks with one such element; more elements have the classes that follow.
const FIRST_CLASS: u8 = CHUNK_CLASSES as u8;

/// `SETS[k][n]` is how many sets of *k* there are of *n*.
static SETS: [[u64; REFERENCE_CHUNK + 1]; MOST_LISTED + 1] = {
    let mut sets = [[0; REFERENCE_CHUNK + 1]; MOST_LISTED + 1];
    let mut all = 0;
    while all <= REFERENCE_CHUNK {
        sets[0][all] = 1;
        let mut size = 1;
        while size <= MOST_LISTED && all > 0 {
            sets[size][all] = sets[size][all - 1] + sets[size - 1][all - 1];
            size += 1;
        }
        all += 1;
    }
    sets
};

/// How many elements a chunk lists, if its class is one of those that do.
pub(super) fn count_of(class: u8) -> Option<usize> {
    let count = usize::from(class.checked_sub(FIRST_CLASS)?) + 1;
    (count <= MOST_LISTED).then_some(count)
}

/// The class that a chunk with these symbols, whose differences have so many bits in all, may have.
#[inline(always)]
pub(super) fn class_of(bits: u32, symbols: &[u8]) -> Option<u8> {
    let few = bits > 0 && bits as usize <= MOST_LISTED;
    (few && symbols.iter().all(|&symbol| symbol <= 1)).then(|| FIRST_CLASS - 1 + bits as u8)
}

/// How the number of a set of so many elements is cut: the bits of the lower part, which is written as it is,
/// and how many values the upper part, or rest, has: no more than 256.
fn parts_of(count: usize) -> (u32, u64) {
    let last = SETS.get(count).map_or(0, |sets| sets[REFERENCE_CHUNK] - 1);
    let low = (u64::BITS - last.leading_zeros()).saturating_sub(8);
    (low, (last >> low) + 1)
}

/// Sets whose rests are written as one number in a mixed radix, so that rounding up to whole bits costs each
/// only a seventh of a bit at most. Seven of 256 values fit 56 bits.
const SETS_TOGETHER: usize = 7;

/// The bits that every number below `range` fits.
fn width(range: u64) -> u32 {
    u64::BITS - (range - 1).leading_zeros()
}

/// The number of the set of elements whose symbol is 1 and not 0; there are no more than [`MOST_LISTED`].
fn number(symbols: &[u8; REFERENCE_CHUNK]) -> u64 {
    let (mut number, mut sets) = (0, SETS[1..].iter());
    for (start, word) in (0..).step_by(8).zip(symbols.as_chunks().0) {
        let mut ones = u64::from_le_bytes(*word);
        while ones != 0 {
            let place = start + ones.trailing_zeros() as usize / 8;
            number += sets.next().map_or(0, |sets| sets[place % REFERENCE_CHUNK]);
            ones &= ones - 1;
        }
    }
    number
}

/// The places of the set with this number and so many elements, the last first.
pub(super) fn places(mut number: u64, count: usize) -> Result<[usize; MOST_LISTED]> {
    let mut end = REFERENCE_CHUNK;
    let mut places = [0; MOST_LISTED];
    for (sets, place) in SETS[1..=count.min(MOST_LISTED)].iter().rev().zip(&mut places) {
        // The highest place below which no more sets are than this number says.
        let next = sets[..end].partition_point(|&sets| sets <= number);
        *place = next.checked_sub(1).ok_or_else(no_set)?;
        number -= sets[*place];
        end = *place;
    }
    if number == 0 { Ok(places) } else { Err(no_set()) }
}

/// Appends the sets of chunks with these classes, of which those that list their elements have these symbols,
/// as a bit stream.
pub(super) fn write(classes: &[u8], symbols: &[u8], out: &mut Vec<u8>) {
    let counts: Vec<usize> = classes.iter().filter_map(|&class| count_of(class)).collect();
    let mut bits = BitWriter::new(out);
    let mut put = |value: u64, width: u32| {
        bits.put(value as u32, width.min(32));
        bits.put((value >> 32) as u32, width.saturating_sub(32));
    };
    let numbers: Vec<u64> = symbols.as_chunks().0.iter().map(number).collect();
    for (counts, numbers) in counts.chunks(SETS_TOGETHER).zip(numbers.chunks(SETS_TOGETHER)) {
        let sets = || counts.iter().map(|&count| parts_of(count)).zip(numbers);
        let (mut rests, mut range) = (0, 1);
        for ((low, radix), number) in sets() {
            rests += (number >> low) * range;
            range *= radix;
        }
        put(rests, width(range));
        for ((low, _), number) in sets() {
            put(number & ((1 << low) - 1), low);
        }
    }
    bits.finish();
}

/// Reads what [`write`] wrote: the number of each set.
pub(super) fn read(classes: &[u8], bytes: &[u8]) -> Result<Vec<u64>> {
    let counts: Vec<usize> = classes.iter().filter_map(|&class| count_of(class)).collect();
    let mut numbers = Vec::with_capacity(counts.len());
    let (mut bits, mut taken) = (BitReader::new(bytes), 0);
    let mut get = |width: u32| -> Result<u64> {
        taken += u64::from(width);
        let low = bits.get(width.min(32))?;
        Ok(u64::from(bits.get(width.saturating_sub(32))?) << 32 | u64::from(low))
    };
    for counts in counts.chunks(SETS_TOGETHER) {
        let mut rests = get(width(counts.iter().map(|&count| parts_of(count).1).product()))?;
        for (low, radix) in counts.iter().map(|&count| parts_of(count)) {
            numbers.push((rests % radix) << low | get(low)?);
            rests /= radix;
        }
        if rests > 0 {
            return Err(no_set());
        }
    }
    let padding = (taken.next_multiple_of(8) - taken) as u32;
    if taken.div_ceil(8) == bytes.len() as u64 && bits.get(padding)? == 0 {
        return Ok(numbers);
    }
    Err(Error::corrupt("the sets of a delta do not end where they should"))
}

fn no_set() -> Error {
    Error::corrupt("a set of elements that there is not")
}

/// About how many bits the set of so many elements takes, in 1/1024 bits.
pub(super) fn cost_1024(count: usize) -> u64 {
    SETS.get(count)
        .map_or(0, |sets| u64::from(log2_1024(sets[REFERENCE_CHUNK])) + 1024 / (2 * SETS_TOGETHER as u64))
}

/// What chunks would take that could list their elements.
#[derive(Debug, Clone)]
pub(super) struct Estimate {
    chunks: [u32; MOST_LISTED],
    /// How many elements have each of the two symbols, by the number of elements and of the exponent.
    symbols: [[[u32; 2]; EXPONENT_NUMBERS]; MOST_LISTED],
}

impl Default for Estimate {
    fn default() -> Self {
        Self { chunks: [0; MOST_LISTED], symbols: [[[0; 2]; EXPONENT_NUMBERS]; MOST_LISTED] }
    }
}

impl Estimate {
    /// Takes a chunk into account that could.
    pub fn add(&mut self, count: usize, symbols: &[u8], exponents: &[u8]) {
        let Some(cells) = self.symbols.get_mut(count.wrapping_sub(1)) else { return };
        self.chunks[count - 1] += 1;
        for (&symbol, &exponent) in symbols.iter().zip(exponents) {
            cells[usize::from(exponent) % EXPONENT_NUMBERS][usize::from(symbol & 1)] += 1;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.chunks.iter_mut().zip(&other.chunks).for_each(|(mine, theirs)| *mine += theirs);
        let mine = self.symbols.as_flattened_mut().as_flattened_mut();
        let theirs = other.symbols.as_flattened().as_flattened();
        mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Whether sets take fewer bits than symbols, whose contexts know the exponents, or hardly more: they are
    /// decoded faster. Sets need the exact number of elements as the class; chunks with symbols may name it
    /// or not.
    pub fn favours_sets(&self) -> bool {
        let classes = 1024 * entropy_bits(&self.chunks);
        let sets = (1..).zip(&self.chunks).map(|(count, chunks)| u64::from(*chunks) * cost_1024(count));
        let mut together = [[0; 2]; EXPONENT_NUMBERS];
        for cells in &self.symbols {
            let cells = cells.as_flattened().iter();
            together.as_flattened_mut().iter_mut().zip(cells).for_each(|(sum, count)| *sum += count);
        }
        let bits = |cells: &[[u32; 2]]| cells.iter().map(|&counts| symbols_1024(counts)).sum::<u64>();
        let symbols = (classes + bits(self.symbols.as_flattened())).min(bits(&together));
        self.chunks.iter().any(|&chunks| chunks > 0) && classes + sets.sum::<u64>() <= symbols + symbols / 256
    }
}

/// The entropy of so many zeros and ones, in 1/1024 bits. Ones are rare, so the logarithm of the share of
/// zeros is near 0, where rounding would spoil it: it is computed from its series.
fn symbols_1024([zeros, ones]: [u32; 2]) -> u64 {
    /// 1024 / ln(2).
    const NATURAL: u64 = 1477;
    let (all, ones) = (u64::from(zeros) + u64::from(ones), u64::from(ones));
    if ones == 0 {
        return 0;
    }
    let of_ones = ones * u64::from(log2_1024(all) - log2_1024(ones));
    let square = NATURAL * ones * ones / all;
    of_ones + NATURAL * ones - square / 2 - square * ones / (6 * all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_have_as_many_bits_as_they_need() {
        let parts: Vec<_> = (1..=MOST_LISTED).map(parts_of).collect();
        let low = [(0, 256), (7, 255), (14, 169), (20, 167), (26, 132), (31, 172), (36, 192), (41, 187)];
        assert_eq!(parts, low);
        assert_eq!((class_of(0, &[0]), class_of(9, &[1; 9]), class_of(2, &[0, 2])), (None, None, None));
        assert_eq!((class_of(8, &[1; 8]), count_of(23), count_of(24)), (Some(23), Some(8), None));
    }

    #[test]
    fn numbers_beyond_the_last_set_are_refused() {
        let last = SETS[2][REFERENCE_CHUNK] - 1;
        assert_eq!(places(last, 2).unwrap()[..2], [255, 254]);
        assert!(places(last + 1, 2).is_err());
        // A rest of 255 where there are 255.
        assert!(read(&[17], &[0xff, 0]).is_err());
        assert!(read(&[17], &[0xfe, 0]).is_ok());
    }

    #[test]
    fn costs_are_close_to_the_entropy() {
        for (zeros, ones) in [(2550, 10), (100_000, 391), (255, 1), (1000, 31), (900, 100)] {
            let (all, rare) = (f64::from(zeros + ones), f64::from(ones));
            let exact = rare * (all / rare).log2() + f64::from(zeros) * (all / f64::from(zeros)).log2();
            let cost = symbols_1024([zeros, ones]) as f64 / 1024.0;
            assert!((cost / exact - 1.0).abs() < 0.002, "{zeros} {ones}: {cost} {exact}");
        }
    }

    #[test]
    fn scattered_elements_are_listed_and_foreseeable_ones_are_not() {
        let estimate = |exponent: fn(bool) -> u8| {
            let mut estimate = Estimate::default();
            for chunk in 0..500usize {
                let symbols: Vec<u8> = (0..REFERENCE_CHUNK)
                    .map(|place| u8::from(place == chunk * 31 % REFERENCE_CHUNK))
                    .collect();
                let exponents: Vec<u8> = symbols.iter().map(|&symbol| exponent(symbol == 1)).collect();
                estimate.add(1, &symbols, &exponents);
            }
            estimate
        };
        assert!(estimate(|_| 3).favours_sets());
        assert!(!estimate(|moves| if moves { 9 } else { 3 }).favours_sets());
        assert!(!Estimate::default().favours_sets());
    }

    #[test]
    fn streams_of_other_lengths_are_refused() {
        for (bytes, fits) in [(&[3, 0][..], true), (&[3, 0, 0], false), (&[3], false), (&[3, 0x80], false)] {
            assert_eq!(read(&[0, 17, 3], bytes).is_ok(), fits, "{bytes:?}");
        }
        assert!(read(&[0, 1], &[]).is_ok());
    }

    proptest! {
        #[test]
        fn sets_survive(chunks in prop::collection::vec(prop::collection::btree_set(0..REFERENCE_CHUNK, 1..=MOST_LISTED), 0..50)) {
            let has = |place: usize, chunk: usize| u8::from(chunks[chunk].contains(&place));
            let symbols: Vec<u8> = (0..chunks.len() * REFERENCE_CHUNK).map(|at| has(at % REFERENCE_CHUNK, at / REFERENCE_CHUNK)).collect();
            let classes: Vec<u8> = chunks.iter().map(|set| FIRST_CLASS - 1 + set.len() as u8).collect();
            let mut bytes = Vec::new();
            write(&classes, &symbols, &mut bytes);
            let numbers = read(&classes, &bytes).unwrap();
            prop_assert_eq!(numbers.len(), chunks.len());
            for (number, set) in numbers.into_iter().zip(&chunks) {
                prop_assert!(places(number, set.len()).unwrap()[..set.len()].iter().eq(set.iter().rev()));
            }
        }
    }
}
