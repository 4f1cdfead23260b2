//! Whether elements come from a narrower type: a few of them refuse ordinary weights at once.

use super::convert::convert;
use super::model::{CastModel, sources};
use crate::arch::memory;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::options::Options;
use crate::transform::Model;
use crate::transform::reference::Fields;

/// Elements that a section needs for a cast to be worth looking for.
const SMALLEST: usize = 1 << 9;
/// Elements, from all over the section, that are looked at, and how many of them are looked at first.
const LOOKED_AT: usize = 1 << 12;
const FIRST: usize = 1 << 6;
/// One in so many may be an exception, which takes about four bytes.
const EXCEPTIONS: usize = 1 << 8;

/// Elements as those of the type that they come from.
#[derive(Debug)]
pub(crate) struct Narrowed {
    dtype: Dtype,
    source: Dtype,
    /// The elements of the narrower type.
    pub bytes: Vec<u8>,
}

impl Narrowed {
    /// The whole elements `bytes` of type `dtype`, if they come from a narrower type.
    pub fn of(bytes: &[u8], dtype: Dtype) -> Result<Option<Self>> {
        source(bytes, dtype).map(|source| Self::from_source(bytes, dtype, source)).transpose()
    }

    /// A section of a delta and its reference as elements of the narrower type, if both come from it, and the fields of that.
    pub fn pair(bytes: &[u8], reference: &[u8], options: &Options) -> Result<Option<(Self, Self, Fields)>> {
        let Some(dtype) = options.dtype else { return Ok(None) };
        let found = source(bytes, dtype).zip(source(reference, dtype));
        // One may hold nothing but numbers that are narrower still.
        let Some(source) = found.map(|(one, other)| if is_before(one, other, dtype) { other } else { one })
        else {
            return Ok(None);
        };
        let Some(fields) = Fields::of(source).filter(|fields| fields.width > 1) else { return Ok(None) };
        let narrow = |bytes| Self::from_source(bytes, dtype, source);
        Ok(Some((narrow(bytes)?, narrow(reference)?, fields)))
    }

    /// Elements as those of `source`, rounded where they are no numbers of it.
    pub fn from_source(bytes: &[u8], dtype: Dtype, source: Dtype) -> Result<Self> {
        let mut narrow = memory::zeroed(bytes.len() / dtype.scalar_width() * source.width())?;
        convert(bytes, dtype, source, &mut narrow);
        Ok(Self { dtype, source, bytes: narrow })
    }

    /// The type that elements come from.
    pub fn source(&self) -> Dtype {
        self.source
    }

    /// Bytes of as many wide elements as there are in so many bytes of narrow ones.
    pub fn wide_length(&self, bytes: usize) -> usize {
        bytes / self.source.width() * self.dtype.scalar_width()
    }

    /// The same options for the narrower elements.
    pub fn options(&self, options: &Options) -> Options {
        let mut shape = options.shape.clone();
        if let (Some(shape), true) = (&mut shape, self.dtype.width() > self.dtype.scalar_width()) {
            shape.push(2);
        }
        Options { dtype: Some(self.source), shape, ..options.clone() }
    }

    /// The model of the wide elements from that of the narrow ones.
    pub fn model(&self, inner: Model) -> Model {
        CastModel::new(self.dtype, self.source, inner).into()
    }
}

/// The narrowest type that all but a few elements come from, if there is one.
fn source(bytes: &[u8], dtype: Dtype) -> Option<Dtype> {
    let width = dtype.scalar_width();
    let count = bytes.len() / width;
    if count < SMALLEST {
        return None;
    }
    let spread = |most: usize| -> Vec<u8> {
        bytes.chunks_exact(width).step_by(count.div_ceil(most)).flatten().copied().collect()
    };
    let first = spread(FIRST);
    let is_plausible = |&&source: &&Dtype| exceptions(&first, dtype, source) * 8 <= FIRST;
    let plausible: Vec<Dtype> = sources(dtype).iter().filter(is_plausible).copied().collect();
    if plausible.is_empty() {
        return None;
    }
    let more = spread(LOOKED_AT);
    // Zeros are numbers of every type.
    if more.iter().all(|&byte| byte == 0) {
        return None;
    }
    let allowed = more.len() / width / EXCEPTIONS;
    plausible.into_iter().find(|&source| exceptions(&more, dtype, source) <= allowed)
}

/// Whether one type comes before another among those that elements of `dtype` may come from.
fn is_before(one: Dtype, other: Dtype, dtype: Dtype) -> bool {
    let place = |source| sources(dtype).iter().position(|&known| known == source);
    place(one) < place(other)
}

/// How many elements are no numbers of `source`.
fn exceptions(elements: &[u8], dtype: Dtype, source: Dtype) -> usize {
    let width = dtype.scalar_width();
    let mut narrow = vec![0; elements.len() / width * source.width()];
    convert(elements, dtype, source, &mut narrow);
    let mut wide = vec![0; elements.len()];
    convert(&narrow, source, dtype, &mut wide);
    elements
        .chunks_exact(width)
        .zip(wide.chunks_exact(width))
        .filter(|(element, wide)| element != wide)
        .count()
}
