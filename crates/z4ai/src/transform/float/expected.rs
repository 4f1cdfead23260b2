//! What is expected of the heads of a chunk, in the forms that decoders take it in.

use super::FLOAT_CHUNK;
use super::scale::{STEPS_PER_OCTAVE, ScaleSegment, Scales};
use crate::entropy::rans::{DecoderTables, LANES};

/// Where the bits of a head come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadFormat {
    /// Mantissa bits that are stored verbatim.
    pub low_mantissa: u32,
    pub sign: HeadSign,
}

/// Where the sign of a head comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadSign {
    /// It is stored verbatim, above the mantissa bits.
    Stored,
    /// All have the same; `true` is negative.
    Constant(bool),
}

/// What the heads of a chunk are made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadInputs<'a> {
    pub format: HeadFormat,
    pub expected: Expected<'a>,
    /// The verbatim bits.
    pub packed: &'a [u8],
}

/// What is expected of the heads of a chunk, by groups of [`LANES`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// What is added to the symbols of each group: whole octaves, above a zero for each mantissa bit of a
    /// symbol.
    octaves: &'a [i16],
    /// What else is expected.
    rest: ExpectedRest<'a>,
    /// Where the slots of the last context would end; there are no offsets beyond. Kernels rely on that, so
    /// only this file makes values of this type.
    slots: usize,
}

impl<'a> Expected<'a> {
    pub fn octaves(&self) -> &'a [i16] {
        self.octaves
    }

    pub fn rest(&self) -> ExpectedRest<'a> {
        self.rest
    }

    pub fn slots(&self) -> usize {
        self.slots
    }
}

/// What is expected of the elements of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExpectedRest<'a> {
    /// Of all elements of a group: where in a table's slots the context of each group begins. Empty if there
    /// is one context.
    Same(&'a [u16]),
    /// What these lines say from the place of each group on.
    Lines { lines: Lines<'a>, places: &'a [u32] },
}

/// What is expected of elements one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines<'a> {
    /// Octaves that are added to those of the group.
    octaves: &'a [i16],
    /// Where the context of each element begins; empty if there is one context.
    offsets: &'a [u16],
}

impl<'a> Lines<'a> {
    pub fn octaves(&self) -> &'a [i16] {
        self.octaves
    }

    pub fn offsets(&self) -> &'a [u16] {
        self.offsets
    }
}

/// How scales become octaves and offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScaleSplit {
    /// Octaves that are taken away.
    pub centre: i16,
    precision: u32,
    has_contexts: bool,
}

impl ScaleSplit {
    const FRACTION: i16 = STEPS_PER_OCTAVE as i16 - 1;

    /// The fraction of a scale is the context, if these tables have contexts.
    pub fn new(centre: i16, tables: &DecoderTables) -> Self {
        let precision = tables.precision();
        Self {
            centre,
            precision,
            has_contexts: tables.slots().len() == (STEPS_PER_OCTAVE as usize) << precision,
        }
    }

    #[inline(always)]
    fn octave(self, scale: i16) -> i16 {
        (scale & !Self::FRACTION) - self.centre * STEPS_PER_OCTAVE as i16
    }

    #[inline(always)]
    fn offset(self, scale: i16) -> u16 {
        ((scale & Self::FRACTION) as u16) << self.precision
    }

    fn slots(self) -> usize {
        (STEPS_PER_OCTAVE as usize) << self.precision
    }

    /// What is expected of groups whose elements have the same scales, from element `start` on.
    pub fn same<'a>(
        self,
        scales: &Scales,
        start: usize,
        octaves: &'a mut [i16],
        offsets: &'a mut [u16],
    ) -> Expected<'a> {
        let offsets = if self.has_contexts { &mut offsets[..octaves.len()] } else { &mut [] };
        each_group(scales, start, octaves, |base, _| self.octave(base));
        each_group(scales, start, offsets, |base, _| self.offset(base));
        Expected { octaves, rest: ExpectedRest::Same(offsets), slots: self.slots() }
    }

    /// The lines of as many elements as there are octaves to be written.
    #[inline(always)]
    pub fn lines<'a, 's>(
        self,
        scales: impl Iterator<Item = ScaleSegment<'s>>,
        octaves: &'a mut [i16],
        offsets: &'a mut [u16],
    ) -> Lines<'a> {
        let offsets = if self.has_contexts { &mut offsets[..octaves.len()] } else { &mut [] };
        let mut start = 0;
        for ScaleSegment { length, base, columns, .. } in scales {
            let octaves = octaves.get_mut(start..start + length).unwrap_or_default();
            let offsets = offsets.get_mut(start..start + length).unwrap_or_default();
            start += length;
            if columns.is_empty() {
                octaves.fill(self.octave(base));
                offsets.fill(self.offset(base));
                continue;
            }
            // In two loops if there are contexts, since each of them then has one thing to write.
            for (target, &column) in octaves.iter_mut().zip(columns) {
                *target = self.octave(base + i16::from(column));
            }
            for (target, &column) in offsets.iter_mut().zip(columns) {
                *target = self.offset(base + i16::from(column));
            }
        }
        offsets.iter_mut().skip(start).for_each(|offset| *offset = 0);
        Lines { octaves, offsets }
    }

    /// What is expected of groups whose elements have lines of their own.
    pub fn each(self, lines: Lines<'_>) -> Expected<'_> {
        let groups = lines.octaves.len() / LANES;
        let (octaves, places) = (NO_OCTAVES.get(..groups), IN_ORDER.get(..groups));
        let rest = ExpectedRest::Lines { lines, places: places.unwrap_or_default() };
        Expected { octaves: octaves.unwrap_or_default(), rest, slots: self.slots() }
    }
}

