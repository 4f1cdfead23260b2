//! Whole octaves for rows and columns.

use super::model::{NestedModel, geometry};
use crate::dtype::Dtype;
use crate::transform::float::scale::{STEPS_PER_OCTAVE, Scales};
use crate::transform::float::{choose_scales, find_row_length};

impl NestedModel {
    /// Makes the model for a section of whole elements, if the dtype has one.
    pub fn fit(bytes: &[u8], dtype: Option<Dtype>, row_length: Option<usize>) -> Option<Self> {
        let geometry = geometry(dtype)?;
        let mut scales = match dtype.and_then(Dtype::float_layout) {
            Some(layout) if !bytes.is_empty() => {
                let row_length = row_length.or_else(|| find_row_length(layout, bytes));
                choose_scales(layout, bytes, row_length)
            }
            _ => Scales::default(),
        };
        scales.base = 0;
        for offset in scales.rows.iter_mut().chain(&mut scales.columns) {
            *offset = (i32::from(*offset) + STEPS_PER_OCTAVE / 2).div_euclid(STEPS_PER_OCTAVE) as i8;
        }
        scales.drop_zeros();
        Some(Self { geometry, scales })
    }
}
