//! The bytes below the head of four- and eight-byte floats. They are noise, except where values came from a
//! narrower format: then their low bits are zero, often in some rows of a tensor and not in others. Rows
//! whose lowest byte is always zero ("short" rows) have planes, and tables, of their own.

use super::FLOAT_CHUNK;
use crate::dtype::FloatLayout;
use crate::entropy::plane::{self, PlaneDecoder, PlaneModel};
use crate::entropy::table::Histogram;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use std::ops::Range;

/// The most bytes below a head.
pub(in crate::transform) const MAX_TAILS: usize = 6;
/// Part of a plane (in 1/1024) that entropy coding must save. Weights: half no gain, double +0.005 %.
const TAIL_GAIN: u64 = 16;
/// Elements of a plane that are looked at before all are. Weights: half +0.005 %, double no gain.
const SAMPLED_TAILS: usize = 1 << 16;

/// How the tails of a section are coded.
#[derive(Debug)]
pub(in crate::transform) struct Tails {
    /// One per byte, the least significant first: of all rows, or of those that are not short.
    full: Vec<PlaneModel>,
    short: Option<ShortRows>,
}

/// Rows with planes of their own.
#[derive(Debug)]
pub(in crate::transform) struct ShortRows {
    row_length: usize,
    /// One bit per row.
    bitmap: Vec<u8>,
    planes: Vec<PlaneModel>,
}

impl ShortRows {
    fn contains(&self, row: usize) -> bool {
        self.bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }

    /// The stretches of elements `start..start + count` that lie in one row, relative to `start`, and whether
    /// that row is short.
    fn stretches(&self, start: usize, count: usize) -> impl Iterator<Item = (bool, Range<usize>)> {
        let mut position = 0;
        std::iter::from_fn(move || {
            let (row, column) = ((start + position) / self.row_length, (start + position) % self.row_length);
            let end = count.min(position + self.row_length - column);
            let stretch = (self.contains(row), position..end);
            position = end;
            (!stretch.1.is_empty()).then_some(stretch)
        })
    }
}

impl Tails {
    /// Makes the models for a section of whole elements.
    pub fn fit(layout: FloatLayout, bytes: &[u8], row_length: Option<usize>) -> Result<Self> {
        let count = layout.tail_bytes();
        let rows = row_length
            .filter(|_| count > 0)
            .and_then(|length| short_rows(layout, bytes, length).zip(Some(length)));
        let Some((bitmap, row_length)) = rows else {
            let full = (0..count).map(|tail| choose_plane(layout, bytes, tail)).collect::<Result<_>>()?;
            return Ok(Self { full, short: None });
        };
        let mut short = ShortRows { row_length, bitmap, planes: Vec::new() };
        let mut full = Vec::new();
        for tail in 0..count {
            let mut histograms: [Histogram; 2] = [[0; 256]; 2];
            for (row, elements) in bytes.chunks(row_length * layout.width).enumerate() {
                let histogram = &mut histograms[usize::from(short.contains(row))];
                elements
                    .chunks_exact(layout.width)
                    .for_each(|element| histogram[usize::from(element[tail])] += 1);
            }
            full.push(PlaneModel::choose(&histograms[0], TAIL_GAIN)?);
            short.planes.push(PlaneModel::choose(&histograms[1], TAIL_GAIN)?);
        }
        Ok(Self { full, short: Some(short) })
    }

    /// Appends the models.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.full.is_empty() {
            return Ok(());
        }
        put_length(out, self.short.as_ref().map_or(0, |short| short.row_length));
        self.full.iter().for_each(|plane| plane.write(out));
        if let Some(short) = &self.short {
            short.planes.iter().for_each(|plane| plane.write(out));
            plane::write_bytes(&short.bitmap, out)?;
        }
        Ok(())
    }

    /// Reads the models of a section of `elements` elements.
    pub fn read(layout: FloatLayout, reader: &mut Reader, elements: usize) -> Result<Self> {
        let count = layout.tail_bytes();
        if count == 0 {
            return Ok(Self { full: Vec::new(), short: None });
        }
        let row_length = reader.length()?;
        if row_length > elements {
            return Err(Error::corrupt("a row is longer than its section"));
        }
        let mut planes = || (0..count).map(|_| PlaneModel::read(reader)).collect::<Result<Vec<_>>>();
        let full = planes()?;
        if row_length == 0 {
            return Ok(Self { full, short: None });
        }
        let planes = planes()?;
        let bitmap = plane::read_bytes(reader, elements.div_ceil(row_length).div_ceil(8))?;
        Ok(Self { full, short: Some(ShortRows { row_length, bitmap, planes }) })
    }

    /// Appends the tails of a block of elements of `width` bytes, the first of which is element `start` of
    /// the section.
    pub fn encode(&self, bytes: &[u8], width: usize, start: usize, out: &mut Vec<u8>) {
        let count = bytes.len() / width;
        let mut plane = Vec::with_capacity(count);
        for (tail, model) in self.full.iter().enumerate() {
            let Some(short) = &self.short else {
                plane.clear();
                plane.extend(bytes.chunks_exact(width).map(|element| element[tail]));
                model.encode(&plane, out);
                continue;
            };
            for (class, model) in [(false, model), (true, &short.planes[tail])] {
                plane.clear();
                for (_, range) in short.stretches(start, count).filter(|(is_short, _)| *is_short == class) {
                    let elements = bytes[range.start * width..range.end * width].chunks_exact(width);
                    plane.extend(elements.map(|element| element[tail]));
                }
                model.encode(&plane, out);
            }
        }
    }

    /// Opens the tails of a block of `count` elements.
    pub fn decoder<'m, 'a: 'm>(
        &'m self,
        reader: &mut Reader<'a>,
        start: usize,
        count: usize,
    ) -> Result<TailsDecoder<'m>> {
        let Some(short) = &self.short else {
            let planes = self.full.iter().map(|model| model.decoder(reader, count));
            return Ok(TailsDecoder::Uniform(planes.collect::<Result<_>>()?));
        };
        let mut counts = [0; 2];
        for (is_short, range) in short.stretches(start, count) {
            counts[usize::from(is_short)] += range.len();
        }
        let mut planes = Vec::new();
        for (full, short) in self.full.iter().zip(&short.planes) {
            planes.push([full.decode(reader, counts[0])?, short.decode(reader, counts[1])?]);
        }
        Ok(TailsDecoder::Mixed { short, planes, used: [0; 2], position: start })
    }

    /// Passes over the tails of a block, and names their planes with their encoded lengths.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        if self.short.is_some() {
            return Ok(vec![("mantissa bytes".to_owned(), reader.remaining())]);
        }
        let part = |(index, tail): (usize, &PlaneModel)| {
            Ok((format!("mantissa byte {index}"), tail.skip(reader, elements)?))
        };
        self.full.iter().enumerate().map(part).collect()
    }
}

