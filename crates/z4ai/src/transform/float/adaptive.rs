//! Floats at maximum effort: the same symbols as in the other model of floats, but the scales of rows, columns and kernels are not stored: they are learnt from
//! the elements before. Convolutions, whose kernels each have a scale of their own, gain most, and small tensors, which have no room for a description.

use super::decode::interleave;
use super::learner::{Expectation, Learner, SIGN_CONTEXTS, SYMBOL_CONTEXTS};
use super::tails::{MAX_TAILS, Tails};
use super::{CENTRE, CHUNK, EXPONENT_PARTS, JOINT_BITS, low_bits};
use crate::arch::Kernel;
use crate::dtype::FloatLayout;
use crate::entropy::plane;
use crate::entropy::rans::{self, Tables};
use crate::entropy::table::{FrequencyTable, Histogram, MAX_PRECISION, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};

/// What the blocks of a section share.
#[derive(Debug)]
pub(crate) struct AdaptiveModel {
    pub(super) layout: FloatLayout,
    /// Elements per row, and per kernel inside a row.
    pub(super) row_length: usize,
    pub(super) kernel_length: usize,
    /// Elements from one line to the next, across which signs are compared: of a kernel, or else rows.
    pub(super) line_length: usize,
    /// The mean magnitude, in quarter octaves.
    pub(super) base: u16,
    /// Of symbols, for a power of two of contexts.
    symbols: Tables,
    /// Of signs; none if they are verbatim.
    signs: Option<Tables>,
    tails: Tails,
}

/// How the elements of a section lie, as far as its shape says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub row_length: Option<usize>,
    pub kernel_length: Option<usize>,
    pub line_length: Option<usize>,
}

/// The symbols and signs of a block, with their contexts.
#[derive(Debug, Default)]
struct Survey {
    heads: Vec<u16>,
    symbols: Vec<u8>,
    contexts: Vec<u8>,
    escapes: Vec<u8>,
    signs: Vec<u8>,
    sign_contexts: Vec<u8>,
}

impl AdaptiveModel {
    /// Whether floats of this layout have such a model.
    pub fn supports(layout: FloatLayout) -> bool {
        layout.exponent_bits <= 8
    }

    /// Makes the model for a section of whole elements, one at least, in rows (if that is known) of kernels, and blocks of `block` bytes.
    pub fn fit(layout: FloatLayout, bytes: &[u8], geometry: Geometry, block: usize) -> Result<Self> {
        let Geometry { row_length, kernel_length, line_length } = geometry;
        let count = bytes.len() / layout.width;
        let mut heads = vec![0; count];
        layout.read_heads(bytes, &mut heads);
        let magnitudes = heads.iter().map(|&head| u64::from(head & 0x7fff));
        let mean = magnitudes.sum::<u64>() / count.max(1) as u64;
        let base = (mean << 2 >> layout.head_mantissa_bits()) as u16;
        let tails = Tails::fit(layout, bytes, row_length)?;
        let row_length = row_length.unwrap_or(count).clamp(1, count.max(1));
        // Lengths that do not divide each other are not those of a convolution.
        let kernel_length = kernel_length.filter(|&length| row_length.is_multiple_of(length)).unwrap_or(1);
        let line_length = line_length.filter(|&length| length <= kernel_length).unwrap_or(row_length);
        let even = FrequencyTable::normalise(&[0; SYMBOLS], MAX_PRECISION);
        let symbols = Tables::new(vec![even])?;
        let mut model =
            Self { layout, row_length, kernel_length, line_length, base, symbols, signs: None, tails };
        let mut symbols: Vec<Histogram> = vec![[0; SYMBOLS]; SYMBOL_CONTEXTS];
        let mut signs: Vec<Histogram> = vec![[0; SYMBOLS]; SIGN_CONTEXTS];
        for (index, part) in bytes.chunks(block).enumerate() {
            let survey = model.survey(part, index * block / layout.width)?;
            for (&symbol, &context) in survey.symbols.iter().zip(&survey.contexts) {
                symbols[usize::from(context)][usize::from(symbol)] += 1;
            }
            for (&sign, &context) in survey.signs.iter().zip(&survey.sign_contexts) {
                signs[usize::from(context)][usize::from(sign)] += 1;
            }
        }
        model.symbols = choose_tables(&symbols)?;
        let (tables, cost) = tables_and_cost(&signs);
        // A stream of its own ends with the states of the coder.
        let streams = bytes.len().div_ceil(block) * 8 * (4 * rans::LANES + 4);
        model.signs = (cost + (streams as u64) < count as u64).then(|| Tables::new(tables)).transpose()?;
        Ok(model)
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        put_length(out, self.row_length);
        put_length(out, self.kernel_length);
        put_length(out, self.line_length);
        put_length(out, usize::from(self.base));
        let contexts = self.symbols.frequencies().len();
        out.push(contexts.trailing_zeros() as u8 | u8::from(self.signs.is_some()) << 7);
        let signs = self.signs.iter().flat_map(Tables::frequencies);
        self.symbols.frequencies().iter().chain(signs).for_each(|table| table.write(out));
        self.tails.write(kernel, out)
    }

