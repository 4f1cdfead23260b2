//! One stream of symbols and signs, escapes and planes to floats.

use super::heads::HeadCode;
use super::model::AdaptiveModel;
use crate::error::Result;
use crate::frame::wire::Reader;
use crate::transform::float::tails::MAX_TAILS;
use crate::transform::float::{FLOAT_CHUNK, interleave, low_bits};

impl AdaptiveModel {
    /// Decodes a block into `out`, whole elements of which the first is element `start` of the section.
    pub(super) fn decode_block(&self, reader: &mut Reader, start: usize, out: &mut [u8]) -> Result<()> {
        let width = self.layout.width;
        let count = out.len() / width;
        let code = HeadCode {
            layout: self.layout,
            learning: self.learning,
            symbols: &self.symbols,
            signs: self.signs,
        };
        let mut heads = code.decode(reader, count)?;
        let low = low_bits::packed_len(count, self.low_bits());
        let mut low = reader.take(low)?;
        let mut tails = self.tails.decoder(reader, start, count)?;
        let mut fields = [0; FLOAT_CHUNK];
        let mut buffers = [[0; FLOAT_CHUNK]; MAX_TAILS];
        let (bits, low_mask) = (self.low_mantissa_bits(), self.low_mask());
        // A verbatim sign is above the mantissa bits; a decoded one is in its place.
        let sign_mask = u16::from(!self.signs) << 15;
        for (chunk, heads) in out.chunks_mut(FLOAT_CHUNK * width).zip(heads.chunks_mut(FLOAT_CHUNK)) {
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
}