/// Reads the tails of a block piece by piece.
pub(in crate::transform) enum TailsDecoder<'m> {
    /// The same planes for all rows.
    Uniform(Vec<PlaneDecoder<'m>>),
    /// Decoded planes of full and short rows.
    Mixed { short: &'m ShortRows, planes: Vec<[Vec<u8>; 2]>, used: [usize; 2], position: usize },
}

impl<'m> TailsDecoder<'m> {
    /// The next `count` bytes of each plane.
    pub fn next<'b>(
        &mut self,
        count: usize,
        buffers: &'b mut [[u8; FLOAT_CHUNK]; MAX_TAILS],
    ) -> Result<[&'b [u8]; MAX_TAILS]>
    where
        'm: 'b,
    {
        let mut pieces: [&[u8]; MAX_TAILS] = [&[]; MAX_TAILS];
        match self {
            Self::Uniform(planes) => {
                for ((piece, plane), buffer) in pieces.iter_mut().zip(planes).zip(buffers) {
                    *piece = plane.next(count, buffer)?;
                }
            }
            Self::Mixed { short, planes, used, position } => {
                let missing = || Error::truncated("mantissa planes");
                for (is_short, range) in short.stretches(*position, count) {
                    let class = usize::from(is_short);
                    let source = used[class]..used[class] + range.len();
                    for (plane, buffer) in planes.iter().zip(buffers.iter_mut()) {
                        let bytes = plane[class].get(source.clone()).ok_or_else(missing)?;
                        buffer.get_mut(range.clone()).ok_or_else(missing)?.copy_from_slice(bytes);
                    }
                    used[class] = source.end;
                }
                *position += count;
                for (piece, buffer) in pieces.iter_mut().zip(buffers).take(planes.len()) {
                    *piece = buffer.get(..count).ok_or_else(missing)?;
                }
            }
        }
        Ok(pieces)
    }

    /// Fails unless every plane ended where it should.
    pub fn finish(&self) -> Result<()> {
        match self {
            Self::Uniform(planes) => planes.iter().try_for_each(PlaneDecoder::finish),
            Self::Mixed { .. } => Ok(()),
        }
    }
}

/// A bitmap of the rows whose lowest byte is always zero, if some are and some are not.
fn short_rows(layout: FloatLayout, bytes: &[u8], row_length: usize) -> Option<Vec<u8>> {
    let rows = bytes.len().div_ceil(row_length * layout.width);
    let mut bitmap = vec![0u8; rows.div_ceil(8)];
    let mut found = 0;
    for (row, elements) in bytes.chunks(row_length * layout.width).enumerate() {
        if elements.chunks_exact(layout.width).all(|element| element[0] == 0) {
            bitmap[row / 8] |= 1 << (row % 8);
            found += 1;
        }
    }
    // The bitmap and the second set of tables must pay for themselves.
    (found < rows && found * row_length > rows / 8 + 64).then_some(bitmap)
}

/// The model of plane `tail` of all rows: a sample first, since most tails are noise and need no full count.
fn choose_plane(layout: FloatLayout, bytes: &[u8], tail: usize) -> Result<PlaneModel> {
    let elements = bytes.len() / layout.width;
    let plane =
        |stride: usize| bytes.chunks_exact(layout.width).step_by(stride).map(move |element| element[tail]);
    let stride = (elements / SAMPLED_TAILS).max(1);
    if stride > 1
        && let PlaneModel::Raw = PlaneModel::choose(&plane::histogram(plane(stride)), TAIL_GAIN)?
    {
        return Ok(PlaneModel::Raw);
    }
    PlaneModel::choose(&plane::histogram(plane(1)), TAIL_GAIN)
}
