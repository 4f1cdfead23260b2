//! Floats to classes, symbols and raw bits, one block at a time.

use super::counts::ChunkScratch;
use super::element::Word;
use super::model::ReferenceModel;
use super::steps::Steps;
use super::{REFERENCE_CHUNK, for_width};
use super::{listed, raw_bits};
use crate::arch::dispatch;
use crate::entropy::rans::{self, LANES, lanes_for};
use crate::error::{Error, Result};
use crate::frame::wire::put_length;

/// Streams of at least so many bytes have all lanes, however few symbols these are: with all lanes a decoder
/// is several times as fast. Deltas: half or double changes no size.
const LONG: usize = 1 << 12;
/// Bytes of streams that have all lanes in blocks of [`LARGE`] elements or more, of which the cost of lanes
/// is a small part in any case. Deltas: half and double of either change at most 0.001 %.
const LONG_OF_LARGE: usize = 1 << 10;
const LARGE: usize = 1 << 16;

impl ReferenceModel {
    /// Appends a block of whole elements against as many.
    pub(super) fn encode_block(&self, bytes: &[u8], reference: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if bytes.len() != reference.len() {
            return Err(Error::corrupt("a block that its reference does not have"));
        }
        for_width!(self.view.fields, encode, self, bytes, reference, out)
    }
}

/// What is put together for a block before it is coded. Blocks are about equally long, so each thread keeps
/// the memory.
#[derive(Debug, Default)]
pub(crate) struct DeltaScratch<W> {
    classes: Vec<u8>,
    symbols: Vec<u8>,
    contexts: Vec<u8>,
    differences: Vec<W>,
    raw_words: Vec<u8>,
    /// The symbols of chunks that list their elements, one chunk after the other.
    listed: Vec<u8>,
    sets: Vec<u8>,
}

fn encode<W: Word>(model: &ReferenceModel, bytes: &[u8], reference: &[u8], out: &mut Vec<u8>) -> Result<()> {
    W::with_scratch(|block| {
        block.fill(model, bytes, reference)?;
        model.classes.encode(&block.classes, out);
        block.encode_sets(out);
        block.encode_symbols(model, out);
        raw_bits::write(&block.symbols, &block.differences, &mut block.raw_words, out);
        Ok(())
    })
}

impl<W: Word> DeltaScratch<W> {
    /// Appends the length and the sets of elements of the chunks that list them.
    fn encode_sets(&mut self, out: &mut Vec<u8>) {
        let Self { classes, listed, sets, .. } = self;
        sets.clear();
        listed::write(classes, listed, sets);
        put_length(out, sets.len());
        out.extend_from_slice(sets);
    }

    /// Appends the number of lanes and the stream of the symbols, or 0 if there are none.
    fn encode_symbols(&self, model: &ReferenceModel, out: &mut Vec<u8>) {
        let Self { classes, symbols, contexts, .. } = self;
        let tables = model.contexts.tables.encoder();
        let long = if classes.len() * REFERENCE_CHUNK < LARGE { LONG } else { LONG_OF_LARGE };
        let start = out.len();
        for lanes in [lanes_for(symbols.len()), LANES] {
            out.truncate(start);
            if symbols.is_empty() {
                return out.push(0);
            }
            out.push(lanes as u8);
            rans::encode_in(lanes, tables, symbols, contexts, out);
            if lanes == LANES || out.len() - start < long {
                return;
            }
        }
    }

    /// Transforms a block.
    fn fill(&mut self, model: &ReferenceModel, bytes: &[u8], reference: &[u8]) -> Result<()> {
        let Self { classes, symbols, contexts, differences, listed, .. } = self;
        listed.clear();
        classes.clear();
        symbols.clear();
        contexts.clear();
        differences.clear();
        let mut scratch = ChunkScratch::<W>::default();
        let length = REFERENCE_CHUNK * W::BYTES;
        for (chunk, base) in bytes.chunks(length).zip(reference.chunks(length)) {
            let bits = scratch.transform(chunk, base, model.view);
            let found = &scratch.symbols[..scratch.length];
            let class = model.levels.of(bits, found);
            classes.push(class);
            if class == 0 {
                continue;
            }
            if listed::count_of(class).is_some() {
                // A last chunk may be shorter, and has zeros in the end.
                listed.extend_from_slice(found);
                listed.resize(listed.len().next_multiple_of(REFERENCE_CHUNK), 0);
                continue;
            }
            symbols.extend_from_slice(found);
            differences.extend_from_slice(&scratch.differences[..scratch.length]);
            if !model.contexts.is_single() {
                let row = model.contexts.of_class(class)?;
                let mut found = [0; REFERENCE_CHUNK];
                dispatch!(kernel => kernel.contexts(row, &scratch.exponents, &mut found));
                contexts.extend_from_slice(&found[..scratch.length]);
            }
        }
        Ok(())
    }
}
