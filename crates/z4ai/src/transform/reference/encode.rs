//! Floats to classes, symbols and raw bits, one block at a time.

use super::counts::ChunkScratch;
use super::element::Word;
use super::model::ReferenceModel;
use super::raw_bits::RawBits;
use super::symbols::Alphabet;
use super::{CHUNK, EXPONENTS, for_width};
use crate::arch::Kernel;
use crate::entropy::rans;
use crate::error::{Error, Result};
use crate::frame::wire::put_length;

impl ReferenceModel {
    /// Appends a block of whole elements against as many.
    pub fn encode(&self, bytes: &[u8], reference: &[u8], kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        if bytes.len() != reference.len() {
            return Err(Error::corrupt("a block that its reference does not have"));
        }
        for_width!(self.view.fields, encode, self, bytes, reference, kernel, out)
    }
}

fn encode<W: Word>(
    model: &ReferenceModel,
    bytes: &[u8],
    reference: &[u8],
    kernel: Kernel,
    out: &mut Vec<u8>,
) -> Result<()> {
    let alphabet = Alphabet::of_width(W::BYTES);
    let mut scratch = ChunkScratch::<W>::default();
    let (mut classes, mut symbols, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    let mut raw = RawBits::default();
    let length = CHUNK * W::BYTES;
    for (chunk, base) in bytes.chunks(length).zip(reference.chunks(length)) {
        let class = kernel.vectorised(
            #[inline(always)]
            || scratch.transform(chunk, base, model.view, &model.levels),
        );
        classes.push(class);
        if class == 0 {
            continue;
        }
        let coded = &scratch.symbols[..scratch.length];
        symbols.extend_from_slice(coded);
        if !model.contexts.is_single() {
            let row = model.contexts.of_class(class)?;
            let numbers = &scratch.exponents[..scratch.length];
            contexts.extend(numbers.iter().map(|&number| row[usize::from(number) % EXPONENTS]));
        }
        for (&symbol, difference) in coded.iter().zip(&scratch.differences) {
            let width = alphabet.raw_bits(symbol);
            if width > 0 {
                let low = difference.wide() & ((1 << width) - 1);
                if W::BYTES == 8 { raw.put_long(low, width) } else { raw.put(low, width) }
            }
        }
    }
    model.classes.encode(&classes, kernel, out);
    if symbols.is_empty() {
        put_length(out, 0);
    } else {
        rans::encode(model.contexts.tables.encoder(), &symbols, &contexts, kernel, out);
    }
    out.extend_from_slice(&raw.finish());
    Ok(())
}
