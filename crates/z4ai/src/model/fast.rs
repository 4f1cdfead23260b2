//! Floats for the fastest decoding: the exponent minus whole octaves per row and column, as nested bit planes.

use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::entropy::nested::{self, Geometry, Shifts};
use crate::error::{Error, Result};
use crate::frame::wire::{Reader, put_length};
use crate::transform::float::scale::{STEPS, Scales};
use crate::transform::float::{choose_scales, find_row_length};

/// Bytes that the length of a block of the usual size takes.
const LIKELY_LENGTH: usize = 3;

/// The shifts of a section's rows and columns.
#[derive(Debug)]
pub(crate) struct FastModel {
    geometry: Geometry,
    /// Whole octaves, unlike in the float model.
    scales: Scales,
}

fn geometry(dtype: Option<Dtype>) -> Option<Geometry> {
    match dtype? {
        Dtype::Bf16 => Some(Geometry::BF16),
        Dtype::F16 => Some(Geometry::FP16),
        Dtype::F32 | Dtype::Complex64 => Some(Geometry::FP32),
        Dtype::F8E4M3 => Some(Geometry::FP8_E4M3),
        Dtype::F8E5M2 => Some(Geometry::FP8_E5M2),
        _ => None,
    }
}

impl FastModel {
    /// Makes the model for a section of whole elements, if the dtype has one.
    pub fn fit(
        bytes: &[u8],
        dtype: Option<Dtype>,
        row_length: Option<usize>,
        kernel: Kernel,
    ) -> Option<Self> {
        let geometry = geometry(dtype)?;
        let mut scales = match dtype.and_then(Dtype::float_layout) {
            Some(layout) if !bytes.is_empty() => {
                let row_length = row_length.or_else(|| find_row_length(layout, bytes, kernel));
                choose_scales(layout, bytes, row_length, kernel)
            }
            _ => Scales::default(),
        };
        scales.base = 0;
        for offset in scales.rows.iter_mut().chain(&mut scales.columns) {
            *offset = (i32::from(*offset) + STEPS / 2).div_euclid(STEPS) as i8;
        }
        scales.drop_zeros();
        Some(Self { geometry, scales })
    }

    /// Appends the model.
    pub fn write(&self, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        self.scales.write(kernel, out)
    }

    /// Reads the model of a section of `elements` elements.
    pub fn read(reader: &mut Reader, dtype: Option<Dtype>, elements: usize, kernel: Kernel) -> Result<Self> {
        let geometry =
            geometry(dtype).ok_or_else(|| Error::corrupt("nested planes of a dtype that has none"))?;
        Ok(Self { geometry, scales: Scales::read(reader, elements, kernel)? })
    }

    /// The shifts of the block that starts with element `start`.
    fn shifts(&self, start: usize) -> Shifts<'_> {
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

    /// Appends a block.
    pub fn encode(&self, bytes: &[u8], start: usize, kernel: Kernel, out: &mut Vec<u8>) -> Result<()> {
        // The length comes first but is known last; with as many bytes as are likely, nothing has to move.
        let place = out.len();
        out.extend_from_slice(&[0; LIKELY_LENGTH]);
        nested::encode(kernel, bytes, self.geometry, self.shifts(start), out)?;
        let mut length = Vec::with_capacity(LIKELY_LENGTH);
        put_length(&mut length, out.len() - place - LIKELY_LENGTH);
        out.splice(place..place + LIKELY_LENGTH, length);
        Ok(())
    }

    /// Decodes a block.
    pub fn decode(&self, reader: &mut Reader, start: usize, kernel: Kernel, out: &mut [u8]) -> Result<()> {
        let length = reader.length()?;
        nested::decode(kernel, reader.take(length)?, self.geometry, self.shifts(start), out)
    }
}
