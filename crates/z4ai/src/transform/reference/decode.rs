//! Classes, symbols and raw bits to floats, one block at a time.

use super::counts::{View, exponent_numbers};
use super::element::Word;
use super::model::ReferenceModel;
use super::raw_bits::RawReader;
use super::{CHUNK, for_width};
use crate::arch::{Kernel, Restoration};
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
    let missing = CHUNK - 1 - (count + CHUNK - 1) % CHUNK;
    let mut coded = classes.iter().filter(|&&class| class != 0).count() * CHUNK;
    if classes.last().is_some_and(|&class| class != 0) {
        coded -= missing;
    }
    let mut stream = match (coded, usize::from(reader.u8()?)) {
        (0, 0) => None,
        (0, _) => return Err(Error::corrupt("differences of chunks without differences")),
        (_, lanes @ (1 | 4 | LANES)) => {
            Some(rans::Decoder::open_in(lanes, model.contexts.tables.decoder(), reader, kernel)?)
        }
        _ => return Err(Error::corrupt("differences in an unknown number of lanes")),
    };
    let mut raw = RawReader::open(reader)?;
    let length = CHUNK * W::BYTES;
    for ((out, base), &class) in out.chunks_mut(length).zip(reference.chunks(length)).zip(&classes) {
        let decay_only = class == 0 && model.view.decay.rate != 0;
        match stream.as_mut().filter(|_| class != 0) {
            Some(stream) => restore_chunk::<W>(model, class, stream, &mut raw, base, kernel, out)?,
            None if decay_only => apply(&[W::default(); CHUNK], base, model.view, kernel, out),
            None => out.copy_from_slice(base),
        }
    }
    if let Some(stream) = stream {
        stream.finish()?;
    }
    raw.finish()
}

/// Makes a chunk that has symbols.
fn restore_chunk<W: Word>(
    model: &ReferenceModel,
    class: u8,
    stream: &mut rans::Decoder,
    raw: &mut RawReader,
    base: &[u8],
    kernel: Kernel,
    out: &mut [u8],
) -> Result<()> {
    let row = model.contexts.of_class(class)?;
    let inputs = Restoration { movement: model.view.movement(), contexts: row, base };
    let done = stream.restore::<W>(inputs, raw, out) * W::BYTES;
    let (base, out) = (&base[done..], &mut out[done..]);
    let count = out.len() / W::BYTES;
    if count == 0 {
        return Ok(());
    }
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