    /// Reads the model of a section of `elements` elements.
    pub fn read(layout: FloatLayout, reader: &mut Reader, elements: usize, kernel: Kernel) -> Result<Self> {
        let (row_length, kernel_length, line_length) = (reader.length()?, reader.length()?, reader.length()?);
        let inside = 1..=row_length;
        if row_length > elements || !inside.contains(&kernel_length) || !inside.contains(&line_length) {
            return Err(Error::corrupt("a row or a kernel is longer than its section"));
        }
        let base = u16::try_from(reader.length()?).ok().filter(|&base| base < 4 << layout.exponent_bits);
        let base = base.ok_or_else(|| Error::corrupt("a section's base scale is out of range"))?;
        let flags = reader.u8()?;
        let contexts = 1usize.checked_shl(u32::from(flags & 0x7f)).unwrap_or(0);
        if !(1..=SYMBOL_CONTEXTS).contains(&contexts) {
            return Err(Error::corrupt("a number of contexts that there is not"));
        }
        let mut tables = |count: usize| {
            let tables = (0..count).map(|_| FrequencyTable::read_from(reader, MAX_PRECISION));
            Tables::new(tables.collect::<Result<_>>()?)
        };
        let symbols = tables(contexts)?;
        let signs = (flags & 0x80 != 0).then(|| tables(SIGN_CONTEXTS)).transpose()?;
        let tails = Tails::read(layout, reader, elements, kernel)?;
        Ok(Self { layout, row_length, kernel_length, line_length, base, symbols, signs, tails })
    }

    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        let mut survey = self.survey(bytes, start)?;
        let mask = (self.symbols.frequencies().len() - 1) as u8;
        survey.contexts.iter_mut().for_each(|context| *context &= mask);
        rans::encode(self.symbols.encoder(), &survey.symbols, &survey.contexts, kernel, out);
        put_length(out, survey.escapes.len());
        plane::write_bytes(&survey.escapes, kernel, out)?;
        let low = self.low_mantissa_bits();
        for chunk in survey.heads.chunks_mut(CHUNK) {
            let verbatim = |head: u16| head & self.low_mask() | head >> 15 << low;
            chunk.iter_mut().for_each(|head| *head = verbatim(*head));
            low_bits::pack(chunk, self.low_bits(), out);
        }
        self.tails.encode(bytes, self.layout.width, start, kernel, out);
        if let Some(tables) = &self.signs {
            rans::encode(tables.encoder(), &survey.signs, &survey.sign_contexts, kernel, out);
        }
        Ok(())
    }

    /// The symbols and signs of a block.
    fn survey(&self, bytes: &[u8], start: usize) -> Result<Survey> {
        let count = bytes.len() / self.layout.width;
        let mut survey = Survey { heads: vec![0; count], ..Survey::default() };
        self.layout.read_heads(bytes, &mut survey.heads);
        let mut learner = Learner::new(self, start, count);
        for &head in &survey.heads {
            let expected = learner.expect();
            let quarters = (head & 0x7fff) >> self.low_mantissa_bits();
            let part = i32::from(quarters >> JOINT_BITS) - (expected.quarters >> JOINT_BITS) + CENTRE;
            let inside = (1..EXPONENT_PARTS).contains(&part);
            let part = if inside { part } else { 0 };
            if !inside {
                survey.escapes.push((quarters >> JOINT_BITS) as u8);
            }
            survey.symbols.push((part << JOINT_BITS) as u8 | quarters as u8 & 3);
            survey.contexts.push(expected.context as u8);
            let sign = learner.learn(quarters, expected, |context| {
                survey.sign_contexts.push(context as u8);
                Ok((head >> 15) as u8)
            })?;
            survey.signs.push(sign);
        }
        Ok(survey)
    }

    /// Decodes a block into `out`, whole elements of which the first is element `start` of the section.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let width = self.layout.width;
        let count = out.len() / width;
        let mut symbols = rans::Decoder::open(self.symbols.decoder(), reader, count, kernel)?;
        let escape_bytes = reader.length()?;
        if escape_bytes > count {
            return Err(Error::corrupt("a block has more escapes than elements"));
        }
        let escapes = plane::read_bytes(reader, escape_bytes, kernel)?;
        let mut escapes = escapes.iter();
        let mut low = reader.take(low_bits::packed_len(count, self.low_bits()))?;
        let mut tails = self.tails.decoder(reader, start, count, kernel)?;
        let tables = self.signs.as_ref();
        let mut signs =
            tables.map(|tables| rans::Decoder::open(tables.decoder(), reader, count, kernel)).transpose()?;
        let mut learner = Learner::new(self, start, count);
        let mask = self.symbols.frequencies().len() - 1;
        let (mut fields, mut heads) = ([0; CHUNK], [0u16; CHUNK]);
        let mut buffers = [[0; CHUNK]; MAX_TAILS];
        let mut index = 0;
        for chunk in out.chunks_mut(CHUNK * width) {
            let elements = chunk.len() / width;
            let (packed, rest) = low.split_at(low_bits::packed_len(elements, self.low_bits()).min(low.len()));
            low = rest;
            low_bits::unpack(packed, self.low_bits(), &mut fields[..elements]);
            for (head, &field) in heads[..elements].iter_mut().zip(&fields) {
                let expected = learner.expect();
                let symbol = symbols.step(index, (expected.context & mask) << MAX_PRECISION)?;
                let quarters = self.quarters(symbol, expected, &mut escapes)?;
                let sign = learner.learn(quarters, expected, |context| match &mut signs {
                    Some(signs) => signs.step(index, context << MAX_PRECISION),
                    None => Ok((field >> self.low_mantissa_bits()) as u8 & 1),
                })?;
                let low = self.low_mantissa_bits();
                *head = u16::from(sign) << 15 | quarters << low | field & self.low_mask();
                index += 1;
            }
            interleave(width, &heads[..elements], &tails.next(elements, &mut buffers)?, chunk);
        }
        if escapes.next().is_some() {
            return Err(Error::corrupt("a block has more escapes than escape symbols"));
        }
        symbols.finish()?;
        signs.iter().try_for_each(rans::Decoder::finish)?;
        tails.finish()
    }

    /// The exponent and the top of the mantissa that a symbol stands for.
    #[inline(always)]
    fn quarters(&self, symbol: u8, expected: Expectation, escapes: &mut std::slice::Iter<u8>) -> Result<u16> {
        let part = i32::from(symbol >> JOINT_BITS);
        let exponent = if part == 0 {
            let escape = escapes.next();
            i32::from(*escape.ok_or_else(|| Error::corrupt("a block has fewer escapes than escape symbols"))?)
        } else {
            part - CENTRE + (expected.quarters >> JOINT_BITS)
        };
        let exponent = exponent & ((1 << self.layout.exponent_bits) - 1);
        Ok((exponent as u16) << JOINT_BITS | u16::from(symbol & 3))
    }

    /// The planes of a block of `elements` elements, by name and encoded length.
    pub fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let start = reader.position();
        let length = reader.length()?;
        reader.take(length)?;
        let escape_bytes = reader.length()?;
        plane::skip_bytes(reader, escape_bytes)?;
        let mut parts = vec![("exponent".to_owned(), reader.position() - start)];
        let low = low_bits::packed_len(elements, self.low_bits());
        reader.take(low)?;
        parts.push(("sign and mantissa".to_owned(), low));
        parts.extend(self.tails.parts(reader, elements)?);
        if self.signs.is_some() {
            parts.push(("sign".to_owned(), reader.remaining()));
        }
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
        self.low_mantissa_bits() + u32::from(self.signs.is_none())
    }
}

