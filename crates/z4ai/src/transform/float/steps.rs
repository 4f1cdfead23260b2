//! The hot loop of floats: heads from entropy-coded symbols, expected scales and verbatim bits.

use super::expected::{HeadFormat, HeadInputs, RowLines};
use super::model::FloatModel;
use super::signs::{self, Signs};
use super::{ESCAPE_STRETCH, JOINT_BITS, low_bits};
use crate::entropy::rans::{self, LANES};
use crate::error::Result;

/// Steps that kernels override.
pub(crate) trait Steps: rans::Steps {
    /// Decodes the heads of a chunk. Those whose exponents are escapes come out with a wrong exponent, and
    /// have their bit in `chunk.escaped` set.
    fn decode_heads(self, chunk: &mut HeadChunk, heads: &mut [u16]) -> Result<()> {
        decode_heads(self, chunk, heads)
    }

    /// Writes the signs of heads, eight to the byte, the first one as its lowest bit.
    fn pack_signs(self, heads: &[u16], packed: &mut [u8]) {
        self.vectorised(
            #[inline(always)]
            || signs::pack_signs(heads, packed),
        );
    }

    /// Sets the signs of elements of two bytes that have none yet.
    fn set_signs(self, packed: &[u8], elements: &mut [[u8; 2]]) {
        self.vectorised(
            #[inline(always)]
            || signs::set_signs(packed, elements),
        );
    }
}

/// What the heads of a chunk are decoded from, and what that goes through: slices with one value per element.
#[derive(Debug)]
pub(crate) struct HeadChunk<'s, 'a> {
    pub model: &'s FloatModel,
    pub symbols: &'s mut rans::SymbolDecoder<'a>,
    /// The chunk's first element, in the section.
    pub start: usize,
    /// The verbatim bits.
    pub packed: &'s [u8],
    pub octaves: &'s mut [i16],
    /// Where the slots of each symbol's context begin.
    pub offsets: &'s mut [u16],
    /// Where the groups of elements are in the lines of rows.
    pub places: &'s mut [u32],
    pub row_lines: Option<&'s RowLines>,
    pub found: &'s mut [u8],
    pub fields: &'s mut [u16],
    /// A bit per element.
    pub escaped: &'s mut [u32],
}

impl<'a> HeadChunk<'_, 'a> {
    /// Where the bits of heads come from.
    pub fn format(&self) -> HeadFormat {
        self.model.head_format()
    }

    /// What so many heads are made from, by groups of [`LANES`] where these have something in common, beside
    /// the symbols and the bits of escapes.
    pub fn inputs(&mut self, count: usize) -> (&mut rans::SymbolDecoder<'a>, HeadInputs<'_>, &mut [u32]) {
        let Self { model, symbols, start, packed, octaves, offsets, places, row_lines, escaped, .. } = self;
        let (scales, start, split, groups) = (&model.scales, *start, model.split(), count / LANES);
        let in_rows = scales.is_even(start, LANES);
        let expected = match row_lines {
            Some(lines) if in_rows => {
                lines.expected(scales, start, &mut octaves[..groups], &mut places[..groups])
            }
            None if in_rows && scales.columns.is_empty() => {
                split.same(scales, start, &mut octaves[..groups], offsets)
            }
            _ => split.each(crate::arch::vectorised(
                #[inline(always)]
                || split.lines(scales.segments(start, octaves.len()), octaves, offsets),
            )),
        };
        (symbols, HeadInputs { format: model.head_format(), expected, packed }, escaped)
    }
}

