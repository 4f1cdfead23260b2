//! HDF5 chunks. The tensor is cut into slabs, one per row of chunks, which are contiguous in the output and so can be filled by several
//! cores at once; where there are too few slabs to go round, the chunks of one slab are undone side by side instead.

use rayon::prelude::*;

use super::filter::{self, Scratch};
use super::{Files, allocate, order, stored};
use crate::error::{Error, Result};
use crate::index::{Chunk, Chunked};

/// Chunks undone side by side before they are put in place; bounds the memory beside the output.
const BATCH: usize = 16;

/// Decodes all chunks into a buffer of exactly the tensor's length.
pub(super) fn decode(files: &Files, chunked: &Chunked, out: &mut [u8]) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let plan = Plan::new(chunked, out.len())?;
    let work = |number: usize, slab: &mut [u8], scratch: &mut Scratch| {
        let chunks = plan.chunks_of(number);
        if (chunks.len() as u64) < plan.per_slab {
            order::fill(&chunked.fill, slab)?;
        }
        for chunk in chunks {
            plan.place_one(files, chunk, slab, scratch)?;
        }
        Ok(())
    };
    let slabs = out.len().div_ceil(plan.slab);
    if slabs >= 2 * rayon::current_num_threads() || plan.per_slab == 1 {
        return out
            .par_chunks_mut(plan.slab)
            .enumerate()
            .try_for_each_init(Scratch::default, |scratch, (number, slab)| work(number, slab, scratch));
    }
    let mut buffers = vec![Vec::new(); BATCH];
    for (number, slab) in out.chunks_mut(plan.slab).enumerate() {
        let chunks = plan.chunks_of(number);
        if (chunks.len() as u64) < plan.per_slab {
            order::fill(&chunked.fill, slab)?;
        }
        for batch in chunks.chunks(BATCH) {
            batch
                .par_iter()
                .zip(&mut buffers)
                .try_for_each_init(Scratch::default, |scratch, (chunk, buffer)| {
                    plan.undo_into(files, chunk, buffer, scratch)
                })?;
            for (chunk, bytes) in batch.iter().zip(&buffers) {
                plan.scatter(chunk.number, bytes, slab);
            }
        }
    }
    Ok(())
}

/// Sizes worked out once, all checked against the output.
struct Plan<'a> {
    chunked: &'a Chunked,
    /// Dimensions of the tensor and of a chunk.
    shape: Vec<usize>,
    chunk: Vec<usize>,
    /// Chunks per dimension.
    counts: Vec<u64>,
    /// Chunks in a slab.
    per_slab: u64,
    /// Bytes of a slab; the last one may be shorter.
    slab: usize,
    /// Bytes of a chunk before filters.
    chunk_bytes: usize,
}

impl<'a> Plan<'a> {
    fn new(chunked: &'a Chunked, length: usize) -> Result<Self> {
        let wrong = || Error::malformed("the chunks do not match the shape of the tensor");
        let (shape, chunk) = (chunked.shape.to_usize(), chunked.chunk_shape.to_usize());
        let (shape, chunk) = (shape.ok_or_else(wrong)?, chunk.ok_or_else(wrong)?);
        let product = |dimensions: &[usize]| {
            dimensions.iter().try_fold(chunked.width, |bytes, &d| bytes.checked_mul(d)).ok_or_else(wrong)
        };
        let matching = shape.len() == chunk.len() && !shape.is_empty() && !chunk.contains(&0);
        if !matching || product(&shape)? != length || chunked.fill.len() != chunked.width {
            return Err(wrong());
        }
        let counts: Vec<u64> = shape.iter().zip(&chunk).map(|(d, c)| d.div_ceil(*c) as u64).collect();
        let row = product(&shape[1..])?;
        Ok(Plan {
            chunked,
            per_slab: counts[1..].iter().product(),
            slab: row.saturating_mul(chunk[0]).min(length),
            chunk_bytes: product(&chunk)?,
            shape,
            chunk,
            counts,
        })
    }