/// The tables of these counts, and the bits that they and what they code take.
fn tables_and_cost(histograms: &[Histogram]) -> (Vec<FrequencyTable>, u64) {
    let tables: Vec<FrequencyTable> =
        histograms.iter().map(|histogram| FrequencyTable::normalise(histogram, MAX_PRECISION)).collect();
    let mut side = Vec::new();
    tables.iter().for_each(|table| table.write(&mut side));
    let coded: u64 = histograms.iter().map(|histogram| entropy_bits(histogram)).sum();
    (tables, coded + 8 * side.len() as u64)
}

/// Tables for all contexts, or for as many of their low bits as make everything smallest, the description included.
fn choose_tables(histograms: &[Histogram]) -> Result<Tables> {
    let counts = (0..=SYMBOL_CONTEXTS.trailing_zeros()).map(|bits| 1usize << bits);
    let candidates = counts.map(|count| {
        let mut merged: Vec<Histogram> = vec![[0; SYMBOLS]; count];
        for (context, histogram) in histograms.iter().enumerate() {
            let target = &mut merged[context & (count - 1)];
            target.iter_mut().zip(histogram).for_each(|(sum, more)| *sum += more);
        }
        tables_and_cost(&merged)
    });
    let best = candidates.min_by_key(|(_, cost)| *cost);
    Tables::new(best.map(|(tables, _)| tables).unwrap_or_default())
}
