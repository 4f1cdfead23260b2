//! A block to a stream of bytes in contexts.

use super::model::ScaledModel;
use crate::arch;
use crate::entropy::rans::{self, most_lanes_for};
use crate::transform::float::FLOAT_CHUNK;

impl ScaledModel {
    /// Appends the block `bytes`, the first of which is element `start` of the section.
    pub(super) fn encode_block(&self, bytes: &[u8], start: usize, out: &mut Vec<u8>) {
        let mut contexts = vec![0; bytes.len()];
        let mut expected = [0; FLOAT_CHUNK];
        arch::vectorised(
            #[inline(always)]
            || {
                for (index, contexts) in contexts.chunks_mut(FLOAT_CHUNK).enumerate() {
                    let expected = &mut expected[..contexts.len()];
                    self.0.contexts(start + index * FLOAT_CHUNK, expected);
                    contexts.iter_mut().zip(expected).for_each(|(to, &mut from)| *to = from as u8);
                }
            },
        );
        rans::encode_in(most_lanes_for(bytes.len()), self.0.tables.encoder(), bytes, &contexts, out);
    }
}
