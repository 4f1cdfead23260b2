//! The first look at a tensor: some of its rows, or of its columns, read where they lie, since nearly all
//! tensors are refused by a few hundred elements.

use super::format::Format;
use super::levels::Levels;
use super::scale_search::QuantisedGroup;
use std::borrow::Cow;
use std::marker::PhantomData;

/// Elements of a run that is tested first, and of the smallest group that is looked for: NVFP4's. Where many
/// elements are zero a run is up to four times as long.
pub(super) const RUN: usize = 16;
const LONGEST_RUN: usize = 4 * RUN;
/// Elements other than zero that a run has on average: fewer lie on some grid whatever they are. Structured:
/// half +0.12 % where 80 % are zeros, double no gain.
const TELLING_ELEMENTS: usize = 6;
/// Runs tested first. Structured: half or double changes no size.
const RUNS: usize = 12;
/// Elements that the comparison of group sizes looks at. Structured: half or double changes no size.
pub(super) const SEARCHED_ELEMENTS_OF_GRID: usize = 1 << 14;

/// Evenly spread lines of a tensor: whole rows or columns.
pub(super) struct SampledLines<'a, F> {
    elements: &'a [u8],
    /// How many lines there are, and the elements from the start of one to that of the next.
    count: usize,
    step: usize,
    /// Elements of each line, and how far they are apart.
    pub length: usize,
    stride: usize,
    format: PhantomData<F>,
}

impl<'a, F: Format> SampledLines<'a, F> {
    /// Some rows of a tensor that has one at least.
    pub fn rows(elements: &'a [u8], row_length: usize) -> Self {
        let (count, every) = spread(elements.len() / F::WIDTH / row_length, row_length);
        let step = every * row_length;
        Self { elements, count, step, length: row_length, stride: 1, format: PhantomData }
    }

    /// Some columns of a tensor of whole rows.
    pub fn columns(elements: &'a [u8], row_length: usize) -> Self {
        let length = elements.len() / F::WIDTH / row_length;
        let (count, step) = spread(row_length, length);
        Self { elements, count, step, length, stride: row_length, format: PhantomData }
    }

    /// The elements at every `stride`-th place from `start` on.
    fn elements(&self, start: usize, stride: usize) -> impl Iterator<Item = &'a [u8]> + use<'a, F> {
        self.elements.chunks_exact(F::WIDTH).skip(start).step_by(stride)
    }

    /// Elements of a run that tells whether there is a grid.
    pub fn run_length(&self) -> usize {
        // One element in three is enough to tell how many are zero.
        const EVERY: usize = 3;
        let each = SEARCHED_ELEMENTS_OF_GRID / 4 / self.count.min(SEARCHED_ELEMENTS_OF_GRID / 16);
        let each = each.min(self.length.div_ceil(EVERY));
        let seen = self.count * each;
        let (across, along) = ((self.count, self.step), (each, EVERY * self.stride));
        // In the order in which elements lie in memory.
        let (outer, inner) = if self.stride == 1 { (across, along) } else { (along, across) };
        let mut telling = 0;
        for index in 0..outer.0 {
            for element in self.elements(index * outer.1, inner.1).take(inner.0) {
                telling += usize::from(F::read(element) & !F::SIGN != 0);
                // Enough are not zero, whatever follows.
                if telling * RUN >= TELLING_ELEMENTS * seen {
                    return RUN;
                }
            }
        }
        let longest = self.length.min(LONGEST_RUN);
        let mut length = RUN;
        while telling * length < TELLING_ELEMENTS * seen && 2 * length <= longest {
            length *= 2;
        }
        length
    }

    /// Runs of so many elements, one after the other.
    pub fn runs(&self, run: usize) -> SampledRuns<F> {
        let mut bytes = Vec::with_capacity(RUNS * run * F::WIDTH);
        for index in 0..RUNS {
            let start = (index * 7 % RUNS) * (self.length / run) / RUNS * run;
            self.append_run(index, start, run, &mut bytes);
        }
        SampledRuns { bytes, run, format: PhantomData }
    }

    fn append_run(&self, index: usize, start: usize, run: usize, bytes: &mut Vec<u8>) {
        let first = (index * self.count / RUNS) * self.step + start * self.stride;
        self.elements(first, self.stride).take(run).for_each(|element| bytes.extend_from_slice(element));
    }