/// The most groups of a chunk.
const GROUPS: usize = FLOAT_CHUNK / LANES;
static NO_OCTAVES: [i16; GROUPS] = [0; GROUPS];
/// Where the groups of a chunk are in its lines.
static IN_ORDER: [u32; GROUPS] = {
    let mut places = [0; GROUPS];
    let mut group = 0;
    while group < GROUPS {
        places[group] = (group * LANES) as u32;
        group += 1;
    }
    places
};

/// The lines of all rows of which columns say something. What a row's own scale adds to that is whole
/// octaves, and a fraction, of which there are few: one line for each.
#[derive(Debug)]
pub(crate) struct RowLines {
    split: ScaleSplit,
    row_length: usize,
    octaves: Vec<i16>,
    offsets: Vec<u16>,
}

impl RowLines {
    /// The lines of rows of whole groups.
    pub fn new(split: ScaleSplit, columns: &[i8]) -> Self {
        let row_length = columns.len();
        let (mut octaves, mut offsets) = (
            vec![0; STEPS_PER_OCTAVE as usize * row_length],
            vec![0; STEPS_PER_OCTAVE as usize * row_length],
        );
        let rows =
            (0..STEPS_PER_OCTAVE as i16).map(|base| ScaleSegment { length: row_length, base, columns });
        let split_lines = ScaleSplit { centre: 0, ..split };
        split_lines.lines(rows, &mut octaves, &mut offsets);
        if !split.has_contexts {
            offsets.clear();
        }
        Self { split, row_length, octaves, offsets }
    }

    /// What is expected of groups in rows with these scales, from element `start` on.
    pub fn expected<'a>(
        &'a self,
        scales: &Scales,
        start: usize,
        octaves: &'a mut [i16],
        places: &'a mut [u32],
    ) -> Expected<'a> {
        let line = |base: i16| usize::from((base & ScaleSplit::FRACTION) as u16) * self.row_length;
        each_group(scales, start, octaves, |base, _| self.split.octave(base));
        each_group(scales, start, places, |base, group| (line(base) + group * LANES) as u32);
        let lines = Lines { octaves: &self.octaves, offsets: &self.offsets };
        Expected { octaves, rest: ExpectedRest::Lines { lines, places }, slots: self.split.slots() }
    }
}

/// Writes what `value` makes of the scale of each group's row and of the group's number in that row, for the
/// groups of a chunk from element `start` on; each must lie in one row.
fn each_group<T: Copy>(scales: &Scales, start: usize, out: &mut [T], value: impl Fn(i16, usize) -> T) {
    /// As many as a chunk may have.
    static NO_ROWS: [i8; GROUPS] = [0; GROUPS];
    let length = if scales.row_length == 0 { usize::MAX } else { scales.row_length / LANES };
    let (row, column) = (start / LANES / length, start / LANES % length);
    let mut rows = if scales.rows.is_empty() { &NO_ROWS } else { scales.rows.get(row..).unwrap_or_default() };
    let base = |row: i8| scales.base + i16::from(row);
    let run = |row: i8, first: usize, groups: &mut [T]| {
        groups.iter_mut().enumerate().for_each(|(at, group)| *group = value(base(row), first + at));
    };
    // Kernels rely on what follows from the tables, whether there are scales for all rows or not.
    out.fill(value(scales.base, 0));
    // The rest of a row that began before.
    let begun = if column == 0 { 0 } else { out.len().min(length - column) };
    let (begun, mut out) = out.split_at_mut(begun);
    if let (false, [first, rest @ ..]) = (begun.is_empty(), rows) {
        run(*first, column, begun);
        rows = rest;
    }
    // Short rows, such as filters, would cost more than their groups do; with a length that the compiler
    // knows they vectorise.
    macro_rules! short_rows {
        ($length:literal) => {{
            let (whole, last) = out.as_chunks_mut::<$length>();
            let (of_whole, of_last) = rows.split_at(whole.len().min(rows.len()));
            for (groups, &row) in whole.iter_mut().zip(of_whole) {
                *groups = std::array::from_fn(|at| value(base(row), at));
            }
            (out, rows) = (last, of_last);
        }};
    }
    match length {
        1 => short_rows!(1),
        2 => short_rows!(2),
        4 => short_rows!(4),
        _ => {}
    }
    out.chunks_mut(length).zip(rows).for_each(|(groups, &row)| run(row, 0, groups));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_scales_of_their_rows() {
        for length in [0, 1, 2, 3, 4, 5, 12, 200].map(|groups| groups * LANES) {
            for start in [0, 1, 2, 7, 128, 130, 300] {
                let rows: Vec<i8> = (0..1000).map(|row| (row * 7 % 100) as i8).collect();
                let rows = if length == 0 { Vec::new() } else { rows };
                let scales = Scales { base: 500, row_length: length, rows, columns: Vec::new() };
                let mut out = vec![(0, 0); GROUPS];
                each_group(&scales, start * LANES, &mut out, |base, group| (base, group));
                for (index, &(base, group)) in out.iter().enumerate() {
                    let mut expected = [0];
                    scales.fill((start + index) * LANES, &mut expected);
                    assert_eq!(base, expected[0], "{length} {start} {index}");
                    if let Some(place) = ((start + index) * LANES).checked_rem(length) {
                        assert_eq!(group, place / LANES, "{length} {start} {index}");
                    }
                }
            }
        }
        // Whatever was there, rows without a scale have the section's.
        let scales = Scales { base: 3, row_length: LANES, rows: vec![1], columns: Vec::new() };
        let mut out = [i16::MAX; 3];
        each_group(&scales, 0, &mut out, |base, _| base);
        assert_eq!(out, [4, 3, 3]);
    }
}
