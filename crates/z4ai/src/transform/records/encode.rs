//! Records to the elements of their fields.

use super::model::{FieldCode, RecordsModel};
use super::moves::FieldMoves;
use crate::arch::memory;
use crate::error::Result;
use crate::frame::wire::put_length;
use crate::record::{Field, RecordLayout};
use crate::transform::Position;

impl RecordsModel {
    /// Appends a block, which begins with a record and may end inside one.
    pub(super) fn encode_block(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        let records = whole_records(bytes, &self.layout);
        let mut block = Vec::new();
        let fields = if records.is_empty() { &[][..] } else { &self.fields };
        let mut sources = vec![Vec::new(); fields.len()];
        for (place, field) in fields.iter().enumerate() {
            let mut elements = memory::zeroed(field.moves.elements_length(records.len()))?;
            field.moves.gather(records, &mut elements);
            let start = at.start / self.layout.length() * field.count;
            block.clear();
            match &field.code {
                FieldCode::Alone(model) => model.encode(&elements, Position::element(start), &mut block)?,
                FieldCode::Given(model) => model.encode(&elements, &sources, &mut block),
            }
            if field.is_source {
                sources[place] = elements;
            }
            put_length(out, block.len());
            out.extend_from_slice(&block);
        }
        out.extend_from_slice(&bytes[records.len()..]);
        Ok(())
    }
}

/// The whole records at the front of some bytes.
pub(crate) fn whole_records<'a>(bytes: &'a [u8], layout: &RecordLayout) -> &'a [u8] {
    &bytes[..bytes.len() / layout.length() * layout.length()]
}

/// The elements of a field of whole records of so many bytes.
pub(crate) fn gather(records: &[u8], field: &Field, length: usize) -> Result<Vec<u8>> {
    let moves = FieldMoves::of(field, length);
    let mut elements = memory::zeroed(moves.elements_length(records.len()))?;
    moves.gather(records, &mut elements);
    Ok(elements)
}
