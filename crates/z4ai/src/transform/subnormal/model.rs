//! What all blocks of a section share: the scales of rows and columns, which are contexts here, the frequency
//! tables, and the sign if it is constant.

use super::element::{MEANINGS, symbol};
use crate::dtype::Dtype;
use crate::entropy::table::FrequencyTable;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::scale_contexts::ScaleTables;
use crate::transform::{Contents, Position, Transform};

/// The precision of the tables: the slots of sixteen contexts take 64 KiB, twice a usual first-level cache;
/// each further bit doubles that.
pub(super) const SUBNORMAL_PRECISION: u32 = 10;

/// The shared description of a section.
#[derive(Debug)]
pub(crate) struct SubnormalModel {
    pub(super) signs: SubnormalSigns,
    pub(super) contexts: ScaleTables,
}

/// The signs of a section's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubnormalSigns {
    Verbatim,
    Positive,
    Negative,
}

impl SubnormalModel {
    /// Elements per row, if rows or columns differ.
    pub fn row_length(&self) -> Option<usize> {
        let row_length = self.contexts.scales.row_length;
        (row_length > 0).then_some(row_length)
    }
}

impl Transform for SubnormalModel {
    const TAG: u8 = 11;
    const NAME: &'static str = "subnormal";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        if section.dtype != Some(Dtype::F16) {
            return Err(Error::corrupt("subnormal floats of a dtype that is not fp16"));
        }
        let flags = reader.u8()?;
        let signs = match flags & 3 {
            0 => SubnormalSigns::Verbatim,
            1 => SubnormalSigns::Positive,
            2 => SubnormalSigns::Negative,
            _ => return Err(Error::corrupt("unknown signs of subnormal floats")),
        };
        let (bits, elements) = (flags >> 2, section.elements());
        let contexts = ScaleTables::read(reader, bits, SUBNORMAL_PRECISION, elements, "subnormal floats")?;
        let occurs = |table: &FrequencyTable| {
            MEANINGS.iter().zip(table.frequencies).all(|(meaning, count)| meaning.occurs || count == 0)
        };
        if !contexts.tables.frequencies().iter().all(occurs) {
            return Err(Error::corrupt("a frequency of a symbol that no float has"));
        }
        Ok(Self { signs, contexts })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(self.signs as u8 | self.contexts.bits() << 2);
        self.contexts.write(out)
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.start, out);
        Ok(())
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.start, out)
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        let start = reader.position();
        let length = reader.length()?;
        reader.take(length)?;
        let symbols = reader.position() - start;
        let parts = [("exponent", symbols), ("sign and mantissa", reader.remaining())];
        Ok(parts.map(|(name, length)| (name.to_owned(), length)).to_vec())
    }
}

/// The symbols of whole elements.
#[inline(always)]
pub(super) fn fill_symbols(bytes: &[u8], symbols: &mut [u8]) {
    let (elements, _) = bytes.as_chunks::<2>();
    for (found, &element) in symbols.iter_mut().zip(elements) {
        *found = symbol(u16::from_le_bytes(element));
    }
}
