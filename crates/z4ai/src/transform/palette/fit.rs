//! Whether elements are few, and which code their indices get.

use super::encode::indices;
use super::model::{IndexCode, PaletteModel};
use super::table::Palette;
use crate::dtype::Dtype;
use crate::entropy::plane::{self, PlaneModel};
use crate::entropy::table::{Histogram, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::threads;
use crate::transform::opaque;
use crate::transform::scaled::ScaledModel;

/// zstd's fastest level.
const FASTEST: i32 = 1;
/// Indices on which zstd is tried. Structured: half or double changes no size.
const TRIED_INDICES: usize = 1 << 16;

impl IndexCode {
    /// The better one for a section with these counts, of whose indices `sample` is a part.
    fn choose(histogram: &Histogram, sample: &[u8], level: i32) -> Result<Self> {
        let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
        let share = u128::from(entropy_bits(histogram)) * sample.len() as u128 / u128::from(total.max(1));
        // zstd decodes more slowly than the entropy coder, so it must save a sixteenth. A round number.
        let enough = share * 16 / 17;
        let repeating = |level: i32| Ok::<_, Error>(8 * opaque::encode(sample, level, false)?.len() as u128);
        // Its fastest level, within a quarter of the others, refuses most indices in a fraction of the time.
        if repeating(FASTEST)? < enough * 5 / 4 && repeating(level)? < enough {
            return Ok(Self::Repeating { level });
        }
        Ok(Self::Plane(PlaneModel::choose(histogram, 4)?))
    }
}

impl PaletteModel {
    /// Makes the model for a section of whole elements, if they are few. `level` is that of zstd, should
    /// indices repeat.
    pub fn fit(bytes: &[u8], dtype: Dtype, block: usize, level: i32) -> Result<Option<Self>> {
        let width = dtype.scalar_width();
        let Some(palette) = Palette::detect(bytes, width) else { return Ok(None) };
        let histograms = threads::map(bytes.chunks(block), |part| -> Result<_> {
            let indices = indices(&palette, part)?;
            Ok([indices.low, indices.high].map(|indices| plane::histogram_of(&indices)))
        });
        let mut sums = [[0; SYMBOLS]; 2];
        for histograms in histograms {
            sums.iter_mut().flatten().zip(histograms?.iter().flatten()).for_each(|(sum, more)| *sum += more);
        }
        let sample = &bytes[..bytes.len().min(TRIED_INDICES * width)];
        let low = IndexCode::choose(&sums[0], &indices(&palette, sample)?.low, level)?;
        Ok(Some(Self { palette, low, high: PlaneModel::choose(&sums[1], 4)? }))
    }

    /// The same model with indices in the contexts of rows of so many elements and of columns, if they have
    /// one byte and that saves something.
    pub fn with_contexts(
        self,
        bytes: &[u8],
        dtype: Dtype,
        row_length: Option<usize>,
        block: usize,
    ) -> Result<Self> {
        if !self.has_one_plane() || matches!(self.low, IndexCode::Repeating { .. }) {
            return Ok(self);
        }
        let indices = indices(&self.palette, bytes)?.low;
        let keys = keys(&self.palette, dtype);
        let key = |index: u8| keys[usize::from(index)];
        let block = block / dtype.scalar_width();
        let scaled = ScaledModel::fit_keyed(&indices, key, KEY_STEPS, row_length, block)?;
        Ok(match scaled {
            Some(scaled) => Self { low: IndexCode::Scaled(Box::new(scaled)), ..self },
            None => self,
        })
    }
}

/// Quarters of an octave that a context may span, in the order in which they are tried.
const KEY_STEPS: [i64; 3] = [2, 1, 4];
/// The largest key: a byte.
const MOST_KEY: u16 = 255;

/// The logarithm of each entry's magnitude, in quarters of an octave.
fn keys(palette: &Palette, dtype: Dtype) -> [u8; SYMBOLS] {
    let logarithm = |entry: u64| -> u16 {
        match dtype.float_layout() {
            Some(layout) => {
                let head = (entry >> (8 * layout.tail_bytes())) as u16 & 0x7fff;
                head >> (layout.head_mantissa_bits() - 2)
            }
            None => {
                // The top bits of the number, which may have a sign.
                let unused = 64 - 8 * dtype.scalar_width() as u32;
                let magnitude = ((entry << unused) as i64 >> unused).unsigned_abs();
                let octave = magnitude.checked_ilog2().unwrap_or(0);
                (octave as u16) << 2 | (magnitude << (63 - octave) >> 61 & 3) as u16
            }
        }
    };
    let largest = palette.entries().iter().map(|&entry| logarithm(entry)).max().unwrap_or(0);
    let mut keys = [0; SYMBOLS];
    for (key, &entry) in keys.iter_mut().zip(palette.entries()) {
        *key = (MOST_KEY - (largest - logarithm(entry)).min(MOST_KEY)) as u8;
    }
    keys
}
