//! Tensors in boxes, and regions of any tensor: only the boxes that a region touches are read, and of those only the rows it needs. What lies as one run in
//! a box and in the output is decoded straight into it; the rest goes through windows of a few MiB.

use rayon::prelude::*;

use super::{Files, allocate, range_into as component_range_into};
use crate::error::{Error, Result};
use crate::index::{Boxes, Data, StoredBox};

/// Bytes of a box that are decoded at once where its rows are scattered over the output.
const WINDOW: u64 = 4 << 20;
/// Windows that are decoded side by side, at most: one for each thread. With their size it bounds the memory beside
/// the output.
const BATCH: usize = 16;

/// Decodes the bytes of a tensor from `start` on, as many as the buffer takes.
pub(super) fn range_into(files: &Files, boxes: &Boxes, start: u64, out: &mut [u8]) -> Result<()> {
    let end = start + out.len() as u64;
    if end > boxes.length() {
        return Err(Error::malformed("the boxes are shorter than the tensor"));
    }
    if out.is_empty() {
        return Ok(());
    }
    // A range of whole rows is a region; any other is cut out of one.
    let shape = &boxes.shape;
    let rows = shape.first().copied().unwrap_or(1);
    let row = boxes.length() / rows;
    let (first, last) = (start / row, end.div_ceil(row));
    let mut starts = vec![0; shape.len()];
    let mut lengths = shape.to_vec();
    if let (Some(from), Some(count)) = (starts.first_mut(), lengths.first_mut()) {
        (*from, *count) = (first, last - first);
    }
    let all: Vec<&StoredBox> = boxes.boxes.iter().collect();
    if start == first * row && end == last * row {
        return region_into(files, &all, boxes.width, &starts, &lengths, out);
    }
    let mut covering = allocate((last - first) * row)?;
    region_into(files, &all, boxes.width, &starts, &lengths, &mut covering)?;
    let from = (start - first * row) as usize;
    out.copy_from_slice(&covering[from..from + out.len()]);
    Ok(())
}

/// Decodes a region of a tensor in boxes of elements of `width` bytes; the buffer is exactly as long as the region.
pub(crate) fn region_into(
    files: &Files,
    boxes: &[&StoredBox],
    width: u64,
    starts: &[u64],
    lengths: &[u64],
    out: &mut [u8],
) -> Result<()> {
    let mut straight = Vec::new();
    let mut windows = Vec::new();
    for stored in boxes {
        if let Some(common) = Common::of(stored, width, starts, lengths) {
            match common.is_one_run() {
                true => straight.push(common),
                false => windows.extend(common.windows()),
            }
        }
    }
    // Boxes are disjoint, so that their runs are disjoint parts of the output.
    straight.sort_by_key(|common| common.to());
    let mut parts = Vec::with_capacity(straight.len());
    let (mut rest, mut position) = (&mut *out, 0);
    for common in straight {
        let (from, length) = (common.to() as usize - position, common.run as usize);
        let (part, later) = rest
            .get_mut(from..)
            .filter(|rest| rest.len() >= length)
            .ok_or_else(|| Error::malformed("boxes overlap"))?
            .split_at_mut(length);
        parts.push((common, part));
        (rest, position) = (later, position + from + length);
    }
    parts.into_par_iter().try_for_each(|(common, part)| {
        component_range_into(files, &common.stored.component, common.from(), part)
    })?;
    for batch in windows.chunks(rayon::current_num_threads().min(BATCH)) {
        let decode = |window: &Common<'_>| {
            let mut bytes = allocate(window.span())?;
            component_range_into(files, &window.stored.component, window.from(), &mut bytes)?;
            Ok(bytes)
        };
        let decoded = batch.par_iter().map(decode).collect::<Result<Vec<_>>>()?;
        batch.iter().zip(&decoded).for_each(|(window, bytes)| window.scatter(bytes, out));
    }
    Ok(())
}

/// What a box and a region have in common, cut into runs that are contiguous in both.
struct Common<'a> {
    stored: &'a StoredBox,
    /// Elements in each dimension, the first element in the box and in the region, and bytes from one to the next in both.
    extents: Vec<u64>,
    in_box: Vec<u64>,
    in_region: Vec<u64>,
    box_strides: Vec<u64>,
    region_strides: Vec<u64>,
    /// Dimensions that the runs are counted by; those behind are inside a run.
    outer: usize,
    /// Bytes of a run.
    run: u64,
}

