//! Whether elements come from a narrower type: a few of them refuse ordinary weights at once.

use super::decimals::MOST_PLACES;
use super::model::CastModel;
use super::source::{Source, floats, integers};
use crate::arch::memory;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::options::Options;
use crate::transform::Model;
use crate::transform::reference::ElementFields;

/// Elements that a section needs for a cast to be worth looking for. Structured: half no gain, double
/// +0.0003 %.
const SMALLEST_CAST: usize = 1 << 9;
/// Elements, from all over the section, that are looked at, and how many of them are looked at first.
/// Structured: half or double of either changes no size.
const CAST_SAMPLE: usize = 1 << 12;
const CAST_FIRST_LOOK: usize = 1 << 6;
/// One in so many may be an exception, which takes about four bytes. Structured: half or double changes no
/// size.
const EXCEPTIONS: usize = 1 << 8;

/// Elements as those of the type that they come from.
#[derive(Debug)]
pub(crate) struct Narrowed {
    dtype: Dtype,
    source: Source,
    /// The elements of the narrower type.
    pub bytes: Vec<u8>,
}

impl Narrowed {
    /// The whole elements `bytes` of type `dtype`, if they come from a narrower type or are decimals.
    pub fn of(bytes: &[u8], dtype: Dtype) -> Result<Option<Self>> {
        let Some(sample) = ElementSample::of(bytes, dtype) else { return Ok(None) };
        let source = sample.float().or_else(|| sample.decimals());
        source.map(|source| Self::from_source(bytes, dtype, source)).transpose()
    }

    /// A section of a delta and its reference as elements of the narrower type, if both come from it, and the
    /// fields of that.
    pub fn pair(
        bytes: &[u8],
        reference: &[u8],
        options: &Options,
    ) -> Result<Option<(Self, Self, ElementFields)>> {
        let Some(dtype) = options.dtype else { return Ok(None) };
        let source = |bytes| ElementSample::of(bytes, dtype)?.float();
        let found = source(bytes).zip(source(reference));
        // One may hold nothing but numbers that are narrower still.
        let Some(source) = found.map(|(one, other)| if is_before(one, other, dtype) { other } else { one })
        else {
            return Ok(None);
        };
        let Some(fields) = ElementFields::of(source.dtype).filter(|fields| fields.width > 1) else {
            return Ok(None);
        };
        let narrow = |bytes| Self::from_source(bytes, dtype, source);
        Ok(Some((narrow(bytes)?, narrow(reference)?, fields)))
    }

    /// Elements as those of `source`, rounded where they are no numbers of it.
    pub fn from_source(bytes: &[u8], dtype: Dtype, source: Source) -> Result<Self> {
        let mut narrow = memory::zeroed(bytes.len() / dtype.scalar_width() * source.width())?;
        source.narrow(bytes, dtype, &mut narrow);
        Ok(Self { dtype, source, bytes: narrow })
    }

    /// The type that elements come from.
    pub fn source(&self) -> Source {
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
        Options { dtype: Some(self.source.dtype), shape, ..options.clone() }
    }

    /// The model of the wide elements from that of the narrow ones.
    pub fn model(&self, inner: Model) -> Model {
        CastModel::new(self.dtype, self.source, inner).into()
    }
}

/// Some elements of a section, from all over it.
struct ElementSample {
    dtype: Dtype,
    /// A few, which refuse ordinary weights.
    first: Vec<u8>,
    more: Vec<u8>,
}

impl ElementSample {
    /// Takes a sample of sections that are long enough and not all zeros, which are numbers of every type.
    fn of(bytes: &[u8], dtype: Dtype) -> Option<Self> {
        let width = dtype.scalar_width();
        let count = bytes.len() / width;
        if count < SMALLEST_CAST || floats(dtype).is_empty() {
            return None;
        }
        let spread = |most: usize| -> Vec<u8> {
            bytes.chunks_exact(width).step_by(count.div_ceil(most)).flatten().copied().collect()
        };
        let sample = Self { dtype, first: spread(CAST_FIRST_LOOK), more: spread(CAST_SAMPLE) };
        sample.more.iter().any(|&byte| byte != 0).then_some(sample)
    }

    /// The narrowest float type that all but a few elements come from, if there is one.
    fn float(&self) -> Option<Source> {
        let sources = floats(self.dtype).iter().map(|&source| Source::float(source));
        sources.into_iter().find(|&source| self.comes_from(source))
    }

    /// The integers that all but a few elements are, over as small a power of ten as may be.
    fn decimals(&self) -> Option<Source> {
        let (&narrowest, &widest) = integers(self.dtype).first().zip(integers(self.dtype).last())?;
        let places = (0..=MOST_PLACES).find(|&places| self.comes_from(Source::decimals(widest, places)))?;
        let narrow = Source::decimals(narrowest, places);
        let is_enough = exceptions(&self.more, self.dtype, narrow)
            <= exceptions(&self.more, self.dtype, Source::decimals(widest, places));
        Some(if is_enough { narrow } else { Source::decimals(widest, places) })
    }

    fn comes_from(&self, source: Source) -> bool {
        let allowed = self.more.len() / self.dtype.scalar_width() / EXCEPTIONS;
        exceptions(&self.first, self.dtype, source) * 8 <= CAST_FIRST_LOOK
            && exceptions(&self.more, self.dtype, source) <= allowed
    }
}

/// Whether one type comes before another among those that elements of `dtype` may come from.
fn is_before(one: Source, other: Source, dtype: Dtype) -> bool {
    let place = |source: Source| floats(dtype).iter().position(|&known| known == source.dtype);
    place(one) < place(other)
}

/// How many elements are no numbers of `source`.
fn exceptions(elements: &[u8], dtype: Dtype, source: Source) -> usize {
    let width = dtype.scalar_width();
    let mut narrow = vec![0; elements.len() / width * source.width()];
    source.narrow(elements, dtype, &mut narrow);
    let mut wide = vec![0; elements.len()];
    source.widen(&narrow, dtype, &mut wide);
    elements
        .chunks_exact(width)
        .zip(wide.chunks_exact(width))
        .filter(|(element, wide)| element != wide)
        .count()
}
