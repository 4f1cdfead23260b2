//! A stream of bytes in contexts to a block.

use super::model::ScaledModel;
use crate::arch;
use crate::entropy::rans::{self, most_lanes_for};
use crate::error::Result;
use crate::frame::wire::Reader;
use crate::transform::float::FLOAT_CHUNK;

impl ScaledModel {
    /// Decodes a block, the first element of which is element `start` of the section.
    pub(super) fn decode_block(&self, reader: &mut Reader, start: usize, out: &mut [u8]) -> Result<()> {
        let tables = self.0.tables.decoder();
        let mut stream = rans::SymbolDecoder::open_in(most_lanes_for(out.len()), tables, reader)?;
        let (mut expected, mut offsets) = ([0i16; FLOAT_CHUNK], [0u16; FLOAT_CHUNK]);
        for (index, chunk) in out.chunks_mut(FLOAT_CHUNK).enumerate() {
            let (expected, offsets) = (&mut expected[..chunk.len()], &mut offsets[..chunk.len()]);
            arch::vectorised(
                #[inline(always)]
                || {
                    self.0.contexts(start + index * FLOAT_CHUNK, expected);
                    let contexts = offsets.iter_mut().zip(expected);
                    contexts.for_each(|(to, &mut from)| *to = (from as u16) << tables.precision());
                },
            );
            stream.decode(offsets, chunk)?;
        }
        stream.finish()
    }
}
