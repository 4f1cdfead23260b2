//! What all blocks of a section share: the scales of rows and columns, and a frequency table for each
//! context.

use crate::entropy::rans::Tables;
use crate::entropy::table::{FrequencyTable, MAX_PRECISION};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_signed};
use crate::transform::float::scale::Scales;
use crate::transform::scale_contexts::{MOST_SCALE_CONTEXTS, fill_contexts};
use crate::transform::{Contents, Position, Transform, one_part};

/// The shared description of a section.
#[derive(Debug)]
pub(crate) struct ScaledModel {
    pub(super) scales: Scales,
    /// The expectation of the first context.
    pub(super) first: i16,
    pub(super) tables: Tables,
}

impl ScaledModel {
    /// The contexts of the elements from `start` on.
    #[inline(always)]
    pub(super) fn contexts(&self, start: usize, contexts: &mut [i16]) {
        fill_contexts(&self.scales, self.first, self.tables.frequencies().len(), start, contexts);
    }
}

impl Transform for ScaledModel {
    const TAG: u8 = 14;
    const NAME: &'static str = "scaled";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        if section.width() != 1 {
            return Err(Error::corrupt("bytes in contexts of elements of more than a byte"));
        }
        let contexts = 1usize.checked_shl(u32::from(reader.u8()?));
        let contexts = contexts.filter(|&contexts| contexts <= MOST_SCALE_CONTEXTS);
        let contexts = contexts.ok_or_else(|| Error::corrupt("too many contexts of bytes"))?;
        let scales = Scales::read(reader, section.elements())?;
        let first = i16::try_from(reader.signed()?);
        let first = first.map_err(|_| Error::corrupt("the first context's scale is out of range"))?;
        let tables = (0..contexts).map(|_| FrequencyTable::read_from(reader, MAX_PRECISION));
        Ok(Self { scales, first, tables: Tables::new(tables.collect::<Result<_>>()?)? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let contexts = self.tables.frequencies();
        out.push(contexts.len().trailing_zeros() as u8);
        self.scales.write(out)?;
        put_signed(out, i64::from(self.first));
        contexts.iter().for_each(|table| table.write(out));
        Ok(())
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.start, out);
        Ok(())
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.start, out)
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        Ok(one_part("byte 0", reader))
    }
}
