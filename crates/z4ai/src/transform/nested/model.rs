//! The shifts of a section's rows and columns.

use super::geometry::FloatFields;
use super::shifts::Shifts;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::float::scale::Scales;
use crate::transform::{Contents, Position, Transform, one_part};

/// The model of floats as nested bit planes.
#[derive(Debug)]
pub(crate) struct NestedModel {
    pub(super) geometry: FloatFields,
    /// Whole octaves, unlike in the float model.
    pub(super) scales: Scales,
}

/// Where the fields of a dtype lie, if it has such a model.
pub(super) fn geometry(dtype: Option<Dtype>) -> Option<FloatFields> {
    match dtype? {
        Dtype::Bf16 => Some(FloatFields::BF16),
        Dtype::F16 => Some(FloatFields::FP16),
        Dtype::F32 | Dtype::Complex64 => Some(FloatFields::FP32),
        Dtype::F8E4M3 => Some(FloatFields::FP8_E4M3),
        Dtype::F8E5M2 => Some(FloatFields::FP8_E5M2),
        _ => None,
    }
}

impl NestedModel {
    /// The shifts of the block that starts with element `start`.
    pub(super) fn shifts(&self, start: usize) -> Shifts<'_> {
        let row_length = self.scales.row_length;
        if row_length == 0 {
            return Shifts::default();
        }
        Shifts {
            rows: bytemuck::cast_slice(self.scales.rows.get(start / row_length..).unwrap_or_default()),
            columns: bytemuck::cast_slice(&self.scales.columns),
            row_length,
            first_column: start % row_length,
        }
    }
}

impl Transform for NestedModel {
    const TAG: u8 = 4;
    // Named after the effort that it is for.
    const NAME: &'static str = "fast";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let geometry = geometry(section.dtype);
        let geometry = geometry.ok_or_else(|| Error::corrupt("nested planes of a dtype that has none"))?;
        Ok(Self { geometry, scales: Scales::read(reader, section.elements())? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.scales.write(out)
    }

    fn encode(&self, bytes: &[u8], at: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, at.start, out)
    }

    fn decode(&self, reader: &mut Reader, at: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, at.start, out)
    }

    fn parts(&self, reader: &mut Reader, _: usize) -> Result<Vec<(String, usize)>> {
        Ok(one_part("nested planes", reader))
    }
}
