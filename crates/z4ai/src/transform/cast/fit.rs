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
use std::cell::OnceCell;

/// Elements that a section needs for a cast to be worth looking for. Structured: half no gain, double
/// +0.0003 %.
const SMALLEST_CAST: usize = 1 << 9;
/// Elements, from all over the section, that are looked at, and how many of them are looked at first.
/// Structured: half or double of either changes no size.
const CAST_SAMPLE: usize = 1 << 12;
const CAST_FIRST_LOOK: usize = 1 << 6;
/// Elements that are converted at a time, on the stack: more than the eighth of the first look that may be
/// exceptions, so that the first glance refuses ordinary weights.
const CAST_GLANCE: usize = 1 << 4;
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
        // One side may fit a narrower type than the other; the wider of the two holds both.
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

    /// The options for the narrower elements.
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
struct ElementSample<'a> {
    dtype: Dtype,
    section: &'a [u8],
    /// A few, which refuse ordinary weights.
    first: Vec<u8>,
    /// Taken only where those few refuse nothing.
    more: OnceCell<Vec<u8>>,
}

impl<'a> ElementSample<'a> {
    /// Takes a sample of sections that are long enough.
    fn of(section: &'a [u8], dtype: Dtype) -> Option<Self> {
        if section.len() / dtype.scalar_width() < SMALLEST_CAST || floats(dtype).is_empty() {
            return None;
        }
        let first = spread(section, dtype, CAST_FIRST_LOOK);
        Some(Self { dtype, section, first, more: OnceCell::new() })
    }

    /// The whole sample.
    fn more(&self) -> &[u8] {
        self.more.get_or_init(|| spread(self.section, self.dtype, CAST_SAMPLE))
    }

    /// The narrowest float type that all but a few elements come from, if there is one.
    fn float(&self) -> Option<Source> {
        let sources = floats(self.dtype).iter().map(|&source| Source::float(source));
        sources.into_iter().find(|&source| self.comes_from(source))
    }

    /// The integers that all but a few elements are, over as small a power of ten as may be.
    fn decimals(&self) -> Option<Source> {
        let (&narrowest, &widest) = integers(self.dtype).first().zip(integers(self.dtype).last())?;
        let mut places = 0..=self.most_places()?;
        let places = places.find(|&places| self.comes_from(Source::decimals(widest, places)))?;
        let narrow = Source::decimals(narrowest, places);
        let wide = Source::decimals(widest, places);
        let count = |source| exceptions(self.more(), self.dtype, source).sum::<usize>();
        Some(if count(narrow) <= count(wide) { narrow } else { wide })
    }

    /// The most places after the point that say something about elements. With many, all numbers of two bytes
    /// are decimals; so the step between decimals must be at least two of those between elements, for all but
    /// the smallest quarter of them.
    fn most_places(&self) -> Option<u8> {
        let Some(layout) = self.dtype.float_layout().filter(|layout| layout.width == 2) else {
            return Some(MOST_PLACES);
        };
        let mut heads = [0; CAST_FIRST_LOOK];
        let heads = &mut heads[..self.first.len() / 2];
        layout.read_heads(&self.first, heads);
        let mut magnitudes: Vec<u16> =
            heads.iter().map(|head| head & 0x7fff).filter(|&magnitude| magnitude > 0).collect();
        let quarter = magnitudes.len() / 4;
        if magnitudes.is_empty() {
            return None;
        }
        let exponent = i32::from(*magnitudes.select_nth_unstable(quarter).1 >> layout.head_mantissa_bits());
        let bias = (1 << (layout.exponent_bits - 1)) - 1;
        let step = exponent - bias - layout.head_mantissa_bits() as i32 + 1;
        let is_coarse = |&places: &u8| f64::from(places) * std::f64::consts::LOG2_10 <= f64::from(-step);
        (0..=MOST_PLACES).take_while(is_coarse).last()
    }

    /// Whether all but a few elements are numbers of `source`. Zeros are numbers of every type, so that
    /// elements which are all zeros tell nothing and come from none.
    fn comes_from(&self, source: Source) -> bool {
        let allowed = || self.more().len() / self.dtype.scalar_width() / EXCEPTIONS;
        has_few_exceptions(&self.first, self.dtype, source, CAST_FIRST_LOOK / 8)
            && has_few_exceptions(self.more(), self.dtype, source, allowed())
            && self.more().iter().any(|&byte| byte != 0)
    }
}

/// At most so many whole elements of a section, from all over it.
fn spread(section: &[u8], dtype: Dtype, most: usize) -> Vec<u8> {
    fn copied<const WIDTH: usize>(section: &[u8], most: usize) -> Vec<u8> {
        let elements = section.as_chunks::<WIDTH>().0;
        let spread: Vec<[u8; WIDTH]> =
            elements.iter().step_by(elements.len().div_ceil(most).max(1)).copied().collect();
        spread.into_flattened()
    }
    match dtype.scalar_width() {
        2 => copied::<2>(section, most),
        4 => copied::<4>(section, most),
        _ => copied::<8>(section, most),
    }
}

/// Whether one type comes before another among those that elements of `dtype` may come from.
fn is_before(one: Source, other: Source, dtype: Dtype) -> bool {
    let place = |source: Source| floats(dtype).iter().position(|&known| known == source.dtype);
    place(one) < place(other)
}

/// How many of these elements are no numbers of `source`, glance by glance.
fn exceptions(elements: &[u8], dtype: Dtype, source: Source) -> impl Iterator<Item = usize> {
    let glances = elements.chunks(CAST_GLANCE * dtype.scalar_width());
    glances.map(move |elements| few_exceptions(elements, dtype, source))
}

/// Whether at most `allowed` elements are no numbers of `source`. Stops at the glance that exceeds this.
fn has_few_exceptions(elements: &[u8], dtype: Dtype, source: Source, allowed: usize) -> bool {
    let mut found = 0;
    exceptions(elements, dtype, source).all(|more| {
        found += more;
        found <= allowed
    })
}

/// How many of at most [`CAST_GLANCE`] elements are no numbers of `source`.
fn few_exceptions(elements: &[u8], dtype: Dtype, source: Source) -> usize {
    const WIDEST: usize = 8;
    let width = dtype.scalar_width();
    let count = elements.len() / width;
    let (mut narrow, mut wide) = ([0; CAST_GLANCE * WIDEST], [0; CAST_GLANCE * WIDEST]);
    let (narrow, wide) = (&mut narrow[..count * source.width()], &mut wide[..count * width]);
    source.narrow(elements, dtype, narrow);
    source.widen(narrow, dtype, wide);
    match width {
        2 => unequal::<2>(elements, wide),
        4 => unequal::<4>(elements, wide),
        _ => unequal::<8>(elements, wide),
    }
}

/// How many elements differ from those of the same place.
fn unequal<const WIDTH: usize>(elements: &[u8], others: &[u8]) -> usize {
    let (elements, others) = (elements.as_chunks::<WIDTH>().0, others.as_chunks::<WIDTH>().0);
    elements.iter().zip(others).map(|(element, other)| usize::from(element != other)).sum()
}
