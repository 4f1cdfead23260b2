//! Floats at maximum effort: the same symbols as in the other model of floats, but the scales of rows, columns and kernels are not stored: they are learnt from
//! the elements before. Convolutions, whose kernels each have a scale of their own, gain most, and small tensors, which have no room for a description.

use super::decode::interleave;
use super::heads::HeadCode;
use super::learner::{Learning, SYMBOL_CONTEXTS};
use super::search::best_learning;
use super::survey::Survey;
use super::symbol_code::SymbolCode;
use super::tails::{MAX_TAILS, Tails};
use super::{CHUNK, JOINT_BITS, low_bits};
use crate::arch::Kernel;
use crate::dtype::FloatLayout;
use crate::entropy::plane;
use crate::entropy::rans;
use crate::entropy::table::{Histogram, SYMBOLS};
use crate::error::Result;
use crate::frame::wire::{Reader, put_length};
use crate::threads;

/// What the blocks of a section share.
#[derive(Debug)]
pub(crate) struct AdaptiveModel {
    layout: FloatLayout,
    learning: Learning,
    symbols: SymbolCode,
    /// Whether signs are coded; otherwise they are verbatim.
    signs: bool,
    tails: Tails,
}

/// How the elements of a section lie, as far as its shape says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub row_length: Option<usize>,
    pub kernel_length: Option<usize>,
    pub line_length: Option<usize>,
}

impl AdaptiveModel {
    /// Whether floats of this layout have such a model.
    pub fn supports(layout: FloatLayout) -> bool {
        layout.exponent_bits <= 8
    }

    /// Makes the model for a section of whole elements, one at least, in rows (if that is known) of kernels, and the length that blocks should have: about `block`
    /// bytes.
    pub fn fit(layout: FloatLayout, bytes: &[u8], geometry: Geometry, block: usize) -> Result<(Self, usize)> {
        let count = bytes.len() / layout.width;
        let mut heads = vec![0; count];
        layout.read_heads(bytes, &mut heads);
        let tails = Tails::fit(layout, bytes, geometry.row_length)?;
        let learning = best_learning(layout, &heads, geometry);
        let block = whole_rows(block / layout.width, learning.row_length);
        let surveys = threads::map(heads.chunks(block), |part| {
            let survey = Survey::new(layout, learning, part, true);
            let mut histograms: Vec<Histogram> = vec![[0; SYMBOLS]; SYMBOL_CONTEXTS];
            survey.count(&mut histograms);
            (histograms, survey.sign_bits())
        });
        let mut symbols: Vec<Histogram> = vec![[0; SYMBOLS]; SYMBOL_CONTEXTS];
        // The state of the coder at the end of each block.
        let mut sign_bits = heads.chunks(block).len() as u64 * 32;
        for (histograms, bits) in surveys {
            sign_bits += bits;
            symbols
                .iter_mut()
                .flatten()
                .zip(histograms.iter().flatten())
                .for_each(|(sum, more)| *sum += more);
        }
        let symbols = SymbolCode::fit(&symbols)?;
        let model = Self {
            layout,
            learning,
            symbols,
            signs: sign_bits < count as u64 - count as u64 / SIGN_GAIN,
            tails,
        };
        Ok((model, block * layout.width))
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        self.learning.write(u8::from(self.signs) | self.symbols.to_code() << 1, out);
        self.symbols.write(out);
        self.tails.write(kernel, out)
    }

