//! Floats to one stream of symbols and signs, escapes and planes.

use super::model::AdaptiveModel;
use super::survey::Survey;
use crate::entropy::{plane, rans};
use crate::error::Result;
use crate::frame::wire::put_length;
use crate::transform::float::{FLOAT_CHUNK, JOINT_BITS, low_bits};

impl AdaptiveModel {
    /// Appends the block of whole elements `bytes`, the first of which is element `start` of the section.
    pub(super) fn encode_block(&self, bytes: &[u8], start: usize, out: &mut Vec<u8>) -> Result<()> {
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
            plane::write_bytes(&escapes, out)?;
        }
        let low = self.low_mantissa_bits();
        for chunk in heads.chunks_mut(FLOAT_CHUNK) {
            let verbatim = |head: u16| head & self.low_mask() | head >> 15 << low;
            chunk.iter_mut().for_each(|head| *head = verbatim(*head));
            low_bits::pack(chunk, self.low_bits(), out);
        }
        self.tails.encode(bytes, self.layout.width, start, out);
        Ok(())
    }
}
