//! Scales: what the magnitude of an element is expected to be, from the row and the column it stands in.
//! Trained weights differ in scale between rows and columns far more than inside them, so the exponent minus
//! its expectation is cheap to code.
//!
//! A scale is the mean of the magnitude's logarithm in quarter octaves. The logarithm is the head's exponent
//! and mantissa read as one integer, so that only integers are summed and the result is the same on every
//! machine and for every number of threads.

use crate::arch;
use crate::dtype::FloatLayout;
use crate::entropy::plane;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length, put_signed};
use crate::threads;

/// Steps per octave.
pub(crate) const STEPS_PER_OCTAVE: i32 = 4;

/// The expected magnitude of every element of a section: `base + rows[i] + columns[j]` quarter octaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scales {
    pub base: i16,
    /// Elements per row; 0 when neither rows nor columns are used.
    pub row_length: usize,
    /// One offset per row, or empty.
    pub rows: Vec<i8>,
    /// One offset per column, or empty.
    pub columns: Vec<i8>,
}

/// Neighbours in a row, of which `base` is expected, with something added for each unless `columns` is empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScaleSegment<'a> {
    pub length: usize,
    pub base: i16,
    pub columns: &'a [i8],
}

impl Scales {
    /// Writes the expectations of elements `start..start + out.len()`.
    #[inline(always)]
    pub fn fill(&self, start: usize, out: &mut [i16]) {
        let mut rest = out;
        for ScaleSegment { length, base, columns, .. } in self.segments(start, rest.len()) {
            let (segment, after) = rest.split_at_mut(length);
            rest = after;
            if columns.is_empty() {
                segment.fill(base);
            }
            segment.iter_mut().zip(columns).for_each(|(out, &offset)| *out = base + i16::from(offset));
        }
    }

    /// Whether groups of so many elements each, from `start` on, lie in one row.
    pub fn is_even(&self, start: usize, group: usize) -> bool {
        let in_rows = start.is_multiple_of(group) && self.row_length.is_multiple_of(group);
        self.row_length == 0 || in_rows
    }

    /// The expectations of `count` elements from element `start` on.
    #[inline(always)]
    pub fn segments(&self, start: usize, count: usize) -> impl Iterator<Item = ScaleSegment<'_>> {
        let row_length = if self.row_length == 0 { usize::MAX } else { self.row_length };
        let (mut row, mut column) = (start / row_length, start % row_length);
        let mut rest = count;
        std::iter::from_fn(move || {
            let length = rest.min(row_length - column);
            let base = self.base + i16::from(self.rows.get(row).copied().unwrap_or(0));
            let columns = self.columns.get(column..column + length).unwrap_or_default();
            let segment = ScaleSegment { length, base, columns };
            (row, column, rest) = (row + 1, 0, rest - length);
            (length > 0).then_some(segment)
        })
    }

    /// These scales with rows and columns as asked.
    pub fn with_parts(&self, rows: bool, columns: bool) -> Self {
        let part = |wanted: bool, offsets: &Vec<i8>| if wanted { offsets.clone() } else { Vec::new() };
        let (rows, columns) = (part(rows, &self.rows), part(columns, &self.columns));
        let mut scales = Self { rows, columns, ..*self };
        scales.drop_zeros();
        scales
    }

    /// Leaves out offsets that are all zero.
    pub fn drop_zeros(&mut self) {
        for offsets in [&mut self.rows, &mut self.columns] {
            if offsets.iter().all(|&offset| offset == 0) {
                offsets.clear();
            }
        }
        if self.rows.is_empty() && self.columns.is_empty() {
            self.row_length = 0;
        }
    }

    /// Appends the scales.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        put_signed(out, i64::from(self.base));
        out.push(u8::from(!self.rows.is_empty()) | u8::from(!self.columns.is_empty()) << 1);
        if self.row_length > 0 {
            put_length(out, self.row_length);
        }
        for offsets in [&self.rows, &self.columns] {
            if !offsets.is_empty() {
                plane::write_bytes(bytemuck::cast_slice(offsets), out)?;
            }
        }
        Ok(())
    }

    /// Reads the scales of a section of `elements` elements.
    pub fn read(reader: &mut Reader, elements: usize) -> Result<Self> {
        let base = i16::try_from(reader.signed()?).ok().filter(|base| (0..1 << 14).contains(base));
        let base = base.ok_or_else(|| Error::corrupt("a section's base scale is out of range"))?;
        let parts = reader.u8()?;
        if parts == 0 {
            return Ok(Self { base, ..Self::default() });
        }
        let row_length = reader.length()?;
        if parts > 3 || row_length == 0 || row_length > elements {
            return Err(Error::corrupt("a section's row length does not fit its elements"));
        }
        let mut offsets = |present: bool, count: usize| -> Result<Vec<i8>> {
            if !present {
                return Ok(Vec::new());
            }
            let bytes = plane::read_bytes(reader, count)?;
            Ok(bytes.into_iter().map(|byte| byte as i8).collect())
        };
        let rows = offsets(parts & 1 != 0, elements.div_ceil(row_length))?;
        let columns = offsets(parts & 2 != 0, row_length)?;
        Ok(Self { base, row_length, rows, columns })
    }
}

