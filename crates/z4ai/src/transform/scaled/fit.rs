//! Whether rows and columns tell something about the bytes of a section, and what.

use super::model::ScaledModel;
use crate::arch;
use crate::dtype::Dtype;
use crate::entropy::plane;
use crate::entropy::table::{FrequencyTable, MAX_PRECISION, entropy_bits};
use crate::error::Result;
use crate::transform::scale_contexts::{Candidate, ScaleTables, ScaledSymbols};

/// The most contexts that are used: their tables have 16 KiB each, and with twice as many the entropy is
/// at most 0.1 % lower (fp8 of real weights in blocks of 128 × 128).
const USED_CONTEXTS: usize = 8;
/// One part in so many is what contexts must save: a single table, which stays in the first-level cache,
/// decodes faster. A round number.
const CONTEXTS_GAIN: u64 = 256;
/// Elements from which on tables may be worth their description: eight of these take some hundred bytes each.
/// A round number.
const FEWEST_BYTES: usize = 1 << 12;

impl ScaledModel {
    /// Makes the model for a section of elements in rows of `row_length`, if contexts save something.
    pub fn fit(bytes: &[u8], dtype: Dtype, row_length: Option<usize>, block: usize) -> Result<Option<Self>> {
        let Some((key, steps)) = key_of(dtype, bytes) else { return Ok(None) };
        Self::fit_keyed(bytes, key, steps, row_length, block)
    }

    /// Makes the model for bytes that `key` maps to the logarithm of a magnitude; a context spans one of
    /// `steps` of its units.
    pub fn fit_keyed(
        bytes: &[u8],
        key: impl Fn(u8) -> u8,
        steps: [i64; 3],
        row_length: Option<usize>,
        block: usize,
    ) -> Result<Option<Self>> {
        if bytes.len() < FEWEST_BYTES {
            return Ok(None);
        }
        if row_length.is_none_or(|length| bytes.len() / length < 2) {
            return Ok(None);
        }
        let mut keys = vec![0; bytes.len()];
        arch::vectorised(
            #[inline(always)]
            || keys.iter_mut().zip(bytes).for_each(|(to, &byte)| *to = key(byte)),
        );
        let all = ScaledSymbols { symbols: bytes, keys: &keys, row_length, steps, most: USED_CONTEXTS };
        let best = all.choose();
        let alone = entropy_bits(&plane::histogram_of(bytes));
        if best.scales.row_length == 0 || best.cost > alone - alone / CONTEXTS_GAIN {
            return Ok(None);
        }
        let counts = best.count(bytes, block);
        let Candidate { scales, window, .. } = best;
        let tables = counts[..window.contexts].iter().map(|counts| {
            let mut counts = *counts;
            // A table needs two symbols with a frequency.
            for symbol in 0..2 {
                if counts.iter().filter(|&&count| count > 0).count() < 2 {
                    counts[symbol] = counts[symbol].max(1);
                }
            }
            FrequencyTable::normalise(&counts, MAX_PRECISION)
        });
        Ok(Some(Self(ScaleTables::new(scales, window, tables.collect())?)))
    }
}

/// Maps an element to a number that grows with the logarithm of its magnitude.
type Key = fn(u8) -> u8;

/// The keys of elements of a dtype, and the units of them that a context may span, in the order in which they
/// are tried. The first is about half an octave of the dtype; not compared with others.
fn key_of(dtype: Dtype, bytes: &[u8]) -> Option<(Key, [i64; 3])> {
    match dtype {
        Dtype::F8E4M3 => Some((|byte| byte & 0x7f, [3, 2, 6])),
        Dtype::F8E5M2 => Some((|byte| byte & 0x7f, [2, 1, 3])),
        Dtype::I8 => Some((|byte| (byte as i8).unsigned_abs(), [4, 2, 8])),
        // Codes of optimizers are in the order of what they stand for, those of numbers with a sign on both
        // sides of the middle, as are levels with a zero point.
        Dtype::U8 if is_centred(bytes) => {
            Some((|byte| if byte < 128 { 127 - byte } else { byte - 128 }, [4, 2, 8]))
        }
        Dtype::U8 => Some((|byte| byte, [8, 4, 16])),
        _ => None,
    }
}

/// Whether about as many bytes are below the middle as above it.
fn is_centred(bytes: &[u8]) -> bool {
    let below = bytes.iter().filter(|&&byte| byte < 128).count();
    (bytes.len() * 7..bytes.len() * 9).contains(&(16 * below))
}
