//! A bitmap, the signs of the zeros and a dense rest to a block.

use super::model::SparseModel;
use super::steps::Steps;
use crate::arch::{dispatch, memory};
use crate::entropy::plane;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::Position;

impl SparseModel {
    /// Decodes a block.
    pub(super) fn decode_block(&self, reader: &mut Reader, out: &mut [u8]) -> Result<()> {
        let count = out.len() / self.width;
        let bitmap = plane::read_bytes(reader, count.div_ceil(8))?;
        let sign_bytes = reader.length()?;
        if sign_bytes > bitmap.len() {
            return Err(Error::corrupt("more signs of zeros than elements"));
        }
        let zero_signs = plane::read_bytes(reader, sign_bytes)?;
        let mut dense = memory::zeroed(dense_count(&bitmap, count)? * self.width)?;
        self.dense.decode(reader, Position::element(0), &mut dense)?;
        decode(&bitmap, &zero_signs, &dense, self.width, out)
    }
}

/// How many elements a bitmap says are not zero, if it fits `count` elements. This is the length of the dense
/// rest.
pub(crate) fn dense_count(bitmap: &[u8], count: usize) -> Result<usize> {
    let unused =
        bitmap.len().checked_mul(8).and_then(|bits| bits.checked_sub(count)).filter(|&unused| unused < 8);
    let unused = unused.ok_or_else(|| Error::corrupt("a sparse block has one bit per element"))?;
    if bitmap.last().is_some_and(|&last| u32::from(last) >> (8 - unused) != 0) {
        return Err(Error::corrupt("a sparse bitmap marks elements past the end"));
    }
    let (words, rest) = bitmap.as_chunks();
    let count: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
    Ok(count as usize + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>())
}

/// Puts zeros and dense elements of a block together again.
pub(crate) fn decode(
    bitmap: &[u8],
    zero_signs: &[u8],
    dense: &[u8],
    width: usize,
    out: &mut [u8],
) -> Result<()> {
    match width {
        1 => decode_width::<1>(bitmap, zero_signs, dense, out),
        2 => decode_width::<2>(bitmap, zero_signs, dense, out),
        4 => decode_width::<4>(bitmap, zero_signs, dense, out),
        8 => decode_width::<8>(bitmap, zero_signs, dense, out),
        _ => Err(Error::corrupt("sparse elements have 1, 2, 4 or 8 bytes")),
    }
}

fn decode_width<const WIDTH: usize>(
    bitmap: &[u8],
    zero_signs: &[u8],
    dense: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let (elements, rest) = out.as_chunks_mut::<WIDTH>();
    let filled = dense_count(bitmap, elements.len())?;
    let sign_bytes = if zero_signs.is_empty() { 0 } else { (elements.len() - filled).div_ceil(8) };
    let (dense, partial) = dense.as_chunks::<WIDTH>();
    if !rest.is_empty() || !partial.is_empty() || dense.len() != filled || zero_signs.len() != sign_bytes {
        return Err(Error::corrupt("the planes of a sparse block have the lengths that its bitmap asks for"));
    }
    dispatch!(kernel => kernel.spread(bitmap, dense, elements));
    if !zero_signs.is_empty() {
        restore_signs(bitmap, zero_signs, elements);
    }
    Ok(())
}

/// Gives the zeros their signs.
fn restore_signs<const WIDTH: usize>(bitmap: &[u8], zero_signs: &[u8], elements: &mut [[u8; WIDTH]]) {
    let mut zeros = 0_usize;
    for (elements, &mask) in elements.chunks_mut(8).zip(bitmap) {
        for (bit, element) in elements.iter_mut().enumerate() {
            if mask >> bit & 1 == 0 {
                let minus = zero_signs.get(zeros / 8).is_some_and(|byte| byte >> (zeros % 8) & 1 != 0);
                element[WIDTH - 1] = u8::from(minus) << 7;
                zeros += 1;
            }
        }
    }
}
