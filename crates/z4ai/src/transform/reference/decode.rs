//! Classes, symbols and raw bits to floats, one block at a time.

use super::element::Word;
use super::model::ReferenceModel;
use super::raw_bits::RawReader;
use super::steps::{CodedBlock, CodedChunk, Steps};
use super::{CHUNK_CLASSES, REFERENCE_CHUNK, for_width, listed};
use crate::arch::dispatch;
use crate::entropy::rans::{self, LANES};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

impl ReferenceModel {
    /// Decodes a block of whole elements against as many.
    pub(super) fn decode_block(&self, reader: &mut Reader, reference: &[u8], out: &mut [u8]) -> Result<()> {
        if out.len() != reference.len() {
            return Err(Error::corrupt("a block that its reference does not have"));
        }
        for_width!(self.view.fields, decode, self, reader, reference, out)
    }

    /// Whether two blocks are decoded faster together.
    pub(super) fn has_fast_pairs(&self) -> bool {
        dispatch!(kernel => kernel.has_fast_pairs(self.view.fields.width))
    }

    /// Decodes two blocks, interleaved.
    pub(super) fn decode_two_blocks(
        &self,
        readers: [&mut Reader; 2],
        references: [&[u8]; 2],
        out: [&mut [u8]; 2],
    ) -> Result<()> {
        if out[0].len() != references[0].len() || out[1].len() != references[1].len() {
            return Err(Error::corrupt("a block that its reference does not have"));
        }
        for_width!(self.view.fields, decode_two, self, readers, references, out)
    }
}

fn decode<W: Word>(
    model: &ReferenceModel,
    reader: &mut Reader,
    reference: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let mut block = CodedBlock::open::<W>(model, reader, reference, out)?;
    dispatch!(kernel => kernel.restore::<W>(&mut block, reference, out))?;
    block.finish()
}

fn decode_two<W: Word>(
    model: &ReferenceModel,
    [reader, second_reader]: [&mut Reader; 2],
    [reference, second_reference]: [&[u8]; 2],
    [out, second_out]: [&mut [u8]; 2],
) -> Result<()> {
    let first = CodedBlock::open::<W>(model, reader, reference, out)?;
    let second = CodedBlock::open::<W>(model, second_reader, second_reference, second_out)?;
    let (mut blocks, bases) = ([first, second], [reference, second_reference]);
    dispatch!(kernel => kernel.restore_pair::<W>(&mut blocks, bases, [out, second_out]))?;
    blocks.iter().try_for_each(CodedBlock::finish)
}

impl<'m, 'f: 'm> CodedBlock<'m, 'f> {
    /// Opens a block and makes its other chunks.
    fn open<W: Word>(
        model: &'m ReferenceModel,
        reader: &mut Reader<'f>,
        reference: &[u8],
        out: &mut [u8],
    ) -> Result<Self> {
        let count = out.len() / W::BYTES;
        let classes = model.classes.decode(reader, count.div_ceil(REFERENCE_CHUNK))?;
        let chunks = coded_chunks(model, &classes)?;
        let length = reader.length()?;
        let sets = listed::read(&classes, reader.take(length)?)?;
        let stream = match (chunks.is_empty(), usize::from(reader.u8()?)) {
            (true, 0) => None,
            (true, _) => return Err(Error::corrupt("differences of chunks without differences")),
            (_, lanes @ (1 | 4 | LANES)) => {
                Some(rans::SymbolDecoder::open_in(lanes, model.contexts.tables.decoder(), reader)?)
            }
            _ => return Err(Error::corrupt("differences in an unknown number of lanes")),
        };
        let raw = RawReader::open(reader)?;
        restore_listed::<W>(model, &classes, &sets, reference, out)?;
        Ok(Self { model, chunks, made: 0, stream, raw })
    }

    /// Fails unless everything was used.
    fn finish(&self) -> Result<()> {
        self.stream.as_ref().map_or(Ok(()), rans::SymbolDecoder::finish)?;
        self.raw.finish()
    }
}