impl<'a> Common<'a> {
    /// `None` if there is nothing.
    fn of(stored: &'a StoredBox, width: u64, starts: &[u64], lengths: &[u64]) -> Option<Common<'a>> {
        let (offsets, sizes) = (&stored.offsets, &stored.sizes);
        let (mut extents, mut in_box, mut in_region) = (Vec::new(), Vec::new(), Vec::new());
        for dimension in 0..starts.len() {
            let low = starts[dimension].max(offsets[dimension]);
            let high = (starts[dimension] + lengths[dimension]).min(offsets[dimension] + sizes[dimension]);
            extents.push(high.checked_sub(low).filter(|extent| *extent > 0)?);
            in_box.push(low - offsets[dimension]);
            in_region.push(low - starts[dimension]);
        }
        let (box_strides, region_strides) = (strides(sizes, width), strides(lengths, width));
        let (mut outer, mut run) = (extents.len(), width);
        while outer > 0 && box_strides[outer - 1] == run && region_strides[outer - 1] == run {
            run *= extents[outer - 1];
            outer -= 1;
        }
        Some(Common { stored, extents, in_box, in_region, box_strides, region_strides, outer, run })
    }

    fn is_one_run(&self) -> bool {
        self.extents[..self.outer].iter().all(|extent| *extent == 1)
    }

    /// Its first byte in the box.
    fn from(&self) -> u64 {
        self.in_box.iter().zip(&self.box_strides).map(|(place, stride)| place * stride).sum()
    }

    /// Its first byte in the region.
    fn to(&self) -> u64 {
        self.in_region.iter().zip(&self.region_strides).map(|(place, stride)| place * stride).sum()
    }

    /// Bytes in the box from the first run to the end of the last.
    fn span(&self) -> u64 {
        let outer = self.extents[..self.outer].iter().zip(&self.box_strides);
        outer.map(|(extent, stride)| (extent - 1) * stride).sum::<u64>() + self.run
    }

    /// The same, in windows of rows along the first dimension that has several. Data that can only be decoded whole is one window.
    fn windows(self) -> Vec<Common<'a>> {
        let along = self.extents.iter().position(|extent| *extent > 1).unwrap_or(0);
        let ranged =
            matches!(self.stored.component.data, Data::Raw(_) | Data::Z4ai(_) | Data::ZstdSeekable(_));
        let rows = match ranged {
            true => (WINDOW / self.box_strides[along].max(1)).max(1),
            false => self.extents[along],
        };
        let cut = |first: u64| {
            let mut window = Common {
                stored: self.stored,
                extents: self.extents.clone(),
                in_box: self.in_box.clone(),
                in_region: self.in_region.clone(),
                box_strides: self.box_strides.clone(),
                region_strides: self.region_strides.clone(),
                outer: self.outer,
                run: self.run,
            };
            window.extents[along] = rows.min(self.extents[along] - first);
            window.in_box[along] += first;
            window.in_region[along] += first;
            window
        };
        (0..self.extents[along]).step_by(rows as usize).map(cut).collect()
    }

    /// Copies its runs from the bytes of its span to their places in the output.
    fn scatter(&self, bytes: &[u8], out: &mut [u8]) {
        let runs: u64 = self.extents[..self.outer].iter().product();
        let run = self.run as usize;
        let mut counter = vec![0; self.outer];
        let (mut from, mut to) = (0, self.to());
        for _ in 0..runs {
            out[to as usize..to as usize + run].copy_from_slice(&bytes[from as usize..from as usize + run]);
            for dimension in (0..self.outer).rev() {
                counter[dimension] += 1;
                from += self.box_strides[dimension];
                to += self.region_strides[dimension];
                if counter[dimension] < self.extents[dimension] {
                    break;
                }
                from -= self.box_strides[dimension] * self.extents[dimension];
                to -= self.region_strides[dimension] * self.extents[dimension];
                counter[dimension] = 0;
            }
        }
    }
}

/// Bytes from one element to the next in each dimension, row-major.
fn strides(sizes: &[u64], width: u64) -> Vec<u64> {
    let mut strides = vec![width; sizes.len()];
    for dimension in (1..sizes.len()).rev() {
        strides[dimension - 1] = strides[dimension] * sizes[dimension];
    }
    strides
}
