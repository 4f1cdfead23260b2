//! What all blocks of a section share: the decay, which exponents are told apart, the contexts, and how the classes of chunks are coded.

use super::classes::Classes;
use super::contexts::Contexts;
use super::counts::{Counts, View, top_exponent};
use super::decay::Decay;
use super::element::Word;
use super::symbols::Alphabet;
use super::{CHUNK, Fields, for_width};
use crate::arch::Kernel;
use crate::entropy::plane::PlaneModel;
use crate::entropy::table::entropy_bits;
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length, put_signed};
use crate::threads;

/// The shared description of a section of floats against a reference.
#[derive(Debug)]
pub(crate) struct ReferenceModel {
    pub(super) view: View,
    /// Which classes the encoder gives to chunks; the decoder need not know.
    pub(super) levels: Classes,
    pub(super) contexts: Contexts,
    pub(super) classes: PlaneModel,
}

/// Elements counted by one thread at a time.
const STRETCH: usize = 1 << 21;

impl ReferenceModel {
    /// Makes the model for whole elements against as many, and estimates the bits that they will take.
    pub fn fit(fields: Fields, bytes: &[u8], reference: &[u8], kernel: Kernel) -> Result<(Self, u64)> {
        let (view, levels, counts) = for_width!(fields, measure, fields, bytes, reference, kernel);
        let (contexts, symbol_bits) = Contexts::choose(&counts)?;
        let classes = PlaneModel::choose(&counts.classes, 0)?;
        let bits = symbol_bits + counts.raw_bits + entropy_bits(&counts.classes);
        Ok((Self { view, levels, contexts, classes }, bits))
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        put_signed(out, self.view.decay.rate.into());
        put_length(out, self.view.top_exponent);
        self.contexts.write(kernel, out)?;
        self.classes.write(out);
        Ok(())
    }

    /// Reads the model.
    pub fn read(fields: Fields, reader: &mut Reader, kernel: Kernel) -> Result<Self> {
        let rate = i32::try_from(reader.signed()?);
        let rate = rate.map_err(|_| Error::corrupt("a decay of more than one half"))?;
        let top_exponent = reader.length()?;
        if top_exponent >= fields.exponents() {
            return Err(Error::corrupt("an exponent that the dtype does not have"));
        }
        let view = View { fields, decay: Decay::new(rate, fields), top_exponent };
        let symbols = Alphabet::of_width(fields.width).symbols(fields.width);
        let (contexts, classes) = (Contexts::read(reader, symbols, kernel)?, PlaneModel::read(reader)?);
        Ok(Self { view, levels: Classes::default(), contexts, classes })
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let classes = self.classes.skip(reader, elements.div_ceil(CHUNK))?;
        let sets = reader.length()?;
        reader.take(sets)?;
        let stream = if reader.u8()? == 0 { 0 } else { reader.length()? };
        reader.take(stream)?;
        let parts = [
            ("classes of chunks", classes),
            ("sets of elements", sets),
            ("differences", stream),
            ("raw low bits", reader.remaining()),
        ];
        Ok(parts.map(|(name, length)| (name.to_owned(), length)).to_vec())
    }
}

fn measure<W: Word>(
    fields: Fields,
    bytes: &[u8],
    reference: &[u8],
    kernel: Kernel,
) -> (View, Classes, Counts) {
    let view = View {
        fields,
        decay: Decay::find::<W>(bytes, reference, fields, kernel),
        top_exponent: top_exponent::<W>(reference, fields),
    };
    let levels = Classes::choose::<W>(bytes, reference, view, kernel);
    let stretch = STRETCH * W::BYTES;
    let stretches = bytes.chunks(stretch).zip(reference.chunks(stretch));
    let counts = threads::map(stretches, |(bytes, reference)| {
        Counts::of::<W>(bytes, reference, view, &levels, kernel)
    });
    let total = counts.into_iter().reduce(|total, counts| total.merge(counts));
    (view, levels, total.unwrap_or_default())
}