/// Sums of log-magnitudes over rows and columns, without the elements that say nothing about the scale:
/// zeros, and the dust many octaves below the rest that training leaves behind.
#[derive(Debug)]
pub(super) struct Sums {
    rows: Vec<(u64, u32)>,
    /// Of some rows, if there are many.
    columns: Vec<(u64, u32)>,
}

/// The sums of a few rows.
struct BatchSums {
    rows: Vec<(u64, u32)>,
    column_sums: Vec<u32>,
    column_counts: Vec<u16>,
}

/// Octaves below the median magnitude at which dust begins. Weights: half +0.064 %, double +0.005 %.
const DUST_OCTAVES: u16 = 24;
/// Elements that the median is taken of. Weights: half and double change about 0.001 %.
const DUST_MEDIAN_SAMPLE: usize = 256;

/// The least magnitude (as a head without sign) that counts.
fn least_magnitude(layout: FloatLayout, bytes: &[u8]) -> u16 {
    let stride = (bytes.len() / layout.width / DUST_MEDIAN_SAMPLE).max(1);
    // An odd stride does not stay in one column of a matrix.
    let elements = bytes.chunks_exact(layout.width).step_by(stride | 1);
    let mut magnitudes: Vec<u16> = elements
        .map(|element| u16::from_le_bytes([element[layout.width - 2], element[layout.width - 1]]) & 0x7fff)
        .filter(|&magnitude| magnitude != 0)
        .collect();
    let middle = magnitudes.len() / 2;
    let median = if magnitudes.is_empty() { 0 } else { *magnitudes.select_nth_unstable(middle).1 };
    median.saturating_sub(DUST_OCTAVES << layout.head_mantissa_bits()).max(1)
}

/// Rows summed before the accumulators of columns are emptied, which have 32 bits for sums of 15 and 16 for
/// counts: twice as many would overflow the counts.
const BATCH_ROWS: usize = 1 << 15;
/// Long rows that a task sums at least, since adding its columns to those of others takes as long as a row. A
/// round number.
const LONG_ROWS: usize = 32;
/// Rows that columns are summed over, about, where there are more: their means are then known to a fraction
/// of a step. Unshaped: half +0.001 %, double no gain.
const COLUMN_SAMPLE: usize = 4096;
/// Neighbours in a row that are summed together, in registers. A round number.
const NEIGHBOURS_TOGETHER: usize = 256;

