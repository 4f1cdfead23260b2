//! ggml blocks as the numbers they stand for: what a `dequantize=` argument asks for, and decoding into memory that arrays lie over.

use half::{bf16, f16};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use ztensor::formats::gguf::{BlockType, Real, dequantize};
use ztensor::{DType, ElementType, Layout};

use crate::element;
use crate::errors::{OrRaise, argument};
use crate::memory::array::Region;
use crate::memory::{Block, Memory};
use crate::work::Work;

/// What a `dequantize=` argument asks for: `None` and `False` leave blocks alone, `True` is float32, a dtype is itself.
pub(crate) fn precision(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().then_some(DType::F32));
    }
    let refuse = || argument(format!("dequantize must be True, float32, float16 or bfloat16, not {value}"));
    match element::of_any(value).map_err(|_| refuse())? {
        ElementType { storage: storage @ (DType::F32 | DType::F16 | DType::BF16), logical: None } => {
            Ok(Some(storage))
        }
        _ => Err(refuse()),
    }
}

/// Whether these are PyTorch's integers with scales.
pub(crate) fn is_torch(layout: &Layout) -> bool {
    layout.name() == "torch.quantized/1"
}

/// Where blocks are.
pub(crate) enum Blocks<'a> {
    /// All those of a tensor in a file.
    InFile(&'a ztensor::Reader, &'a str),
    /// In memory.
    Here(BlockType, &'a [u8]),
}

impl Blocks<'_> {
    fn decode<T: Real>(&self, memory: &mut [u8]) -> ztensor::Result<()> {
        let numbers: &mut [T] = bytemuck::try_cast_slice_mut(memory)
            .map_err(|_| ztensor::Error::argument("the numbers do not fit their block"))?;
        match self {
            Blocks::InFile(reader, name) => reader.dequantize_into(name, numbers),
            Blocks::Here(block, bytes) => dequantize(*block, bytes, numbers),
        }
    }

    /// Decodes blocks into memory for numbers of this shape.
    pub(crate) fn numbers<'py>(
        &self,
        py: Python<'py>,
        precision: DType,
        shape: &[usize],
    ) -> PyResult<Region<'py>> {
        let too_large = || argument("the numbers do not fit the address space");
        let length = shape.iter().try_fold(precision.width(), |bytes, &size| bytes.checked_mul(size));
        let length = length.ok_or_else(too_large)?;
        if let Blocks::InFile(reader, name) = self {
            reader.check_proportion(name, "data").or_raise()?;
        }
        let mut block = Block::new(length).or_raise()?;
        if let Some(memory) = block.bytes().get_mut(..length) {
            py.work(|| match precision {
                DType::F16 => self.decode::<f16>(memory),
                DType::BF16 => self.decode::<bf16>(memory),
                _ => self.decode::<f32>(memory),
            })
            .or_raise()?;
            py.check_signals()?;
        }
        let memory = Memory::of_block(py, block)?.into_bound(py);
        Region::new(&memory, 0, 0, length as u64).ok_or_else(too_large)
    }
}
