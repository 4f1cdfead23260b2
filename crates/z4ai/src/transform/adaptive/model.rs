//! How a section learns, the tables of its symbols, and whether its signs are coded.

use super::learner::Learning;
use super::symbol_code::SymbolCode;
use crate::dtype::{Dtype, FloatLayout};
use crate::entropy::plane;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::float::tails::Tails;
use crate::transform::float::{JOINT_BITS, low_bits};
use crate::transform::{Contents, Position, Transform};

/// What the blocks of a section share.
#[derive(Debug)]
pub(crate) struct AdaptiveModel {
    pub(super) layout: FloatLayout,
    pub(super) learning: Learning,
    pub(super) symbols: SymbolCode,
    /// Whether signs are coded; otherwise they are verbatim.
    pub(super) signs: bool,
    pub(super) tails: Tails,
}

/// How the elements of a section lie, as far as its shape says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TensorGeometry {
    pub row_length: Option<usize>,
    pub filter_length: Option<usize>,
    pub line_length: Option<usize>,
}

impl AdaptiveModel {
    /// Whether floats of this layout have such a model.
    pub fn supports(layout: FloatLayout) -> bool {
        layout.exponent_bits <= 8
    }

    pub(super) fn low_mantissa_bits(&self) -> u32 {
        self.layout.head_mantissa_bits() - JOINT_BITS
    }

    pub(super) fn low_mask(&self) -> u16 {
        (1 << self.low_mantissa_bits()) - 1
    }

    /// Verbatim bits of an element.
    pub(super) fn low_bits(&self) -> u32 {
        self.low_mantissa_bits() + u32::from(!self.signs)
    }
}

impl Transform for AdaptiveModel {
    const TAG: u8 = 10;
    const NAME: &'static str = "adaptive";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let layout = section.dtype.and_then(Dtype::float_layout).filter(|&layout| Self::supports(layout));
        let layout = layout.ok_or_else(|| Error::corrupt("adaptive floats of a dtype without them"))?;
        let elements = section.elements();
        let (learning, flags) = Learning::read(reader, elements, layout.exponent_bits)?;
        let symbols = SymbolCode::read(flags >> 1, reader)?;
        let tails = Tails::read(layout, reader, elements)?;
        Ok(Self { layout, learning, symbols, signs: flags & 1 != 0, tails })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.learning.write(u8::from(self.signs) | self.symbols.to_code() << 1, out);
        self.symbols.write(out);
        self.tails.write(out)
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.start, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.start, out)
    }

    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
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
}
