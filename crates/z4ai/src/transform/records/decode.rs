//! The elements of fields to records.

use super::model::{FieldCode, MOST_BYTES, RecordsModel};
use super::with_scratch;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::Position;

impl RecordsModel {
    pub(super) fn decode_block(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        let length = self.layout.length();
        if out.len() > MOST_BYTES || !at.start.is_multiple_of(length) {
            return Err(Error::corrupt("a block of records is too long or begins inside a record"));
        }
        let (records, rest) = out.split_at_mut(out.len() / length * length);
        // Fields are put in bit by bit.
        records.fill(0);
        let fields = if records.is_empty() { &[][..] } else { &self.fields };
        let mut sources = vec![Vec::new(); fields.len()];
        for (place, field) in fields.iter().enumerate() {
            let encoded = reader.length()?;
            let mut inner = Reader::new(reader.take(encoded)?, "field");
            with_scratch(field.moves.elements_length(records.len()), |elements| {
                let start = at.start / length * field.count;
                match &field.code {
                    FieldCode::Alone(model) => {
                        model.decode(&mut inner, Position::element(start), elements)?
                    }
                    FieldCode::Given(model) => model.decode(&mut inner, &sources, elements)?,
                }
                inner.finish()?;
                if field.is_source {
                    sources[place].extend_from_slice(elements);
                }
                field.moves.scatter(elements, records);
                Ok(())
            })?;
        }
        rest.copy_from_slice(reader.take(rest.len())?);
        Ok(())
    }
}
