//! The layout of records and a model for each field.

use super::given::GivenModel;
use super::moves::FieldMoves;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::record::{Field, RecordLayout};
use crate::transform::difference::DifferenceModel;
use crate::transform::reference::ReferenceModel;
use crate::transform::stored::StoredModel;
use crate::transform::{Contents, Model, Position, Transform};

/// The most bytes of a block, whose elements may take eight times as many.
pub(super) const MOST_BYTES: usize = 1 << 22;

/// The models of a section's fields.
#[derive(Debug)]
pub(crate) struct RecordsModel {
    pub(super) layout: RecordLayout,
    pub(super) fields: Vec<FieldModel>,
}

/// A field, how it moves and how it is coded.
#[derive(Debug)]
pub(super) struct FieldModel {
    pub moves: FieldMoves,
    /// Elements in a record.
    pub count: usize,
    pub code: FieldCode,
    /// Whether other fields depend on it.
    pub is_source: bool,
}

/// How the elements of a field are coded.
#[derive(Debug)]
pub(crate) enum FieldCode {
    /// By themselves.
    Alone(Model),
    /// In contexts that follow from fields before it.
    Given(Box<GivenModel>),
}

impl FieldModel {
    fn new(field: &Field, record: usize, code: FieldCode) -> Self {
        Self { moves: FieldMoves::of(field, record), count: field.count(), code, is_source: false }
    }
}

impl FieldCode {
    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Alone(model) => model.write(out),
            Self::Given(model) => {
                out.push(GivenModel::TAG);
                model.write(out);
                Ok(())
            }
        }
    }
}

impl RecordsModel {
    /// From the code of each field.
    pub fn new(layout: RecordLayout, codes: Vec<FieldCode>) -> Self {
        let length = layout.length();
        let fields = layout.fields().iter().zip(codes);
        let mut fields: Vec<FieldModel> =
            fields.map(|(field, code)| FieldModel::new(field, length, code)).collect();
        for place in 0..fields.len() {
            let FieldCode::Given(model) = &fields[place].code else { continue };
            let sources = model.sources();
            sources.into_iter().for_each(|source| fields[source].is_source = true);
        }
        Self { layout, fields }
    }
}

impl Transform for RecordsModel {
    const TAG: u8 = 13;
    const NAME: &'static str = "records";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        if section.width() != 1 {
            return Err(Error::corrupt("records of elements of more than a byte"));
        }
        let layout = RecordLayout::read(reader)?;
        let records = section.length / layout.length();
        let mut codes = Vec::with_capacity(layout.fields().len());
        for (place, field) in layout.fields().iter().enumerate() {
            if reader.peek().first() == Some(&GivenModel::TAG) {
                reader.u8()?;
                codes.push(FieldCode::Given(Box::new(GivenModel::read(reader, &layout, place)?)));
                continue;
            }
            // One level only, so that no frame nests models until the stack overflows.
            if let Some(&(Self::TAG | DifferenceModel::TAG | ReferenceModel::TAG | StoredModel::TAG)) =
                reader.peek().first()
            {
                return Err(Error::corrupt("a field that is stored, a difference or records itself"));
            }
            let length = records * field.count() * field.dtype.width();
            let model = Model::read_from(reader, Contents { dtype: Some(field.dtype), length })?;
            codes.push(FieldCode::Alone(model));
        }
        Ok(Self::new(layout, codes))
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.layout.write(out);
        self.fields.iter().try_for_each(|field| field.code.write(out))
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at, out)
    }

    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let mut parts = Vec::new();
        for (index, _) in self.fields.iter().enumerate().filter(|_| elements >= self.layout.length()) {
            let length = reader.length()?;
            reader.take(length)?;
            parts.push((format!("field {index}"), length));
        }
        Ok(parts)
    }
}
