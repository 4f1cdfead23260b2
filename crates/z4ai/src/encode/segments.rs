//! Where data is cut. A buffer without a shape may be many tensors, one after the other, and the rows of one
//! tensor may be of several kinds; one model for all would fit none. Neighbouring stretches stay together as
//! long as describing them apart costs more than describing them as one.

use crate::arch;
use crate::dtype::FloatLayout;
use crate::entropy::table::{Histogram, SYMBOLS, entropy_bits};
use crate::threads;

/// Elements of the shortest stretch that is looked at, as many as are decoded with all lanes, and the most
/// stretches. Unshaped: half -0.05 %, double -0.008 %; half or double the most stretches changes no size.
const SHORTEST_STRETCH: usize = 1 << 15;
const MOST_STRETCHES: usize = 512;
/// Elements of which the first [`STRETCH_SAMPLE`] are looked at; they are compared with their own scale,
/// which models follow by themselves. Unshaped: half -0.022 %, double -0.010 %.
const STRETCH_ROW: usize = 1024;
const STRETCH_SAMPLE: usize = 32;
/// Bits that a model of its own costs, about. Unshaped: half -0.018 %, double +0.005 %.
const MODEL_BITS: u64 = 8 * 600;
/// And each of its columns. Unshaped: half or double changes no size.
const COLUMN_BITS: u64 = 4;
/// One part in so many of the data is what segments must save: each is planned by itself, which takes time.
/// Unshaped: half -0.11 % with more segments, double no change.
pub(crate) const WORTHWHILE_SEGMENTS: usize = 512;

/// A stretch and the fields of its sample: exponents, relative to those of their row, in the lower half, and
/// how many zeros the mantissas end with in the upper.
struct Segment {
    elements: usize,
    counts: Histogram,
    bits: u64,
}

impl Segment {
    /// The histogram of this segment and the next one together.
    fn joined(&self, next: &Self) -> Histogram {
        let mut counts = self.counts;
        add(&mut counts, &next.counts);
        counts
    }

    /// Bits of the sample that are lost by joining it with that of the next one.
    fn loss(&self, next: &Self) -> u64 {
        entropy_bits(&self.joined(next)).saturating_sub(self.bits + next.bits)
    }
}

fn add(counts: &mut Histogram, others: &Histogram) {
    counts.iter_mut().zip(others).for_each(|(count, more)| *count += more);
}

/// The elements of each segment of `bytes`, which are whole elements, in rows of `row_length` if that is
/// known.
pub(crate) fn lengths(layout: FloatLayout, bytes: &[u8], row_length: Option<usize>) -> Vec<usize> {
    let elements = bytes.len() / layout.width;
    if row_length.is_some_and(|length| length > elements / 2) {
        return vec![elements];
    }
    let stretch = (elements / MOST_STRETCHES).next_power_of_two().max(SHORTEST_STRETCH);
    let stretch = row_length.map_or(stretch, |length| stretch.next_multiple_of(length));
    if elements < 2 * stretch {
        return vec![elements];
    }
    let mut segments = threads::map(bytes.chunks(stretch * layout.width), |part| {
        let mut counts = [0; SYMBOLS];
        arch::vectorised(
            #[inline(always)]
            || match layout.width {
                2 => count::<2>(layout, part, &mut counts),
                4 => count::<4>(layout, part, &mut counts),
                _ => count::<8>(layout, part, &mut counts),
            },
        );
        Box::new(Segment { elements: part.len() / layout.width, bits: entropy_bits(&counts), counts })
    });
    let mut losses: Vec<u64> = segments.windows(2).map(|pair| pair[0].loss(&pair[1])).collect();
    let model = MODEL_BITS + COLUMN_BITS * row_length.unwrap_or(0) as u64;
    let bearable = model * STRETCH_SAMPLE as u64 / STRETCH_ROW as u64;
    while let Some((index, _)) =
        losses.iter().enumerate().min_by_key(|(_, loss)| **loss).filter(|(_, loss)| **loss < bearable)
    {
        let next = segments.remove(index + 1);
        let joined = &mut segments[index];
        joined.counts = joined.joined(&next);
        joined.bits += next.bits + losses.remove(index);
        joined.elements += next.elements;
        for changed in [index.checked_sub(1), Some(index)].into_iter().flatten() {
            if let (Some(loss), [first, second, ..]) = (losses.get_mut(changed), &segments[changed..]) {
                *loss = first.loss(second);
            }
        }
    }
    let mut counts = [0; SYMBOLS];
    segments.iter().for_each(|segment| add(&mut counts, &segment.counts));
    let gain = entropy_bits(&counts).saturating_sub(segments.iter().map(|segment| segment.bits).sum());
    let gain = (gain * (STRETCH_ROW / STRETCH_SAMPLE) as u64).saturating_sub(model * segments.len() as u64);
    if gain < (8 * bytes.len() / WORTHWHILE_SEGMENTS) as u64 {
        return vec![elements];
    }
    segments.into_iter().map(|segment| segment.elements).collect()
}