    /// Whether elements other than zero repeat within most longer runs, as they do when there are at most 32
    /// levels. An offset shows only in a whole group, whose size is not known yet.
    pub fn runs_repeat(&self) -> bool {
        let Some(last) = self.length.checked_sub(LONGEST_RUN) else { return false };
        let mut repeating = 0;
        for index in 0..RUNS {
            let start = last * (index * 7 % RUNS) / RUNS;
            let first = (index * self.count / RUNS) * self.step + start * self.stride;
            let mut run: Vec<u32> =
                self.elements(first, self.stride).take(LONGEST_RUN).map(F::read).collect();
            run.retain(|&element| element & !F::SIGN != 0);
            let most = run.len() * 3 / 4;
            run.sort_unstable();
            run.dedup();
            repeating += usize::from((1..=most).contains(&run.len()));
            if repeating + RUNS / 4 < index {
                return false;
            }
        }
        repeating * 4 >= RUNS * 3
    }

    /// Each line as one piece of memory.
    pub fn gather(&self) -> Vec<Cow<'a, [u8]>> {
        let line = |index: usize| {
            let start = index * self.step;
            if self.stride == 1 {
                let bytes = start * F::WIDTH..(start + self.length) * F::WIDTH;
                return Cow::Borrowed(self.elements.get(bytes).unwrap_or_default());
            }
            Cow::Owned(self.elements(start, self.stride).take(self.length).flatten().copied().collect())
        };
        (0..self.count).map(line).collect()
    }
}

/// How many of the `available` lines of so many elements are looked at, and how far they are apart.
fn spread(available: usize, length: usize) -> (usize, usize) {
    let wanted = (SEARCHED_ELEMENTS_OF_GRID / length).clamp(1, available.max(1)).max(available.min(2));
    (wanted, available / wanted)
}

/// Short runs of elements from all over the sample.
pub(super) struct SampledRuns<F> {
    bytes: Vec<u8>,
    run: usize,
    format: PhantomData<F>,
}

impl<F: Format> SampledRuns<F> {
    /// The runs that are not all zeros.
    pub fn groups(&self) -> Vec<QuantisedGroup<'_, F>> {
        let groups = self.bytes.chunks_exact(self.run * F::WIDTH).map(QuantisedGroup::new);
        groups.filter(|group| !group.is_zero()).collect()
    }
}

/// Whether most of these runs lie on a grid with these levels.
pub(super) fn runs_fit<F: Format>(runs: &[QuantisedGroup<F>], levels: Levels) -> bool {
    let largest = levels.largest();
    let mut numbers = Vec::new();
    let (mut fitting, mut failing, mut telling) = (0, 0, 0);
    for group in runs {
        telling += usize::from(group.has_two_magnitudes() || group.zero);
        match group.fit(levels, &largest, &mut numbers) {
            Some(_) => fitting += 1,
            None => failing += 1,
        }
        if failing > RUNS / 4 {
            return false;
        }
    }
    telling > 0 && fitting > 0
}

#[cfg(test)]
mod tests {
    use super::super::format::Bf16;
    use super::*;

    #[test]
    fn runs_are_longer_where_many_elements_are_zero() {
        let row = |period: usize, length: usize| -> Vec<u8> {
            (0..length).flat_map(|index| [0, if index % period == 0 { 0x3f } else { 0 }]).collect()
        };
        for (period, length, expected) in
            [(1, 256, 16), (2, 256, 16), (5, 256, 32), (20, 256, 64), (20, 40, 32), (20, 16, 16)]
        {
            let row = row(period, length);
            let rows = [&row[..], &row].concat();
            assert_eq!(SampledLines::<Bf16>::rows(&rows, length).run_length(), expected, "{period} {length}");
            let columns: Vec<u8> = row.chunks_exact(2).flat_map(|element| element.repeat(2)).collect();
            assert_eq!(
                SampledLines::<Bf16>::columns(&columns, 2).run_length(),
                expected,
                "{period} {length}"
            );
        }
    }

    #[test]
    fn columns_are_the_rows_of_the_transposed_matrix() {
        for (rows, columns) in [(40usize, 7usize), (512, 300), (32, 5000)] {
            let element = |row: usize, column: usize| ((row * 31 + column * 7) as u16).to_le_bytes();
            let matrix: Vec<u8> =
                (0..rows).flat_map(|row| (0..columns).flat_map(move |column| element(row, column))).collect();
            let turned: Vec<u8> =
                (0..columns).flat_map(|column| (0..rows).flat_map(move |row| element(row, column))).collect();
            let (lines, expected) =
                (SampledLines::<Bf16>::columns(&matrix, columns), SampledLines::<Bf16>::rows(&turned, rows));
            assert_eq!(lines.gather(), expected.gather());
            assert_eq!(lines.run_length(), expected.run_length());
            assert_eq!(lines.runs_repeat(), expected.runs_repeat());
            assert_eq!(lines.runs(32).bytes, expected.runs(32).bytes);
        }
    }
}
