//! Planes to elements.

use super::model::PlanesModel;
use crate::error::Result;
use crate::frame::wire::Reader;

/// Bytes decoded per plane before they are interleaved, as many as a chunk has elements: both stay in the
/// first-level cache.
const PLANE_CHUNK: usize = 4096;

impl PlanesModel {
    /// Decodes a block of whole elements.
    pub(super) fn decode_block(&self, reader: &mut Reader, out: &mut [u8]) -> Result<()> {
        let width = self.planes.len();
        if let [model] = &self.planes[..] {
            return model.decode_into(reader, out);
        }
        let mut buffer = [0u8; PLANE_CHUNK];
        for (offset, model) in self.planes.iter().enumerate() {
            let mut decoder = model.decoder(reader, out.len() / width)?;
            for chunk in out.chunks_mut(PLANE_CHUNK * width) {
                let bytes = decoder.next(chunk.len() / width, &mut buffer)?;
                for (element, &byte) in chunk.chunks_exact_mut(width).zip(bytes) {
                    element[offset] = byte;
                }
            }
            decoder.finish()?;
        }
        Ok(())
    }
}