/// Counts the fields of a sample of elements of `WIDTH` bytes.
#[inline(always)]
fn count<const WIDTH: usize>(layout: FloatLayout, bytes: &[u8], counts: &mut Histogram) {
    const HALF: usize = SYMBOLS / 2;
    const CENTRE: i32 = HALF as i32 / 2;
    const ROWS_TOGETHER: usize = 32;
    let exponent = |head: u16| i32::from((head & 0x7fff) >> layout.head_mantissa_bits());
    let mantissa_bits = 8 * WIDTH as u32 - 1 - layout.exponent_bits;
    // Samples are far apart in memory. Copied first, several at a time, their cache misses overlap.
    let mut samples = [[[0; WIDTH]; STRETCH_SAMPLE]; ROWS_TOGETHER];
    for rows in bytes.chunks(ROWS_TOGETHER * STRETCH_ROW * WIDTH) {
        let mut lengths = [0; ROWS_TOGETHER];
        for ((sample, length), row) in
            samples.iter_mut().zip(&mut lengths).zip(rows.chunks(STRETCH_ROW * WIDTH))
        {
            let (elements, _) = row.as_chunks::<WIDTH>();
            *length = elements.len().min(STRETCH_SAMPLE);
            sample[..*length].copy_from_slice(&elements[..*length]);
        }
        for (sample, length) in samples.iter().zip(lengths) {
            let elements = &sample[..length];
            let mut heads = [0; STRETCH_SAMPLE];
            layout.read_heads(elements.as_flattened(), &mut heads);
            // Zeros say nothing about the scale.
            let sum: i32 = heads[..length].iter().map(|&head| exponent(head)).sum();
            let others: i32 = heads[..length].iter().map(|&head| i32::from(exponent(head) != 0)).sum();
            let mean = sum / others.max(1);
            for (element, &head) in elements.iter().zip(&heads) {
                let relative = (exponent(head) - mean + CENTRE).clamp(0, HALF as i32 - 1);
                counts[relative as usize] += 1;
                let number = element.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
                let zeros = number.trailing_zeros().min(mantissa_bits);
                counts[HALF + zeros as usize] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    /// Elements between 1 and 2 times a power of two, whose mantissas end with at least `zeros` zeros.
    fn floats(count: usize, spread: u32, zeros: u32) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            state >> 16
        };
        let element = |_| {
            let exponent = 120 - (next() % spread);
            ((exponent << 7 | next() & 0x7f) & u32::MAX << zeros) as u16
        };
        (0..count).map(element).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn stretches_are_told_apart_by_their_exponents_and_by_their_precision() {
        let layout = Dtype::Bf16.float_layout().unwrap();
        let lengths = |bytes: &[u8]| lengths(layout, bytes, None);
        let (narrow, wide, rounded) = (floats(1 << 17, 4, 0), floats(1 << 17, 12, 0), floats(1 << 17, 4, 3));
        assert_eq!(lengths(&narrow), [1 << 17]);
        assert_eq!(lengths(&[&narrow[..], &narrow].concat()), [1 << 18]);
        assert_eq!(lengths(&[&narrow[..], &wide].concat()), [1 << 17; 2]);
        assert_eq!(lengths(&[&narrow[..], &rounded, &wide].concat()), [1 << 17; 3]);
        assert_eq!(lengths(&narrow[..2000]), [1000]);
        assert_eq!(lengths(&[]), [0]);
    }

    #[test]
    fn a_long_buffer_is_looked_at_in_longer_stretches() {
        let layout = Dtype::Bf16.float_layout().unwrap();
        let zeros = vec![0; 2 * (MOST_STRETCHES * SHORTEST_STRETCH * 2 + 77)];
        assert_eq!(lengths(layout, &zeros, None), [MOST_STRETCHES * SHORTEST_STRETCH * 2 + 77]);
    }

    #[test]
    fn rows_longer_than_the_data_are_no_rows() {
        let layout = Dtype::Bf16.float_layout().unwrap();
        let bytes = [floats(1 << 17, 4, 0), floats(1 << 17, 12, 0)].concat();
        assert_eq!(lengths(layout, &bytes, Some(512)), [1 << 17; 2]);
        for length in [usize::MAX, usize::MAX / 2, 1 << 18] {
            assert_eq!(lengths(layout, &bytes, Some(length)), [1 << 18]);
        }
    }
}
