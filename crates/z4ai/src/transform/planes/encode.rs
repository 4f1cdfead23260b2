//! Elements to planes.

use super::model::PlanesModel;

impl PlanesModel {
    /// Appends a block of whole elements.
    pub(super) fn encode_block(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let width = self.planes.len();
        if let [model] = &self.planes[..] {
            return model.encode(bytes, out);
        }
        let mut plane = Vec::with_capacity(bytes.len() / width);
        for (offset, model) in self.planes.iter().enumerate() {
            plane.clear();
            plane.extend(bytes.chunks_exact(width).map(|element| element[offset]));
            model.encode(&plane, out);
        }
    }
}
