//! Whether enough elements are zero, and a model for the others.

use super::encode::{Zeros, encode};
use super::model::SparseModel;
use crate::arch;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::threads;
use crate::transform::float::FloatModel;
use crate::transform::planes::PlanesModel;

/// Zeros per 256 elements from which the bitmap pays for itself. Structured: half or double changes no size.
const SPARSE_GAIN: usize = 48;
/// Elements looked at by [`detect`]. Structured: half or double changes no size.
const SPARSE_SAMPLE: usize = 4096;

/// Whether enough elements are zero, judged by a sample.
pub(crate) fn detect(elements: &[u8], width: usize, is_float: bool) -> bool {
    match width {
        0 | 1 => detect_width::<1>(elements, is_float),
        2 => detect_width::<2>(elements, is_float),
        4 => detect_width::<4>(elements, is_float),
        _ => detect_width::<8>(elements, is_float),
    }
}

fn detect_width<const WIDTH: usize>(elements: &[u8], is_float: bool) -> bool {
    /// Neighbours that are looked at together: a cache line of fp32. A round number.
    const TOGETHER: usize = 16;
    let zeros = Zeros { has_sign: is_float };
    let elements = elements.as_chunks::<WIDTH>().0;
    let step = (elements.len() / (SPARSE_SAMPLE / TOGETHER)).max(TOGETHER);
    let (mut seen, mut found) = (0, 0);
    arch::vectorised(
        #[inline(always)]
        || {
            for part in elements.chunks(step) {
                let part = &part[..part.len().min(TOGETHER)];
                seen += part.len();
                found += part.iter().map(|element| usize::from(zeros.look(element).0)).sum::<usize>();
            }
        },
    );
    seen > 0 && found * 256 >= seen * SPARSE_GAIN
}

impl SparseModel {
    /// Whether many of these elements are zero.
    pub fn suits(bytes: &[u8], dtype: Dtype) -> bool {
        detect(bytes, dtype.scalar_width(), dtype.float_layout().is_some())
    }

    /// Makes the model for a section of whole elements.
    pub fn fit(bytes: &[u8], dtype: Dtype, block: usize) -> Result<Self> {
        let layout = dtype.float_layout();
        let (width, is_float) = (dtype.scalar_width(), layout.is_some());
        let parts = threads::map(bytes.chunks(block), |part| encode(part, width, is_float).dense);
        let dense = parts.concat();
        let dense = match layout {
            Some(layout) => FloatModel::fit_flat(layout, &dense, block)?.into(),
            None => PlanesModel::fit(&dense, width)?.into(),
        };
        Ok(Self::new(dtype, dense))
    }
}
