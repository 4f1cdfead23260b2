//! Classes, symbols and raw bits to floats, one block at a time.

use super::counts::{View, exponent_numbers};
use super::element::Word;
use super::model::ReferenceModel;
use super::raw_bits::RawReader;
use super::{CHUNK, CLASSES, EXPONENTS, for_width, listed};
use crate::arch::{CodedChunk, Kernel, Restoration};
use crate::entropy::rans::{self, LANES};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

impl ReferenceModel {
    /// Decodes a block of whole elements against as many.
    pub fn decode(
        &self,
        reader: &mut Reader,
        reference: &[u8],
        kernel: Kernel,
        out: &mut [u8],
    ) -> Result<()> {
        if out.len() != reference.len() {
            return Err(Error::corrupt("a block that its reference does not have"));
        }
        for_width!(self.view.fields, decode, self, reader, reference, kernel, out)
    }
}

fn decode<W: Word>(
    model: &ReferenceModel,
    reader: &mut Reader,
    reference: &[u8],
    kernel: Kernel,
    out: &mut [u8],
) -> Result<()> {
    let count = out.len() / W::BYTES;
    let classes = model.classes.decode(reader, count.div_ceil(CHUNK), kernel)?;
    let chunks = coded_chunks(model, &classes)?;
    let length = reader.length()?;
    let sets = listed::read(&classes, reader.take(length)?)?;
    let stream = match (chunks.is_empty(), usize::from(reader.u8()?)) {
        (true, 0) => None,
        (true, _) => return Err(Error::corrupt("differences of chunks without differences")),
        (_, lanes @ (1 | 4 | LANES)) => {
            Some(rans::Decoder::open_in(lanes, model.contexts.tables.decoder(), reader, kernel)?)
        }
        _ => return Err(Error::corrupt("differences in an unknown number of lanes")),
    };
    let raw = RawReader::open(reader)?;
    restore_listed::<W>(model, &classes, &sets, reference, kernel, out)?;
    match stream {
        Some(stream) => restore::<W>(model, &chunks, stream, raw, reference, kernel, out),
        None => raw.finish(),
    }
}

/// Makes the chunks without differences, and those that list the elements that have one.
fn restore_listed<W: Word>(
    model: &ReferenceModel,
    classes: &[u8],
    sets: &[u64],
    reference: &[u8],
    kernel: Kernel,
    out: &mut [u8],
) -> Result<()> {
    let (length, mut sets) = (CHUNK * W::BYTES, sets.iter());
    for ((out, base), &class) in out.chunks_mut(length).zip(reference.chunks(length)).zip(classes) {
        let count = listed::count_of(class);
        if class != 0 && count.is_none() {
            continue;
        }
        if model.view.decay.rate != 0 {
            let done = kernel.decay::<W>(model.view.movement(), base, out);
            apply(&[W::default(); CHUNK], &base[done..], model.view, kernel, &mut out[done..]);
        } else {
            out.copy_from_slice(base);
        }
        if let Some((count, &number)) = count.and_then(|count| Some((count, sets.next()?))) {
            let places = listed::places(number, count)?;
            for place in places.into_iter().take(count).map(|place| place * W::BYTES) {
                let element = place..place + W::BYTES;
                let (Some(out), Some(base)) = (out.get_mut(element.clone()), base.get(element)) else {
                    return Err(Error::corrupt("a difference of an element beyond the last"));
                };
                W::restore::<true>(W::from_wide(1), W::from_bytes(base), model.view.decay).to_bytes(out);
            }
        }
    }
    Ok(())
}

/// The chunks that have symbols.
fn coded_chunks(model: &ReferenceModel, classes: &[u8]) -> Result<Vec<CodedChunk>> {
    if classes.iter().any(|&class| usize::from(class) >= CLASSES && listed::count_of(class).is_none()) {
        return Err(Error::corrupt("a chunk of an unknown class"));
    }
    let coded = (0..).zip(classes).filter(|(_, class)| **class != 0 && usize::from(**class) < CLASSES);
    coded
        .map(|(number, &class)| model.contexts.of_class(class).map(|_| CodedChunk { number, class }))
        .collect()
}

/// Makes the chunks that have symbols.
fn restore<W: Word>(
    model: &ReferenceModel,
    chunks: &[CodedChunk],
    mut stream: rans::Decoder,
    mut raw: RawReader,
    base: &[u8],
    kernel: Kernel,
    out: &mut [u8],
) -> Result<()> {
    let (movement, contexts) = (model.view.movement(), model.contexts.rows());
    let inputs = Restoration { movement, contexts, chunks, made: 0, base };
    let made = stream.restore::<W>(inputs, &mut raw, out)?;
    let mut skip = made % CHUNK;
    for chunk in chunks.iter().skip(made / CHUNK) {
        let start = chunk.number as usize * CHUNK;
        let place = (start + skip) * W::BYTES..out.len().min((start + CHUNK) * W::BYTES);
        let row = model.contexts.of_class(chunk.class)?;
        restore_chunk::<W>(model, row, &mut stream, &mut raw, &base[place.clone()], kernel, &mut out[place])?;
        skip = 0;
    }
    stream.finish()?;
    raw.finish()
}

/// Makes the elements of a chunk.
fn restore_chunk<W: Word>(
    model: &ReferenceModel,
    row: &[u8; EXPONENTS],
    stream: &mut rans::Decoder,
    raw: &mut RawReader,
    base: &[u8],
    kernel: Kernel,
    out: &mut [u8],
) -> Result<()> {
    let count = out.len() / W::BYTES;
    let (mut numbers, mut symbols, mut offsets) = ([0; CHUNK], [0; CHUNK], [0; CHUNK]);
    if !model.contexts.is_single() {
        let mut found = [0; CHUNK];
        exponent_numbers::<W>(base, model.view, &mut numbers);
        kernel.look_up(row, &numbers, &mut found);
        let precision = model.contexts.tables.precision();
        offsets.iter_mut().zip(found).for_each(|(offset, context)| *offset = u16::from(context) << precision);
    }
    let offsets = if !model.contexts.is_single() { &offsets[..count] } else { &[] };
    stream.decode(offsets, &mut symbols[..count])?;
    let mut differences = [W::default(); CHUNK];
    raw.read(&symbols[..count], kernel, &mut differences);
    apply(&differences, base, model.view, kernel, out);
    Ok(())
}

/// Makes elements from their differences to those of the base.
fn apply<W: Word>(differences: &[W; CHUNK], base: &[u8], view: View, kernel: Kernel, out: &mut [u8]) {
    kernel.vectorised(
        #[inline(always)]
        || {
            let elements = out.chunks_exact_mut(W::BYTES).zip(base.chunks_exact(W::BYTES));
            for ((out, base), &difference) in elements.zip(differences) {
                W::restore::<true>(difference, W::from_bytes(base), view.decay).to_bytes(out);
            }
        },
    );
}