impl Sums {
    /// Sums the elements of `bytes`, cut into rows of `row_length`.
    pub fn measure(layout: FloatLayout, bytes: &[u8], row_length: usize, want_columns: bool) -> Self {
        let row_bytes = row_length * layout.width;
        let least = least_magnitude(layout, bytes);
        let rows = bytes.len().div_ceil(row_bytes);
        // An odd number, so that it is no multiple of what rows may be grouped by.
        let column_stride = (rows / COLUMN_SAMPLE).max(1) | 1;
        // About a megabyte per task, in whole rows; more where rows are long, since each task has sums of its
        // own for all columns.
        let batch = ((1 << 20) / row_bytes).max(LONG_ROWS.min(rows / 8)).clamp(1, BATCH_ROWS);
        let partial = threads::map(bytes.chunks(batch * row_bytes).enumerate(), |(index, chunk)| {
            let in_columns = |row: usize| want_columns && (index * batch + row).is_multiple_of(column_stride);
            arch::vectorised(
                #[inline(always)]
                || Self::measure_batch(layout, chunk, row_length, want_columns, in_columns, least),
            )
        });
        let mut total =
            Self { rows: Vec::new(), columns: vec![(0, 0); if want_columns { row_length } else { 0 }] };
        for mut part in partial {
            total.rows.append(&mut part.rows);
            let columns = part.column_sums.into_iter().zip(part.column_counts);
            for (total, (sum, count)) in total.columns.iter_mut().zip(columns) {
                *total = (total.0 + u64::from(sum), total.1 + u32::from(count));
            }
        }
        total
    }

    #[inline(always)]
    fn measure_batch(
        layout: FloatLayout,
        bytes: &[u8],
        row_length: usize,
        want_columns: bool,
        in_columns: impl Fn(usize) -> bool,
        least: u16,
    ) -> BatchSums {
        let column_count = if want_columns { row_length } else { 0 };
        let (mut column_sums, mut column_counts) = (vec![0u32; column_count], vec![0u16; column_count]);
        let mut heads = [0u16; NEIGHBOURS_TOGETHER];
        let mut rows = Vec::with_capacity(bytes.len() / (row_length * layout.width) + 1);
        for (index, row) in bytes.chunks(row_length * layout.width).enumerate() {
            let in_columns = in_columns(index);
            let (mut sum, mut count) = (0u64, 0u32);
            for (index, stretch) in row.chunks(NEIGHBOURS_TOGETHER * layout.width).enumerate() {
                let heads = &mut heads[..stretch.len() / layout.width];
                layout.read_magnitudes(stretch, least, heads);
                sum += u64::from(heads.iter().map(|&head| u32::from(head)).sum::<u32>());
                // Counts are as wide as heads, so that a register has as many of them.
                count += u32::from(heads.iter().map(|&head| u16::from(head != 0)).sum::<u16>());
                if in_columns {
                    let columns = index * NEIGHBOURS_TOGETHER..index * NEIGHBOURS_TOGETHER + heads.len();
                    let sums = column_sums[columns.clone()].iter_mut().zip(heads.iter());
                    sums.for_each(|(sum, &head)| *sum += u32::from(head));
                    let counts = column_counts[columns].iter_mut().zip(heads.iter());
                    counts.for_each(|(count, &head)| *count += u16::from(head != 0));
                }
            }
            rows.push((sum, count));
        }
        BatchSums { rows, column_sums, column_counts }
    }

    /// The scales of these sums, with rows and columns.
    pub fn scales(&self, layout: FloatLayout, row_length: usize) -> Scales {
        let (sum, count) =
            self.rows.iter().fold((0u64, 0u64), |(s, c), row| (s + row.0, c + u64::from(row.1)));
        let mean = mean_16(sum, count);
        let step = 16i64 << layout.head_mantissa_bits();
        let offsets = |sums: &[(u64, u32)]| -> Vec<i8> {
            let offset = |&(sum, count): &(u64, u32)| {
                if count == 0 {
                    return 0;
                }
                let difference = mean_16(sum, u64::from(count)) - mean;
                round_div(difference * i64::from(STEPS_PER_OCTAVE), step).clamp(-127, 127) as i8
            };
            sums.iter().map(offset).collect()
        };
        let base = round_div(mean * i64::from(STEPS_PER_OCTAVE), step) as i16;
        Scales { base, row_length, rows: offsets(&self.rows), columns: offsets(&self.columns) }
    }
}

/// 16 times the mean, so that rounding to a step sees the fraction.
fn mean_16(sum: u64, count: u64) -> i64 {
    // Sums of a section's magnitudes are far below 2^60.
    (sum * 16).checked_div(count).unwrap_or(0) as i64
}

fn round_div(value: i64, divisor: i64) -> i64 {
    (value + divisor / 2).div_euclid(divisor)
}
