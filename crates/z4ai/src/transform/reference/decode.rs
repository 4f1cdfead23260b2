//! Classes, symbols and raw bits to floats, one block at a time.

use super::counts::{View, exponent_numbers};
use super::element::Word;
use super::model::ReferenceModel;
use super::raw_bits::RawReader;
use super::{CHUNK, for_width};
use crate::arch::Kernel;
use crate::entropy::rans;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// Chunks whose symbols are decoded together.
const BATCH: usize = 16;

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

/// The temporaries of a batch.
struct Batch {
    offsets: [u16; BATCH * CHUNK],
    symbols: [u8; BATCH * CHUNK],
    length: usize,
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
    let mut stream = if coded == 0 {
        match reader.length()? {
            0 => None,
            _ => return Err(Error::corrupt("differences of chunks without differences")),
        }
    } else {
        Some(rans::Decoder::open(model.contexts.tables.decoder(), reader, coded, kernel)?)
    };
    let mut raw = RawReader::open(reader)?;
    let mut batch = Batch { offsets: [0; BATCH * CHUNK], symbols: [0; BATCH * CHUNK], length: 0 };
    let length = BATCH * CHUNK * W::BYTES;
    let parts = out.chunks_mut(length).zip(reference.chunks(length)).zip(classes.chunks(BATCH));
    for ((out, reference), classes) in parts {
        kernel.vectorised(
            #[inline(always)]
            || batch.find_contexts::<W>(model, reference, classes, kernel),
        )?;
        if let Some(stream) = stream.as_mut().filter(|_| batch.length > 0) {
            let offsets = if model.contexts.is_single() { &[][..] } else { &batch.offsets[..batch.length] };
            stream.decode(offsets, &mut batch.symbols[..batch.length])?;
        }
        kernel.vectorised(
            #[inline(always)]
            || batch.restore::<W>(model.view, &mut raw, reference, classes, kernel, out),
        );
    }
    if let Some(stream) = stream {
        stream.finish()?;
    }
    raw.finish()
}

impl Batch {
    /// Puts the contexts of the coded chunks one after the other.
    #[inline(always)]
    fn find_contexts<W: Word>(
        &mut self,
        model: &ReferenceModel,
        reference: &[u8],
        classes: &[u8],
        kernel: Kernel,
    ) -> Result<()> {
        let precision = model.contexts.tables.precision();
        let (mut numbers, mut contexts) = ([0; CHUNK], [0; CHUNK]);
        self.length = 0;
        for (&class, base) in classes.iter().zip(reference.chunks(CHUNK * W::BYTES)) {
            if class == 0 {
                continue;
            }
            let row = model.contexts.of_class(class)?;
            let count = base.len() / W::BYTES;
            if !model.contexts.is_single() {
                exponent_numbers::<W>(base, model.view, &mut numbers);
                kernel.look_up(row, &numbers, &mut contexts);
                if let Some(offsets) = self.offsets.get_mut(self.length..self.length + count) {
                    for (offset, &context) in offsets.iter_mut().zip(&contexts) {
                        *offset = u16::from(context) << precision;
                    }
                }
            }
            self.length += count;
        }
        Ok(())
    }

    /// Makes the elements of a batch from its symbols.
    #[inline(always)]
    fn restore<W: Word>(
        &self,
        view: View,
        raw: &mut RawReader,
        reference: &[u8],
        classes: &[u8],
        kernel: Kernel,
        out: &mut [u8],
    ) {
        let mut symbols = &self.symbols[..self.length];
        let chunks = out.chunks_mut(CHUNK * W::BYTES).zip(reference.chunks(CHUNK * W::BYTES));
        for ((out, base), &class) in chunks.zip(classes) {
            if class == 0 && view.decay.rate == 0 {
                out.copy_from_slice(base);
                continue;
            }
            let mut differences = [W::default(); CHUNK];
            if class != 0 {
                let (own, rest) = symbols.split_at((base.len() / W::BYTES).min(symbols.len()));
                symbols = rest;
                raw.read(own, kernel, &mut differences);
            }
            if view.decay.rate == 0 {
                restore_chunk::<W, false>(&differences, base, view, out);
            } else {
                restore_chunk::<W, true>(&differences, base, view, out);
            }
        }
    }
}

#[inline(always)]
fn restore_chunk<W: Word, const DECAY: bool>(
    differences: &[W; CHUNK],
    base: &[u8],
    view: View,
    out: &mut [u8],
) {
    let elements = out.chunks_exact_mut(W::BYTES).zip(base.chunks_exact(W::BYTES));
    for ((out, base), &difference) in elements.zip(differences) {
        W::restore::<DECAY>(difference, W::from_bytes(base), view.decay).to_bytes(out);
    }
}