/// The portable form of [`Steps::decode_heads`].
pub(crate) fn decode_heads<K: rans::Steps>(
    kernel: K,
    chunk: &mut HeadChunk,
    heads: &mut [u16],
) -> Result<()> {
    let HeadChunk { model, symbols, start, packed, octaves, offsets, found, fields, escaped, .. } = chunk;
    let (split, scales) = (model.split(), &model.scales);
    let lines = kernel.vectorised(
        #[inline(always)]
        || split.lines(scales.segments(*start, octaves.len()), octaves, offsets),
    );
    kernel.decode_symbols(symbols, lines.offsets(), found)?;
    kernel.vectorised(
        #[inline(always)]
        || {
            low_bits::unpack(packed, model.low_bits(), fields);
            model.assemble(found, fields, lines.octaves(), heads);
            mark_escapes(found, escaped);
        },
    );
    Ok(())
}

/// Sets the bits of symbols that are escapes, which are rare: most stretches are passed over by one
/// comparison.
#[inline(always)]
fn mark_escapes(symbols: &[u8], escaped: &mut [u32]) {
    escaped.fill(0);
    let stretches = symbols.chunks(ESCAPE_STRETCH).zip(escaped.chunks_mut(ESCAPE_STRETCH / LANES));
    for (symbols, escaped) in stretches {
        if symbols.iter().fold(u8::MAX, |least, &symbol| least.min(symbol)) >> JOINT_BITS != 0 {
            continue;
        }
        for (symbols, escaped) in symbols.chunks(LANES).zip(escaped) {
            let bits = symbols.iter().enumerate();
            *escaped = bits.fold(0, |bits, (at, symbol)| bits | u32::from(symbol >> JOINT_BITS == 0) << at);
        }
    }
}

impl FloatModel {
    /// Heads from symbols, fields and octaves.
    #[inline(always)]
    fn assemble(&self, symbols: &[u8], fields: &[u16], octaves: &[i16], heads: &mut [u16]) {
        let low_mantissa = self.layout.head_mantissa_bits() - JOINT_BITS;
        let mantissa_mask = (1u16 << low_mantissa) - 1;
        let sign = if let Signs::Constant(true) = self.signs { 0x8000 } else { 0 };
        for (head, ((&symbol, &field), &octave)) in
            heads.iter_mut().zip(symbols.iter().zip(fields).zip(octaves))
        {
            let top = u16::from(symbol).wrapping_add(octave as u16) << low_mantissa & 0x7fff;
            *head = (field & !mantissa_mask) << (15 - low_mantissa) | sign | top | field & mantissa_mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::agreement::on_each;
    use crate::dtype::Dtype;
    use crate::frame::wire::Reader;
    use crate::options::Effort;
    use crate::transform::float::FloatModel;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Of elements in rows whose scales differ, and of damaged blocks.
        #[test]
        fn kernels_agree_on_decode_heads(
            dtype in prop::sample::select(vec![Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64]),
            (count, row) in (1usize..20_000, 1usize..300),
            noise in prop::collection::vec(any::<u16>(), 1..300),
            positive in any::<bool>(),
            damage in any::<(prop::sample::Index, u8)>(),
        ) {
            let layout = dtype.float_layout().unwrap();
            let head = |index: usize| {
                let noise = noise[index * 7 % noise.len()] ^ index as u16;
                let sign = if positive { 0 } else { noise << 15 };
                sign | (0x3a00 + (index / row % 9 * 64) as u16 + (noise & noise >> 5 & 0x1ff))
            };
            let mut bytes = vec![0; count * layout.width];
            for (index, element) in bytes.chunks_exact_mut(layout.width).enumerate() {
                element[layout.tail_bytes()..].copy_from_slice(&head(index).to_le_bytes());
            }
            let model = FloatModel::fit(layout, &bytes, Some(row), None, Effort::Default, 1 << 17).unwrap();
            let mut block = Vec::new();
            model.encode_block(&bytes, 0, &mut block).unwrap();
            let decode = |block: &[u8]| on_each(|| {
                let mut out = vec![0; bytes.len()];
                model.decode_block(&mut Reader::new(block, "block"), 0, &mut out).ok().map(|()| out)
            });
            prop_assert!(decode(&block).as_ref() == Some(&bytes));
            let (place, change) = damage;
            let place = place.index(block.len());
            block[place] ^= change;
            decode(&block);
        }
    }
}
