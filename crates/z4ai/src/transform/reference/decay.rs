//! Weight decay: training that multiplies every weight by the same factor, a little below one, moves each by
//! a number of steps that its mantissa tells. Rows that got no gradient moved by nothing else.

use super::counts::{ChunkScratch, View};
use super::element::Word;
use super::{ElementFields, REFERENCE_CHUNK};

/// The rate is counted in units of 2^-32.
const DECAY_RATE_BITS: u32 = 32;
const RATE_UNIT: f64 = (1u64 << DECAY_RATE_BITS) as f64;
/// Bits of a mantissa that are multiplied by the rate: the product with a rate of 32 bits fits 63.
const MANTISSA_LIMIT: u32 = 31;

/// A factor that all magnitudes changed by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Decay {
    /// The factor minus one.
    pub rate: i32,
    mantissa_bits: u32,
    /// Low mantissa bits that are left out of the product.
    dropped: u32,
}

impl Decay {
    pub fn new(rate: i32, fields: ElementFields) -> Self {
        let mantissa_bits = fields.mantissa_bits;
        Self { rate, mantissa_bits, dropped: mantissa_bits.saturating_sub(MANTISSA_LIMIT) }
    }

    /// Steps by which the magnitude of the element with these bits changes.
    #[inline(always)]
    pub fn steps(self, base: u64) -> i64 {
        let implicit = 1u64 << self.mantissa_bits;
        let mantissa = (base & (implicit - 1) | implicit) >> self.dropped;
        let shift = DECAY_RATE_BITS - self.dropped;
        (i64::from(self.rate) * mantissa as i64 + (1 << (shift - 1))) >> shift
    }

    /// [`Self::steps`] for elements of at most 16 bits, in arithmetic of 32 bits, of which a register holds
    /// twice as many.
    #[inline(always)]
    pub fn short_steps(self, base: u16) -> i16 {
        let implicit = 1i32 << self.mantissa_bits;
        let mantissa = i32::from(base) & (implicit - 1) | implicit;
        let (high, low) = (self.rate >> 16, self.rate & 0xffff);
        ((mantissa * high + ((mantissa * low) >> 16) + (1 << 15)) >> 16) as i16
    }

    /// Finds the rate that explains most of the change between two buffers of whole elements, by looking at
    /// some chunks; none if it does not explain much.
    pub fn find<W: Word>(bytes: &[u8], reference: &[u8], fields: ElementFields) -> Self {
        let none = Self::new(0, fields);
        let chunk = REFERENCE_CHUNK * W::BYTES;
        let chunks: Vec<(&[u8], &[u8])> =
            bytes.chunks_exact(chunk).zip(reference.chunks_exact(chunk)).collect();
        // An odd stride does not keep step with rows of a power-of-two length.
        let stride = chunks.len().div_ceil(DECAY_SAMPLE) | 1;
        let sample: Vec<_> = chunks.into_iter().step_by(stride).collect();
        let mut rates: Vec<i32> =
            sample.iter().filter_map(|(bytes, base)| none.typical_rate::<W>(bytes, base)).collect();
        rates.sort_unstable();
        let Some(&middle) = rates.get(rates.len() / 2) else { return none };
        // Most rows may have got gradients; those that did not agree with each other more closely than the
        // others do.
        let reach = (rates.len() / 10).max(1);
        let closest =
            (0..rates.len().saturating_sub(reach)).min_by_key(|&at| rates[at + reach].abs_diff(rates[at]));
        let agreed = closest.map_or(middle, |at| rates[at + reach / 2]);
        let mut scratch = ChunkScratch::<W>::default();
        let mut cost = |&decay: &Self| -> u64 {
            let view = View { fields, decay, top_exponent: 0 };
            sample.iter().map(|(bytes, base)| u64::from(scratch.transform(bytes, base, view))).sum()
        };
        let without = cost(&none);
        [middle, agreed]
            .map(|rate| Self::new(rate, fields))
            .into_iter()
            .map(|decay| (cost(&decay), decay))
            .min_by_key(|(cost, _)| *cost)
            .filter(|(cost, _)| cost + without / 32 < without)
            .map_or(none, |(_, decay)| decay)
    }

    /// The median of what the rate would have to be for each element of a chunk.
    fn typical_rate<W: Word>(self, bytes: &[u8], reference: &[u8]) -> Option<i32> {
        let mut rates = [0i64; REFERENCE_CHUNK];
        let elements = bytes.chunks_exact(W::BYTES).zip(reference.chunks_exact(W::BYTES));
        for (rate, (current, base)) in rates.iter_mut().zip(elements) {
            let base = W::from_bytes(base);
            let zigzag = W::difference::<false>(W::from_bytes(current), base, self).wide();
            let steps = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            let implicit = 1u64 << self.mantissa_bits;
            let mantissa = base.wide() & (implicit - 1) | implicit;
            // Divisions of floats are the same everywhere, and much faster than those of integers of 128
            // bits.
            *rate = (steps as f64 * RATE_UNIT / mantissa as f64) as i64;
        }
        let (_, median, _) = rates.select_nth_unstable(REFERENCE_CHUNK / 2);
        i32::try_from(*median).ok()
    }
}

/// Chunks that are looked at for the rate. Deltas: half +0.04 %, double +0.19 %: another sample, another
/// rate.
const DECAY_SAMPLE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    #[test]
    fn short_elements_decay_by_the_same_steps() {
        for rate in [i32::MIN, i32::MIN + 1, -429_497, -65_536, -1, 0, 1, 65_535, 429_497, i32::MAX] {
            for dtype in [Dtype::Bf16, Dtype::F16] {
                let decay = Decay::new(rate, ElementFields::of(dtype).unwrap());
                for base in 0..=u16::MAX {
                    assert_eq!(i64::from(decay.short_steps(base)), decay.steps(base.into()));
                }
            }
        }
    }

    #[test]
    fn the_rate_is_found_among_other_changes() {
        let fields = ElementFields::of(Dtype::F32).unwrap();
        let base: Vec<f32> =
            (0..200_000u32).map(|i| (i.wrapping_mul(2654435761) as i32) as f32 * 1e-10).collect();
        let factor = 1.0 - 1e-4f32;
        let decayed = base.iter().enumerate().map(|(index, value)| {
            let noise =
                if (index / REFERENCE_CHUNK).is_multiple_of(2) { (index % 977) as f32 * 1e-6 } else { 0.0 };
            value * factor + noise
        });
        let bytes =
            |values: Vec<f32>| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let (current, base) = (bytes(decayed.collect()), bytes(base));
        let decay = Decay::find::<u32>(&current, &base, fields);
        let wanted = (-1e-4 * 2f64.powi(32)) as i32;
        assert!((decay.rate - wanted).abs() < 2000, "{} {wanted}", decay.rate);
        assert_eq!(Decay::find::<u32>(&base, &base, fields).rate, 0);
        assert_eq!(Decay::find::<u32>(&base[..8], &base[..8], fields).rate, 0);
    }
}
