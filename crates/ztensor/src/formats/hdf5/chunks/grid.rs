//! The grid that chunks make over a dataset: places, numbers, and which chunks reach over the edge.

use super::super::message::layout::ChunkedLayout;
use crate::error::{Error, Result};

/// A dataset cut into chunks.
pub(in super::super) struct Grid {
    dimensions: Vec<u64>,
    chunk: Vec<u64>,
    /// Chunks per dimension of the dataset as it is.
    counts: Vec<u64>,
    /// Chunks per dimension of the dataset at its largest; `None` where it may grow without end.
    most: Vec<Option<u64>>,
    count: u64,
    /// Bytes of one chunk before filters.
    pub bytes: u64,
}

impl Grid {
    pub fn new(dimensions: &[u64], maximum: &[Option<u64>], layout: &ChunkedLayout) -> Result<Grid> {
        let chunk = layout.dimensions.clone();
        if chunk.len() != dimensions.len() {
            return Err(Error::malformed("the chunks have another number of dimensions than the dataset"));
        }
        let bytes = chunk.iter().try_fold(layout.width, |bytes, &d| bytes.checked_mul(d));
        let bytes = bytes.ok_or_else(|| Error::malformed("the size of a chunk overflows"))?;
        let counts: Vec<u64> = dimensions.iter().zip(&chunk).map(|(d, c)| d.div_ceil(*c)).collect();
        let count = counts.iter().try_fold(1u64, |count, &c| count.checked_mul(c));
        let count = count.ok_or_else(|| Error::malformed("the number of chunks overflows"))?;
        let most = if maximum.is_empty() {
            counts.iter().map(|&count| Some(count)).collect()
        } else {
            maximum.iter().zip(&chunk).map(|(d, c)| d.map(|d| d.div_ceil(*c))).collect()
        };
        Ok(Grid { dimensions: dimensions.to_vec(), chunk, counts, most, count, bytes })
    }

    pub fn rank(&self) -> usize {
        self.chunk.len()
    }

    /// The dimensions of a chunk.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// The number of chunks.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Chunks per dimension at the dataset's largest.
    pub fn most(&self) -> &[Option<u64>] {
        &self.most
    }

    /// The row-major number of a place; `None` outside the dataset.
    pub fn number(&self, place: &[u64]) -> Option<u64> {
        let mut number = 0u64;
        for (&place, &count) in place.iter().zip(&self.counts) {
            if place >= count {
                return None;
            }
            // Cannot overflow: the number stays below the product of the counts.
            number = number * count + place;
        }
        Some(number)
    }

    /// The place of a number, the inverse of [`number`](Self::number).
    pub fn place(&self, mut number: u64, place: &mut [u64]) {
        for (place, &count) in place.iter_mut().zip(&self.counts).rev() {
            *place = number % count.max(1);
            number /= count.max(1);
        }
    }

    /// The number of a place in the grid at its largest.
    pub fn number_at_largest(&self, place: &[u64]) -> Option<u64> {
        let mut number = 0u64;
        for (&place, &most) in place.iter().zip(&self.most) {
            number = number.checked_mul(most?)?.checked_add(place)?;
        }
        Some(number)
    }

    /// Whether a chunk reaches over the edge of the dataset.
    pub fn is_partial(&self, place: &[u64]) -> bool {
        place.iter().zip(&self.dimensions).zip(&self.chunk).any(|((&place, &dimension), &chunk)| {
            place.checked_add(1).and_then(|next| next.checked_mul(chunk)).is_none_or(|end| end > dimension)
        })
    }
}