/// Makes the chunks without differences, and those that list the elements that have one.
fn restore_listed<W: Word>(
    model: &ReferenceModel,
    classes: &[u8],
    sets: &[u64],
    reference: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let (length, mut sets) = (REFERENCE_CHUNK * W::BYTES, sets.iter());
    for ((out, base), &class) in out.chunks_mut(length).zip(reference.chunks(length)).zip(classes) {
        let count = listed::count_of(class);
        if class != 0 && count.is_none() {
            continue;
        }
        if model.view.decay.rate != 0 {
            dispatch!(kernel => kernel.restore_decayed::<W>(model.view, base, out));
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
    if classes.iter().any(|&class| usize::from(class) >= CHUNK_CLASSES && listed::count_of(class).is_none()) {
        return Err(Error::corrupt("a chunk of an unknown class"));
    }
    let coded = (0..).zip(classes).filter(|(_, class)| **class != 0 && usize::from(**class) < CHUNK_CLASSES);
    coded
        .map(|(number, &class)| model.contexts.of_class(class).map(|_| CodedChunk { number, class }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::on_each;
    use crate::arch::Kernel;
    use crate::dtype::Dtype;
    use crate::transform::reference::ElementFields;
    use proptest::prelude::*;

    /// Elements of two bytes and others at various distances from them; small ones have contexts of their
    /// own.
    fn pair(count: usize, seed: u64, reach: u32) -> (Vec<u8>, Vec<u8>) {
        let mut state = seed | 1;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let base: Vec<u16> = (0..count).map(|_| (0x3900 + random() % 0x700) as u16).collect();
        let moved = base.iter().enumerate().map(|(index, &base)| match index / 1000 % 3 {
            0 => base,
            part => base.wrapping_add((random() >> (31 - reach.min(7 * part as u32))) as u16),
        });
        let current = moved.flat_map(u16::to_le_bytes).collect();
        (current, base.into_iter().flat_map(u16::to_le_bytes).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn kernels_agree_on_restore(
            dtype in prop::sample::select(vec![Dtype::F8E4M3, Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64]),
            count in 1usize..20_000,
            seed in any::<u64>(),
            reach in 0u32..15,
            damage in any::<(prop::sample::Index, u8)>(),
        ) {
            // The bytes of wider elements are those of several.
            let (current, base) = pair(dtype.width().max(2) / 2 * count, seed, reach);
            let fields = ElementFields::of(dtype).unwrap();
            let (model, _) = ReferenceModel::fit(fields, &current, &base).unwrap();
            let mut block = Vec::new();
            model.encode_block(&current, &base, &mut block).unwrap();
            let decode = |block: &[u8]| on_each(|| {
                let mut out = vec![0; current.len()];
                model.decode_block(&mut Reader::new(block, "block"), &base, &mut out).ok().map(|()| out)
            });
            prop_assert!(decode(&block).as_ref() == Some(&current));
            let (place, change) = damage;
            let place = place.index(block.len());
            block[place] ^= change;
            decode(&block);
        }

        #[test]
        fn kernels_agree_on_restore_pair(
            counts in [(1usize..160).prop_map(|chunks| chunks * REFERENCE_CHUNK).boxed(), (1usize..40_000).boxed()],
            seed in any::<u64>(),
            reach in 0u32..15,
            damage in any::<(bool, prop::sample::Index, u8)>(),
        ) {
            let (current, base) = pair(counts[0] + counts[1], seed, reach);
            let fields = ElementFields::of(Dtype::Bf16).unwrap();
            let (model, _) = ReferenceModel::fit(fields, &current, &base).unwrap();
            let (first, second) = current.split_at(2 * counts[0]);
            let (first_base, second_base) = base.split_at(2 * counts[0]);
            let encode = |bytes: &[u8], base: &[u8]| {
                let mut block = Vec::new();
                model.encode_block(bytes, base, &mut block).unwrap();
                block
            };
            let mut blocks = [encode(first, first_base), encode(second, second_base)];
            let (second_too, place, change) = damage;
            let damaged = &mut blocks[usize::from(second_too)];
            let place = place.index(damaged.len());
            for change in [0, change] {
                blocks[usize::from(second_too)][place] ^= change;
                let results: Vec<Option<Vec<u8>>> = Kernel::available()
                    .into_iter()
                    .map(|kernel| kernel.run(|| {
                        let mut out = vec![0; current.len()];
                        let (one, two) = out.split_at_mut(first.len());
                        let mut readers = blocks.each_ref().map(|block| Reader::new(block, "block"));
                        let readers = readers.each_mut();
                        let bases = [first_base, second_base];
                        model.decode_two_blocks(readers, bases, [one, two]).ok().map(|()| out)
                    }))
                    .collect();
                prop_assert!(change != 0 || results[0].as_ref() == Some(&current));
                prop_assert!(results.iter().all(|result| *result == results[0]));
            }
        }
    }
}
