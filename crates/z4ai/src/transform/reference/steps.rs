//! The hot loops of floats against a reference: differences, their raw bits, and the way back.

use super::counts::{ChunkScratch, View, exponent_numbers};
use super::element::Word;
use super::model::ReferenceModel;
use super::raw_bits::{RawDifferences, RawLanes, RawReader, RawWords};
use super::{EXPONENT_NUMBERS, REFERENCE_CHUNK};
use crate::arch::Instructions;
use crate::entropy::rans;
use crate::error::Result;

/// Steps that kernels override.
pub(crate) trait Steps: rans::Steps {
    /// Fills `chunk` with the differences of elements from those of their base, the symbols and the numbers
    /// of the base's exponents, and says how many bits the differences have in all.
    fn differences<W: Word>(
        self,
        view: View,
        current: &[u8],
        base: &[u8],
        chunk: &mut ChunkScratch<W>,
    ) -> u32 {
        chunk.transform_from(0, current, base, view)
    }

    /// Puts the raw bits of differences, the last first, before those that the lanes hold.
    fn write_raw_bits<W: Word>(self, raw: RawDifferences<W>, state: &mut RawLanes, words: &mut RawWords) {
        raw.write(state, words);
    }

    /// Reads the differences with these symbols.
    fn read_differences<W: Word>(self, raw: &mut RawReader, symbols: &[u8], differences: &mut [W]) {
        read_differences(raw, symbols, differences);
    }

    /// The contexts of elements whose exponents have these numbers, modulo 32.
    fn contexts(self, row: &[u8; EXPONENT_NUMBERS], numbers: &[u8], contexts: &mut [u8]) {
        contexts_from(0, row, numbers, contexts);
    }

    /// Makes at most [`REFERENCE_CHUNK`] elements that moved by what decay says and nothing else.
    fn restore_decayed<W: Word>(self, view: View, base: &[u8], out: &mut [u8]) {
        apply(self, &[W::default(); REFERENCE_CHUNK], base, view, out);
    }

    /// Makes the elements of all chunks that have symbols, from `block.made` on.
    fn restore<W: Word>(self, block: &mut CodedBlock, base: &[u8], out: &mut [u8]) -> Result<()> {
        restore::<W, Self>(self, block, base, out)
    }

    /// Whether [`Steps::restore_pair`] is faster than restoring one block after the other, for elements of so
    /// many bytes.
    fn has_fast_pairs(self, _width: usize) -> bool {
        false
    }

    /// Restores two blocks of the same model.
    fn restore_pair<W: Word>(
        self,
        [first, second]: &mut [CodedBlock; 2],
        bases: [&[u8]; 2],
        [out, second_out]: [&mut [u8]; 2],
    ) -> Result<()> {
        self.restore::<W>(first, bases[0], out)?;
        self.restore::<W>(second, bases[1], second_out)
    }
}

/// A block being restored: the chunks without symbols are there, and of the others the first `made` elements.
#[derive(Debug)]
pub(crate) struct CodedBlock<'m, 'f> {
    pub model: &'m ReferenceModel,
    pub chunks: Vec<CodedChunk>,
    /// Elements of the chunks that have been made.
    pub made: usize,
    pub stream: Option<rans::SymbolDecoder<'m>>,
    pub raw: RawReader<'f>,
}

/// A chunk of a block whose elements have symbols.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CodedChunk {
    pub number: u32,
    pub class: u8,
}

/// The portable form of [`Steps::read_differences`].
pub(crate) fn read_differences<W: Word>(raw: &mut RawReader, symbols: &[u8], differences: &mut [W]) {
    let mut done = 0;
    while done < symbols.len() {
        done = raw.read_piece(done, symbols, differences);
    }
}

/// Looks contexts up one by one, from `contexts[done]` on.
pub(crate) fn contexts_from(done: usize, row: &[u8; EXPONENT_NUMBERS], numbers: &[u8], contexts: &mut [u8]) {
    for (context, &number) in contexts.iter_mut().zip(numbers).skip(done) {
        *context = row[usize::from(number) % EXPONENT_NUMBERS];
    }
}