    /// Reads the model of a section of `elements` elements.
    pub fn read(layout: FloatLayout, reader: &mut Reader, elements: usize, kernel: Kernel) -> Result<Self> {
        let (learning, flags) = Learning::read(reader, elements, layout.exponent_bits)?;
        let symbols = SymbolCode::read(flags >> 1, reader)?;
        let tails = Tails::read(layout, reader, elements, kernel)?;
        Ok(Self { layout, learning, symbols, signs: flags & 1 != 0, tails })
    }

    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let mut heads = vec![0; bytes.len() / self.layout.width];
        self.layout.read_heads(bytes, &mut heads);
        let mut survey = Survey::new(self.layout, self.learning, &heads, self.signs);
        let mut escapes = Vec::new();
        let mask = self.symbols.context_mask();
        survey.contexts.iter_mut().for_each(|context| *context &= mask as u8);
        for (symbol, &exponent) in survey.symbols.iter_mut().zip(&survey.exponents) {
            if self.symbols.escapes(*symbol) {
                *symbol &= (1 << JOINT_BITS) - 1;
                escapes.push(exponent);
            }
        }
        let Survey { symbols, contexts, signs, stretches, lanes, .. } = &survey;
        let encoder = self.symbols.encoder();
        rans::encode_mixed(encoder, symbols, contexts, signs, stretches, lanes.count(), out);
        put_length(out, escapes.len());
        if !escapes.is_empty() {
            plane::write_bytes(&escapes, kernel, out)?;
        }
        let low = self.low_mantissa_bits();
        for chunk in heads.chunks_mut(CHUNK) {
            let verbatim = |head: u16| head & self.low_mask() | head >> 15 << low;
            chunk.iter_mut().for_each(|head| *head = verbatim(*head));
            low_bits::pack(chunk, self.low_bits(), out);
        }
        self.tails.encode(bytes, self.layout.width, start, kernel, out);
        Ok(())
    }

    /// Decodes a block into `out`, whole elements of which the first is element `start` of the section.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let width = self.layout.width;
        let count = out.len() / width;
        let code = HeadCode {
            layout: self.layout,
            learning: self.learning,
            symbols: &self.symbols,
            signs: self.signs,
        };
        let mut heads = code.decode(reader, count, kernel)?;
        let low = low_bits::packed_len(count, self.low_bits());
        let mut low = reader.take(low)?;
        let mut tails = self.tails.decoder(reader, start, count, kernel)?;
        let mut fields = [0; CHUNK];
        let mut buffers = [[0; CHUNK]; MAX_TAILS];
        let (bits, low_mask) = (self.low_mantissa_bits(), self.low_mask());
        // A verbatim sign is above the mantissa bits; a decoded one is in its place.
        let sign_mask = u16::from(!self.signs) << 15;
        for (chunk, heads) in out.chunks_mut(CHUNK * width).zip(heads.chunks_mut(CHUNK)) {
            let elements = heads.len();
            let (packed, rest) = low.split_at(low_bits::packed_len(elements, self.low_bits()).min(low.len()));
            low = rest;
            low_bits::unpack(packed, self.low_bits(), &mut fields[..elements]);
            for (head, field) in heads.iter_mut().zip(fields) {
                *head |= field & low_mask | field << (15 - bits) & sign_mask;
            }
            interleave(width, heads, &tails.next(elements, &mut buffers)?, chunk);
        }
        tails.finish()
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let start = reader.position();
        let length = reader.length()?;
        reader.take(length)?;
        let escapes = reader.length()?;
        if escapes > 0 {
            plane::skip_bytes(reader, escapes)?;
        }
        let name = if self.signs { "exponent and sign" } else { "exponent" };
        let mut parts = vec![(name.to_owned(), reader.position() - start)];
        let low = low_bits::packed_len(elements, self.low_bits());
        reader.take(low)?;
        parts.push((if self.signs { "mantissa" } else { "sign and mantissa" }.to_owned(), low));
        parts.extend(self.tails.parts(reader, elements)?);
        Ok(parts)
    }

    fn low_mantissa_bits(&self) -> u32 {
        self.layout.head_mantissa_bits() - JOINT_BITS
    }

    fn low_mask(&self) -> u16 {
        (1 << self.low_mantissa_bits()) - 1
    }

    /// Verbatim bits of an element.
    fn low_bits(&self) -> u32 {
        self.low_mantissa_bits() + u32::from(!self.signs)
    }
}

/// As many elements in whole rows, if one fits.
fn whole_rows(elements: usize, row_length: usize) -> usize {
    if elements < row_length { elements.max(1) } else { elements - elements % row_length }
}

