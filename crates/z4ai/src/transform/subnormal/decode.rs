//! A stream of symbols and a bit stream to a block.

use super::model::SubnormalModel;
use super::steps::{Restorer, Steps};
use crate::arch::{self, dispatch};
use crate::entropy::rans::{self, most_lanes_for};
use crate::error::Result;
use crate::frame::wire::Reader;
use crate::transform::float::FLOAT_CHUNK;

impl SubnormalModel {
    /// Decodes a block of whole elements, the first of which is element `start` of the section.
    pub(super) fn decode_block(&self, reader: &mut Reader, start: usize, out: &mut [u8]) -> Result<()> {
        let tables = self.contexts.tables.decoder();
        let lanes = most_lanes_for(out.len() / 2);
        let mut stream = rans::SymbolDecoder::open_in(lanes, tables, reader)?;
        let mut restorer = Restorer::new(reader.peek(), self.signs);
        let (mut expected, mut offsets, mut symbols) =
            ([0i16; FLOAT_CHUNK], [0u16; FLOAT_CHUNK], [0u8; FLOAT_CHUNK]);
        for (index, chunk) in out.chunks_mut(2 * FLOAT_CHUNK).enumerate() {
            let count = chunk.len() / 2;
            arch::vectorised(
                #[inline(always)]
                || {
                    self.contexts.contexts(start + index * FLOAT_CHUNK, &mut expected[..count]);
                    let contexts = offsets[..count].iter_mut().zip(&expected);
                    contexts.for_each(|(to, &from)| *to = (from as u16) << tables.precision());
                },
            );
            stream.decode(&offsets[..count], &mut symbols[..count])?;
            dispatch!(kernel => kernel.restore_subnormals(&mut restorer, &symbols[..count], chunk));
        }
        stream.finish()?;
        reader.take(restorer.verbatim.position.div_ceil(8))?;
        Ok(())
    }
}
