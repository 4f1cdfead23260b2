//! A prediction of the ratio, from a sample.

use crate::compress::compress;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::options::Options;

/// Bytes that are compressed for an estimate: some hundredths of a second on one core. A round number.
const ESTIMATED_BYTES: usize = 8 << 20;
/// Pieces that the sample is taken in: a megabyte each, which fills the lanes of several blocks. A round
/// number.
const PIECES: usize = 8;

/// Predicts how many times smaller [`compress`] would make `bytes`, by compressing at most 8 MiB of them.
///
/// ```
/// let ratio = z4ai::estimate(&[0; 4096], &z4ai::Options::default())?;
/// assert!(ratio > 10.0);
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn estimate(bytes: &[u8], options: &Options) -> Result<f64> {
    options.check_shape(bytes.len() as u64)?;
    if bytes.len() <= ESTIMATED_BYTES {
        return Ok(bytes.len() as f64 / compress(bytes, options)?.len() as f64);
    }
    // Pieces of whole rows, so that columns are seen as they are.
    let width = options.dtype.map_or(1, Dtype::width);
    let row = options.row_length().map_or(width, |length| length * options.scalar_width());
    let row = if row > ESTIMATED_BYTES / PIECES { width } else { row };
    let piece = ESTIMATED_BYTES / PIECES / row * row;
    let step = bytes.len() / PIECES / row * row;
    let shape = options.row_length().map(|_| vec![(piece / row) as u64, (row / width) as u64]);
    let options = Options { shape: shape.filter(|_| row > width), ..options.clone() };
    let mut encoded = 0;
    for index in 0..PIECES {
        let part = bytes.get(index * step..).and_then(|rest| rest.get(..piece)).unwrap_or_default();
        encoded += compress(part, &options)?.len();
    }
    Ok((piece * PIECES) as f64 / encoded as f64)
}