    /// The chunks of one slab.
    fn chunks_of(&self, slab: usize) -> &'a [Chunk] {
        let chunks = &self.chunked.chunks;
        let first = slab as u64 * self.per_slab;
        let start = chunks.partition_point(|chunk| chunk.number < first);
        let end = chunks.partition_point(|chunk| chunk.number < first + self.per_slab);
        &chunks[start..end]
    }

    fn place_one(&self, files: &Files, chunk: &Chunk, slab: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        // A chunk as wide as the tensor lies in the slab as it is, unless it reaches over the lower edge.
        if self.per_slab == 1 && slab.len() == self.chunk_bytes && self.shape[1..] == self.chunk[1..] {
            let bytes = stored(files, chunk.span)?;
            return filter::undo(&bytes, &self.chunked.filters, chunk.filter_mask, slab, scratch)
                .map_err(|error| error.with_offset(chunk.span.offset));
        }
        let mut bytes = std::mem::take(&mut scratch.chunk);
        self.undo_into(files, chunk, &mut bytes, scratch)?;
        self.scatter(chunk.number, &bytes, slab);
        scratch.chunk = bytes;
        Ok(())
    }

    fn undo_into(
        &self,
        files: &Files,
        chunk: &Chunk,
        bytes: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let stored = stored(files, chunk.span)?;
        if self.chunk_bytes > filter::longest(stored.len()) {
            return Err(
                Error::malformed("a chunk is too short to hold its elements").with_offset(chunk.span.offset)
            );
        }
        if bytes.len() != self.chunk_bytes {
            *bytes = allocate(self.chunk_bytes as u64)?;
        }
        filter::undo(&stored, &self.chunked.filters, chunk.filter_mask, bytes, scratch)
            .map_err(|error| error.with_offset(chunk.span.offset))
    }

    /// Copies the part of a chunk that lies inside the tensor, run by run, into its slab.
    fn scatter(&self, number: u64, bytes: &[u8], slab: &mut [u8]) {
        let rank = self.shape.len();
        let width = self.chunked.width;
        // Position of the chunk, the part of it inside the tensor, and the strides of both, innermost first.
        let mut extents = vec![0; rank];
        let mut from_strides = vec![0; rank];
        let mut to_strides = vec![0; rank];
        let (mut left, mut from_stride, mut to_stride, mut to) = (number, width, width, 0);
        for dimension in (0..rank).rev() {
            let place = (left % self.counts[dimension]) as usize;
            left /= self.counts[dimension];
            let origin = place * self.chunk[dimension];
            extents[dimension] = self.chunk[dimension].min(self.shape[dimension] - origin);
            from_strides[dimension] = from_stride;
            to_strides[dimension] = to_stride;
            // The slab begins where the chunk does in the first dimension.
            if dimension > 0 {
                to += origin * to_stride;
                from_stride *= self.chunk[dimension];
                to_stride *= self.shape[dimension];
            }
        }
        // Inner dimensions that are whole in both make one run.
        let mut run = width;
        let mut outer = rank;
        while outer > 0 && from_strides[outer - 1] == run && to_strides[outer - 1] == run {
            run *= extents[outer - 1];
            outer -= 1;
        }
        let runs: usize = extents[..outer].iter().product();
        let mut counter = vec![0; outer];
        let mut from = 0;
        for _ in 0..runs {
            slab[to..to + run].copy_from_slice(&bytes[from..from + run]);
            for dimension in (0..outer).rev() {
                counter[dimension] += 1;
                from += from_strides[dimension];
                to += to_strides[dimension];
                if counter[dimension] < extents[dimension] {
                    break;
                }
                from -= from_strides[dimension] * extents[dimension];
                to -= to_strides[dimension] * extents[dimension];
                counter[dimension] = 0;
            }
        }
    }
}
