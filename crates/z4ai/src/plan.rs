//! The planner: which model a section gets and how it is cut into blocks, decided by looking at the data, mostly at samples of it.

use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::model::{FastModel, GridModel, Model, PaletteModel, SparseModel};
use crate::options::{Effort, Options};
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
        let Some(dtype) = options.dtype.filter(|_| !elements.is_empty()) else {
            return Ok(Self::opaque(options));
        };
        let block_length = BLOCK_ELEMENTS * width;
        let model = match Self::structure(elements, dtype, options, block_length, kernel)? {
            Some(model) => model,
            None => Self::dense(elements, dtype, options, block_length, kernel)?,
        };
        Ok(Self { model, block_length })
    }

    /// The traces of how weights were made, the most telling first.
    fn structure(
        elements: &[u8],
        dtype: Dtype,
        options: &Options,
        block: usize,
        kernel: Kernel,
    ) -> Result<Option<Model>> {
        if let Some(model) = PaletteModel::fit(elements, dtype.scalar_width(), block)? {
            return Ok(Some(Model::Palette(model)));
        }
        if let Some(model) = GridModel::fit(elements, dtype, options.row_length()) {
            return Ok(Some(Model::Grid(model)));
        }
        Ok(SparseModel::fit(elements, dtype, block, kernel)?.map(Model::Sparse))
    }

    /// Ordinary elements.
    fn dense(elements: &[u8], dtype: Dtype, options: &Options, block: usize, kernel: Kernel) -> Result<Model> {
        if options.effort == Effort::Fast
            && let Some(model) = FastModel::fit(elements, Some(dtype), options.row_length(), kernel)
        {
            return Ok(Model::Fast(model));
        }
        Ok(match dtype.float_layout() {
            Some(layout) => {
                let fitted = FloatModel::fit(layout, elements, options.row_length(), options.effort, block, kernel)?;
                Model::Float(Box::new(fitted))
            }
            None => Model::Planes(PlanesModel::fit(elements, dtype.scalar_width())?),
        })
    }

    fn opaque(options: &Options) -> Self {
        let level = options.level.unwrap_or(match options.effort {
            Effort::Fast => 1,
            Effort::Default => 3,
            Effort::Max => 19,
        });
        Self { model: Model::Opaque { level, long: false }, block_length: OPAQUE_BLOCK }
    }
}
