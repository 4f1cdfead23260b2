//! A plane model for each byte, from the histogram of that byte.

use super::model::{MAX_WIDTH, PlanesModel};
use crate::entropy::plane::{self, PlaneModel};
use crate::error::Result;

impl PlanesModel {
    /// Makes the model for whole elements of `width` bytes.
    pub fn fit(bytes: &[u8], width: usize) -> Result<Self> {
        if width == 1 {
            return Ok(Self { planes: vec![PlaneModel::choose(&plane::histogram_of(bytes), 4)?] });
        }
        let mut plane = Vec::with_capacity(bytes.len() / width);
        let plane = |offset: usize| {
            plane.clear();
            plane.extend(bytes.chunks_exact(width).map(|element| element[offset]));
            PlaneModel::choose(&plane::histogram_of(&plane), 4)
        };
        Ok(Self { planes: (0..width.min(MAX_WIDTH)).map(plane).collect::<Result<_>>()? })
    }
}