/// One part in so many of the signs is what coding them must save: it takes as long as all else.
const SIGN_GAIN: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use proptest::prelude::*;

    fn geometry(row_length: usize, kernel_length: usize, line_length: usize) -> Geometry {
        Geometry {
            row_length: Some(row_length),
            kernel_length: Some(kernel_length),
            line_length: Some(line_length),
        }
    }

    /// Encodes all blocks, decodes them with the model as it comes back from its bytes, and gives the size of everything.
    fn round_trip(dtype: Dtype, bytes: &[u8], geometry: Geometry, block: usize) -> usize {
        let (layout, kernel) = (dtype.float_layout().unwrap(), Kernel::detect());
        let (model, block) = AdaptiveModel::fit(layout, bytes, geometry, block).unwrap();
        let mut described = Vec::new();
        model.write(kernel, &mut described).unwrap();
        let mut reader = Reader::new(&described, "test");
        let read = AdaptiveModel::read(layout, &mut reader, bytes.len() / layout.width, kernel).unwrap();
        reader.finish().unwrap();
        let mut size = described.len();
        for (index, part) in bytes.chunks(block).enumerate() {
            let (start, mut encoded) = (index * block / layout.width, Vec::new());
            model.encode(part, start, kernel, &mut encoded).unwrap();
            for kernel in Kernel::available() {
                let (mut reader, mut decoded) = (Reader::new(&encoded, "test"), vec![0; part.len()]);
                read.decode(&mut reader, start, kernel, &mut decoded).unwrap();
                reader.finish().unwrap();
                assert!(decoded == part);
            }
            let elements = part.len() / layout.width;
            let parts = read.parts(&mut Reader::new(&encoded, "test"), elements).unwrap();
            assert_eq!(parts.iter().map(|(_, length)| length).sum::<usize>(), encoded.len());
            size += encoded.len();
        }
        size
    }

    /// Numbers of about normal distribution.
    fn bell(count: usize) -> impl Iterator<Item = f32> {
        let mut state = 1u32;
        let mut uniform = move || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(move |_| (0..6).map(|_| uniform()).sum())
    }

    fn bf16(values: impl Iterator<Item = f32>) -> Vec<u8> {
        values.flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
    }

    #[test]
    fn the_scales_of_kernels_are_learnt() {
        let scale = |index: usize| [1.0, 0.01, 30.0, 0.3][index / 9 % 4];
        let scaled: Vec<f32> =
            bell(36 * 400).enumerate().map(|(index, value)| value * scale(index)).collect();
        let kernels = round_trip(Dtype::Bf16, &bf16(scaled.iter().copied()), geometry(36 * 9, 9, 3), 1 << 20);
        let alike = round_trip(Dtype::Bf16, &bf16(bell(36 * 400)), geometry(36 * 9, 9, 3), 1 << 20);
        // Scales that differ by up to a factor of 3000 from kernel to kernel cost hardly more than a single one.
        assert!(kernels < alike + alike / 25, "{kernels} {alike}");
        let wide: Vec<u8> = scaled.iter().flat_map(|value| value.to_le_bytes()).collect();
        round_trip(Dtype::F32, &wide, geometry(36 * 9, 9, 3), 10_000);
    }

    #[test]
    fn regular_signs_and_dead_rows_cost_little() {
        let plain = round_trip(Dtype::Bf16, &bf16(bell(40_000)), geometry(200, 1, 200), 1 << 20);
        let signs = [1.0, 1.0, -1.0, 1.0, -1.0];
        let regular = bell(40_000).enumerate().map(|(index, value)| value.abs() * signs[index % 200 % 5]);
        let regular = round_trip(Dtype::Bf16, &bf16(regular), geometry(200, 1, 200), 1 << 20);
        // A bit each, less what learning them takes.
        assert!(regular + 40_000 / 8 * 9 / 10 < plain, "{regular} {plain}");
        let dead = |index: usize| if index / 200 % 4 == 1 || index % 200 == 7 { 1e-30 } else { 1.0 };
        let dying = bell(40_000).enumerate().map(|(index, value)| value * dead(index));
        let dying = round_trip(Dtype::Bf16, &bf16(dying), geometry(200, 1, 200), 1 << 20);
        assert!(dying < plain + plain / 10, "{dying} {plain}");
    }

    proptest! {
        #[test]
        fn any_heads_survive_in_any_geometry(
            heads in proptest::collection::vec(prop_oneof![any::<u16>(), 0x3c00u16..0x3e00, Just(0)], 1..3000),
            dtype in proptest::sample::select(vec![Dtype::Bf16, Dtype::F16]),
            (row, kernel, line) in (1usize..200, 1usize..10, 1usize..10),
            block in 1usize..3000,
        ) {
            let bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
            round_trip(dtype, &bytes, geometry(row * kernel, kernel, line), 2 * block);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_heads_survive_in_lanes(
            heads in proptest::collection::vec(prop_oneof![any::<u16>(), 0x3c00u16..0x3e00, Just(0)], 500..3000),
            (row, kernel, line) in (1usize..300, 1usize..10, 1usize..10),
            (repeats, rest, block) in (4usize..10, 0usize..500, 8000usize..20_000),
        ) {
            let bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
            let bytes = [bytes.repeat(repeats), bytes[..2 * rest].to_vec()].concat();
            round_trip(Dtype::Bf16, &bytes, geometry(row * kernel, kernel, line), 2 * block);
        }

        #[test]
        fn damaged_blocks_end_in_an_error_or_other_values(
            places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
            (row, signs) in (1usize..2000, any::<bool>()),
        ) {
            let kernel = Kernel::detect();
            let values = bell(12_000).enumerate().map(|(index, value)| if signs && index % 3 == 0 { value.abs() } else { value });
            let bytes = bf16(values);
            let layout = Dtype::Bf16.float_layout().unwrap();
            let (model, _) = AdaptiveModel::fit(layout, &bytes, geometry(row, 1, row), 1 << 20).unwrap();
            let mut encoded = Vec::new();
            model.encode(&bytes, 0, kernel, &mut encoded).unwrap();
            for (place, change) in places {
                encoded[place.index(bytes.len().min(4000))] ^= change;
            }
            let mut decoded = vec![0; bytes.len()];
            let _ = model.decode(&mut Reader::new(&encoded, "test"), 0, kernel, &mut decoded);
        }
    }
}
