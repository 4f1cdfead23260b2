//! Whether elements are few, and which code their indices get.

use super::encode::indices;
use super::model::{IndexCode, PaletteModel};
use super::table::Palette;
use crate::entropy::plane::{self, PlaneModel};
use crate::entropy::table::{Histogram, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::threads;
use crate::transform::opaque;

/// zstd's fastest level.
const FASTEST: i32 = 1;
/// Indices on which zstd is tried. Structured: half or double changes no size.
const TRIED_INDICES: usize = 1 << 16;

impl IndexCode {
    /// The better one for a section with these counts, of whose indices `sample` is a part.
    fn choose(histogram: &Histogram, sample: &[u8], level: i32) -> Result<Self> {
        let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
        let share = u128::from(entropy_bits(histogram)) * sample.len() as u128 / u128::from(total.max(1));
        // It decodes more slowly, so a little is not enough.
        let enough = share * 16 / 17;
        let repeating = |level: i32| Ok::<_, Error>(8 * opaque::encode(sample, level, false)?.len() as u128);
        // At its fastest it is not much worse, and much sooner refused.
        if repeating(FASTEST)? < enough * 5 / 4 && repeating(level)? < enough {
            return Ok(Self::Repeating { level });
        }
        Ok(Self::Plane(PlaneModel::choose(histogram, 4)?))
    }
}

impl PaletteModel {
    /// Makes the model for a section of whole elements, if they are few. `level` is that of zstd, should
    /// indices repeat.
    pub fn fit(bytes: &[u8], width: usize, block: usize, level: i32) -> Result<Option<Self>> {
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
}
