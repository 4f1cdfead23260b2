//! Elements from those of the type that they come from.

use super::model::CastModel;
use super::with_scratch;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::{Model, Position};

impl CastModel {
    pub(super) fn decode_block(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        let (width, elements) = (self.dtype.scalar_width(), self.count(out.len()));
        let count = reader.length()?;
        if count > elements {
            return Err(Error::corrupt("a block has more exceptions than elements"));
        }
        let mut places = Vec::with_capacity(count);
        let mut next = 0usize;
        for _ in 0..count {
            let place = next.checked_add(reader.length()?).filter(|&place| place < elements);
            let place = place.ok_or_else(|| Error::corrupt("an exception lies outside its block"))?;
            places.push(place);
            next = place + 1;
        }
        let exceptions = reader.take(count * width)?;
        // Its end is known because blocks of some models go on to the end of what there is.
        let length = reader.length()?;
        let mut inner = Reader::new(reader.take(length)?, "cast block");
        let base = if matches!(self.inner, Model::Reference(_)) { at.reference } else { &[] };
        let lengths = [elements, self.count(base.len())].map(|count| count * self.source.width());
        with_scratch(lengths, |[narrow, reference]| {
            self.source.narrow(base, self.dtype, reference);
            self.inner.decode(&mut inner, Position { start: at.start, reference }, narrow)?;
            inner.finish()?;
            self.source.widen(narrow, self.dtype, out);
            Ok(())
        })?;
        for (place, exception) in places.into_iter().zip(exceptions.chunks_exact(width)) {
            out[place * width..(place + 1) * width].copy_from_slice(exception);
        }
        Ok(())
    }
}
