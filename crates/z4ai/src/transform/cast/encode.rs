//! Elements to those of the type that they come from.

use super::model::CastModel;
use super::with_scratch;
use crate::arch::memory;
use crate::error::Result;
use crate::frame::wire::put_length;
use crate::transform::Position;

impl CastModel {
    pub(super) fn encode_block(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        let width = self.dtype.scalar_width();
        let mut narrow = memory::zeroed(self.count(bytes.len()) * self.source.width())?;
        self.source.narrow(bytes, self.dtype, &mut narrow);
        let exceptions = with_scratch([bytes.len(), 0], |[wide, _]| {
            self.source.widen(&narrow, self.dtype, wide);
            if wide == bytes {
                return Ok(Vec::new());
            }
            let pairs = wide.chunks_exact(width).zip(bytes.chunks_exact(width)).enumerate();
            Ok(pairs
                .filter(|(_, (wide, element))| wide != element)
                .map(|(index, _)| index)
                .collect::<Vec<_>>())
        })?;
        put_length(out, exceptions.len());
        let mut next = 0;
        for &index in &exceptions {
            put_length(out, index - next);
            next = index + 1;
        }
        for &index in &exceptions {
            out.extend_from_slice(&bytes[index * width..(index + 1) * width]);
        }
        let reference = self.narrow_reference(at.reference)?;
        let mut block = Vec::with_capacity(narrow.len());
        self.inner.encode(&narrow, Position { start: at.start, reference: &reference }, &mut block)?;
        put_length(out, block.len());
        out.extend_from_slice(&block);
        Ok(())
    }

    /// The elements of the reference as numbers of the type that elements come from.
    fn narrow_reference(&self, reference: &[u8]) -> Result<Vec<u8>> {
        let mut narrow = memory::zeroed(self.count(reference.len()) * self.source.width())?;
        self.source.narrow(reference, self.dtype, &mut narrow);
        Ok(narrow)
    }
}