/// The portable form of [`Steps::restore`].
pub(crate) fn restore<W: Word, K: Steps>(
    kernel: K,
    block: &mut CodedBlock,
    base: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let CodedBlock { model, chunks, made, stream, raw } = block;
    let Some(stream) = stream else { return Ok(()) };
    let mut skip = *made % REFERENCE_CHUNK;
    for chunk in chunks.iter().skip(*made / REFERENCE_CHUNK) {
        let start = chunk.number as usize * REFERENCE_CHUNK;
        let place = (start + skip) * W::BYTES..out.len().min((start + REFERENCE_CHUNK) * W::BYTES);
        let (row, base) = (model.contexts.of_class(chunk.class)?, &base[place.clone()]);
        restore_chunk::<W, K>(kernel, model, row, stream, raw, base, &mut out[place])?;
        skip = 0;
    }
    Ok(())
}

/// Makes the elements of a chunk.
fn restore_chunk<W: Word, K: Steps>(
    kernel: K,
    model: &ReferenceModel,
    row: &[u8; EXPONENT_NUMBERS],
    stream: &mut rans::SymbolDecoder,
    raw: &mut RawReader,
    base: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let count = out.len() / W::BYTES;
    let (mut numbers, mut symbols, mut offsets) =
        ([0; REFERENCE_CHUNK], [0; REFERENCE_CHUNK], [0; REFERENCE_CHUNK]);
    if !model.contexts.is_single() {
        let mut found = [0; REFERENCE_CHUNK];
        exponent_numbers::<W>(base, model.view, &mut numbers);
        kernel.contexts(row, &numbers, &mut found);
        let precision = model.contexts.tables.precision();
        offsets.iter_mut().zip(found).for_each(|(offset, context)| *offset = u16::from(context) << precision);
    }
    let offsets = if !model.contexts.is_single() { &offsets[..count] } else { &[] };
    kernel.decode_symbols(stream, offsets, &mut symbols[..count])?;
    let mut differences = [W::default(); REFERENCE_CHUNK];
    kernel.read_differences(raw, &symbols[..count], &mut differences);
    apply(kernel, &differences, base, model.view, out);
    Ok(())
}

/// Makes elements from their differences to those of the base.
pub(crate) fn apply<W: Word>(
    kernel: impl Instructions,
    differences: &[W; REFERENCE_CHUNK],
    base: &[u8],
    view: View,
    out: &mut [u8],
) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::on_each;
    use crate::arch::dispatch;
    use crate::dtype::Dtype;
    use crate::transform::reference::ElementFields;
    use crate::transform::reference::decay::Decay;
    use proptest::prelude::*;

    fn decayed<W: Word>(dtype: Dtype, rate: i32, base: &[u8]) {
        let fields = ElementFields::of(dtype).unwrap();
        let view = View { fields, decay: Decay::new(rate, fields), top_exponent: 0 };
        let base = &base[..base.len() / W::BYTES * W::BYTES];
        on_each(|| {
            let mut out = vec![0xcc; base.len()];
            dispatch!(kernel => kernel.restore_decayed::<W>(view, base, &mut out));
            out
        });
    }

    proptest! {
        #[test]
        fn kernels_agree_on_contexts(
            row in any::<[u8; EXPONENT_NUMBERS]>(),
            numbers in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            on_each(|| {
                let mut contexts = vec![0xcc; numbers.len()];
                dispatch!(kernel => kernel.contexts(&row, &numbers, &mut contexts));
                contexts
            });
        }

        #[test]
        fn kernels_agree_on_restore_decayed(
            base in prop::collection::vec(any::<u8>(), 0..=REFERENCE_CHUNK),
            rate in prop_oneof![Just(0), any::<i32>(), -100_000..100_000i32],
        ) {
            decayed::<u8>(Dtype::F8E5M2, rate, &base);
            decayed::<u16>(Dtype::Bf16, rate, &base);
            decayed::<u16>(Dtype::F16, rate, &base);
            decayed::<u32>(Dtype::F32, rate, &base);
            decayed::<u64>(Dtype::F64, rate, &base);
        }
    }
}
