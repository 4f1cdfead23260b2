//! The planner: which model a section gets and how it is cut into blocks, decided by looking at the data, mostly at samples of it.

use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::options::{Effort, Options};
use crate::transform::Model;
use crate::transform::float::FloatModel;
use crate::transform::planes::PlanesModel;

/// Elements per block: large enough that flushing the coder's states costs less than 0.1 %.
const BLOCK_ELEMENTS: usize = 1 << 17;
/// Bytes per block of opaque data.
const OPAQUE_BLOCK: usize = 1 << 20;

/// A section's model and block length.
#[derive(Debug)]
pub(crate) struct Plan {
    pub model: Model,
    pub block_length: usize,
}

impl Plan {
    /// Plans a section.
    pub fn choose(bytes: &[u8], options: &Options, kernel: Kernel) -> Result<Self> {
        let width = options.scalar_width();
        let elements = &bytes[..bytes.len() / width * width];
        let block_length = BLOCK_ELEMENTS * width;
        let level = options.level.unwrap_or(match options.effort {
            Effort::Fast => 1,
            Effort::Default => 3,
            Effort::Max => 19,
        });
        let model = match options.dtype.and_then(Dtype::float_layout) {
            Some(layout) if !elements.is_empty() => {
                let fitted = FloatModel::fit(layout, elements, options.row_length(), block_length, kernel)?;
                Model::Float(Box::new(fitted))
            }
            None if options.dtype.is_some() => Model::Planes(PlanesModel::fit(elements, width)?),
            _ => return Ok(Self { model: Model::Opaque { level, long: false }, block_length: OPAQUE_BLOCK }),
        };
        Ok(Self { model, block_length })
    }
}
