//! The row length of elements that came without a shape. Columns of a matrix differ in scale, so elements a
//! row apart are large or small together more often than others; it is enough to compare one bit of each.

use super::fit::least_cost;
use crate::arch;
use crate::dtype::FloatLayout;
use crate::threads;

/// Elements that sections must have for their rows to be worth the search. Unshaped: half or double changes
/// no size.
const SMALLEST_PERIODIC: usize = 1 << 21;
/// Elements that are compared with later ones, and how much later at most. Nearly all rows have a multiple of
/// eight elements, so that bits can be compared by the byte. Round numbers.
const PERIOD_SAMPLE: usize = 3 << 13;
const LONGEST_PERIOD: usize = 1 << 13;
const PERIOD_STEP: usize = 8;
/// Elements that the median is taken of. Unshaped: half or double changes no size.
const PERIOD_MEDIAN_SAMPLE: usize = 1 << 11;
/// One in so many comparisons must agree beyond what they do a little less and a little more apart; chance
/// makes it one in 80 somewhere. Unshaped: half or double changes no size.
const TELLING_AGREEMENT: u32 = 50;
/// Lengths that are tried in any case: rows may differ in scale although columns do not.
const USUAL_PERIODS: [usize; 3] = [256, 384, 768];
/// Elements on which row lengths are tried. Unshaped: half or double changes no size.
const PERIOD_TRIAL: usize = 1 << 17;
/// One part in so many is what a row length must save of the exponents' bits. Unshaped: half +0.30 %, double
/// no gain.
const PERIOD_GAIN: u64 = 64;

/// The row length that makes the elements cheapest to code, if there is one that is worth it.
pub(crate) fn find_row_length(layout: FloatLayout, bytes: &[u8]) -> Option<usize> {
    let elements = bytes.len() / layout.width;
    if elements < SMALLEST_PERIODIC {
        return None;
    }
    let large = large_elements(layout, bytes);
    let candidates: Vec<Option<usize>> =
        candidates(&agreements(&large)).into_iter().chain(USUAL_PERIODS).map(Some).chain([None]).collect();
    let costs = threads::map(candidates.into_iter(), |row_length| {
        // Rows begin with the section.
        let unit = row_length.unwrap_or(1);
        let start = (elements - PERIOD_TRIAL) / 2 / unit * unit * layout.width;
        let tried = &bytes[start..start + PERIOD_TRIAL * layout.width];
        least_cost(layout, tried, row_length).map(|cost| (cost, row_length))
    });
    let mut costs = costs.into_iter().flatten();
    let (without, _) = costs.next_back()?;
    let (least, best) = costs.min()?;
    if least < without / PERIOD_GAIN * (PERIOD_GAIN - 1) { best } else { None }
}

/// A bit for each of some elements from the middle: whether it is larger than most.
fn large_elements(layout: FloatLayout, bytes: &[u8]) -> Vec<u8> {
    const ELEMENTS: usize = PERIOD_SAMPLE + LONGEST_PERIOD;
    let start = (bytes.len() / layout.width - ELEMENTS) / 2 * layout.width;
    let mut heads = vec![0u16; ELEMENTS];
    arch::vectorised(
        #[inline(always)]
        || {
            layout.read_heads(&bytes[start..start + ELEMENTS * layout.width], &mut heads);
            heads.iter_mut().for_each(|head| *head &= 0x7fff);
        },
    );
    // An odd stride does not stay in one column.
    let stride = (ELEMENTS / PERIOD_MEDIAN_SAMPLE) | 1;
    let mut sample: Vec<u16> = heads.iter().step_by(stride).copied().collect();
    let middle = sample.len() / 2;
    let median = *sample.select_nth_unstable(middle).1;
    let mut large = vec![0u8; ELEMENTS];
    arch::vectorised(
        #[inline(always)]
        || large.iter_mut().zip(&heads).for_each(|(large, &head)| *large = u8::from(head > median)),
    );
    // The product has bit n of the first byte of eight, and so on, in its last byte.
    let byte = |large: &[u8; PERIOD_STEP]| {
        (u64::from_le_bytes(*large).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    };
    large.as_chunks().0.iter().map(byte).collect()
}

/// How many of the compared elements agree with those so many steps later.
fn agreements(large: &[u8]) -> Vec<u32> {
    /// Steps that a thread takes at a time.
    const PERIODS_PER_TASK: usize = 128;
    let counts = threads::map((0..=LONGEST_PERIOD / PERIOD_STEP).step_by(PERIODS_PER_TASK), |first| {
        let last = (first + PERIODS_PER_TASK).min(LONGEST_PERIOD / PERIOD_STEP + 1);
        arch::vectorised(
            #[inline(always)]
            || (first..last).map(|steps| agreement(large, steps)).collect::<Vec<u32>>(),
        )
    });
    counts.concat()
}

#[inline(always)]
fn agreement(large: &[u8], steps: usize) -> u32 {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let (first, _) = large[..PERIOD_SAMPLE / PERIOD_STEP].as_chunks::<8>();
    let (later, _) = large[steps..].as_chunks::<8>();
    first.iter().zip(later).map(|(first, later)| (!(word(first) ^ word(later))).count_ones()).sum()
}

/// The length that stands out most, and the shortest that stands out nearly as much: lengths of which it is a
/// part do too.
fn candidates(agreements: &[u32]) -> Vec<usize> {
    // Twice what a length has beyond the mean of its neighbours.
    let beyond = |steps: usize| {
        let neighbours = agreements[steps - 1] + agreements[steps + 1];
        (2 * agreements[steps]).saturating_sub(neighbours)
    };
    let lengths = 2..agreements.len() - 1;
    let Some(most) = lengths.clone().max_by_key(|&steps| (beyond(steps), std::cmp::Reverse(steps))) else {
        return Vec::new();
    };
    if beyond(most) * TELLING_AGREEMENT < 2 * PERIOD_SAMPLE as u32 {
        return Vec::new();
    }
    let shortest = lengths.clone().find(|&steps| 3 * beyond(steps) > 2 * beyond(most)).unwrap_or(most);
    let mut found = vec![shortest * PERIOD_STEP, most * PERIOD_STEP];
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    /// Rows whose columns differ in scale by as many octaves as `spread` says, at most.
    fn matrix(row: usize, spread: u32) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            state >> 16
        };
        let columns: Vec<u32> = (0..row).map(|_| next() % (spread + 1)).collect();
        let element = |index: usize| {
            let exponent = 110 + columns[index % row] + next() % 4;
            (exponent << 7 | next() & 0x7f) as u16
        };
        (0..SMALLEST_PERIODIC + 1000).map(element).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn rows_are_found_by_their_columns() {
        let layout = Dtype::Bf16.float_layout().unwrap();
        for row in [64, 576, 768, 4096] {
            let found = find_row_length(layout, &matrix(row, 2));
            // Several rows at once are as good.
            assert!(found.is_some_and(|found| found % row == 0), "{row} {found:?}");
            assert_eq!(find_row_length(layout, &matrix(row, 2)), found);
        }
        assert_eq!(find_row_length(layout, &matrix(768, 0)), None);
        assert_eq!(find_row_length(layout, &matrix(768, 2)[..SMALLEST_PERIODIC]), None);
    }
}
