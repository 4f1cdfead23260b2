//! The planner: which model a section gets and how it is cut into blocks, decided by looking at the data, mostly at samples of it.

use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::model::{FastModel, GridModel, Model, PaletteModel, SparseModel};
use crate::options::{Effort, Options};
use crate::transform::float::FloatModel;
use crate::transform::opaque;
use crate::transform::planes::PlanesModel;

/// Elements per block: large enough that flushing the coder's states costs less than 0.1 %.
const BLOCK_ELEMENTS: usize = 1 << 17;
/// Bytes per block of opaque data.
const OPAQUE_BLOCK: usize = 1 << 20;

/// Bytes on which byte planes and zstd are compared.
const INTEGER_SAMPLE: usize = 1 << 18;

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
    fn dense(
        elements: &[u8],
        dtype: Dtype,
        options: &Options,
        block: usize,
        kernel: Kernel,
    ) -> Result<Model> {
        if options.effort == Effort::Fast
            && let Some(model) = FastModel::fit(elements, Some(dtype), options.row_length(), kernel)
        {
            return Ok(Model::Fast(model));
        }
        if let Some(layout) = dtype.float_layout() {
            let fitted =
                FloatModel::fit(layout, elements, options.row_length(), options.effort, block, kernel)?;
            return Ok(Model::Float(Box::new(fitted)));
        }
        if planes_are_smaller(elements, dtype.scalar_width(), kernel)? {
            return Ok(Model::Planes(PlanesModel::fit(elements, dtype.scalar_width())?));
        }
        Ok(Model::Opaque { level: block_level(options), long: false })
    }

    /// The same plan with one block for the whole section, if that may find more repeats.
    pub fn with_long_distances(&self, length: usize) -> Option<Self> {
        match self.model {
            Model::Opaque { level, long: false } if length > self.block_length => Some(Self {
                model: Model::Opaque { level: level - LEVEL_BONUS, long: true },
                block_length: length,
            }),
            _ => None,
        }
    }

    fn opaque(options: &Options) -> Self {
        Self { model: Model::Opaque { level: block_level(options), long: false }, block_length: OPAQUE_BLOCK }
    }
}

/// How much higher the zstd level of blocks is than that of a whole section, to make up for what blocks cannot see of each other.
const LEVEL_BONUS: i32 = 2;

/// The zstd level for independent blocks.
fn block_level(options: &Options) -> i32 {
    let level = options.level.unwrap_or(match options.effort {
        Effort::Fast => 1,
        Effort::Default => 3,
        Effort::Max => 19,
    });
    level + LEVEL_BONUS
}

/// Whether byte planes beat zstd on a sample from the middle.
fn planes_are_smaller(elements: &[u8], width: usize, kernel: Kernel) -> Result<bool> {
    let start = (elements.len() / 2 - elements.len().min(INTEGER_SAMPLE) / 2) / width * width;
    let sample = &elements[start..elements.len().min(start + INTEGER_SAMPLE / width * width)];
    let mut planes = Vec::new();
    let model = PlanesModel::fit(sample, width)?;
    model.write(&mut planes);
    model.encode(sample, kernel, &mut planes);
    Ok(planes.len() <= opaque::encode(sample, 3, false)?.len())
}
