//! `TensorSlice`: a tensor of a file to take parts of, and what those parts become.

use std::sync::Arc;

use pyo3::prelude::*;
use ztensor::formats::gguf::BlockType;
use ztensor::formats::safetensors;
use ztensor::{DType, ElementType};

use crate::classes::tensor::PyTensor;
use crate::errors::OrRaise;
use crate::reading::arrays::{numpy_slice, torch_slice};
use crate::reading::quantized;
use crate::reading::single::Single;
use crate::torch::Torch;

/// What tensors become: NumPy arrays, PyTorch tensors on a device, or what another framework makes of arrays.
pub(crate) enum Target {
    Numpy,
    Torch {
        device: Option<Py<PyAny>>,
    },
    /// A function from an array to the framework's own, and the device it takes.
    Made {
        from_array: Py<PyAny>,
        device: Option<Py<PyAny>>,
    },
}

impl Target {
    /// PyTorch, if tensors are to become its tensors.
    pub(crate) fn torch<'py>(&self, py: Python<'py>) -> PyResult<Option<Torch<'py>>> {
        match self {
            Target::Numpy | Target::Made { .. } => Ok(None),
            Target::Torch { device } => {
                let device = device.as_ref().map(|device| device.bind(py));
                Torch::new(py, device).map(Some)
            }
        }
    }

    /// The framework's own array of a NumPy array; what is no array stays what it is.
    pub(crate) fn placed<'py>(&self, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Target::Made { from_array, device } if !array.is_instance_of::<PyTensor>() => {
                from_array.bind(array.py()).call1((array, device))
            }
            _ => Ok(array),
        }
    }
}

/// A tensor of a file to take parts of, by indexing it as one would index a NumPy array. Made by safe_open.get_slice.
#[pyclass(frozen, module = "ztensor")]
pub(crate) struct TensorSlice {
    reader: Arc<ztensor::Reader>,
    name: String,
    target: Arc<Target>,
    dequantize: Option<DType>,
}

impl TensorSlice {
    pub(crate) fn new(
        reader: Arc<ztensor::Reader>,
        name: &str,
        target: &Arc<Target>,
        dequantize: Option<DType>,
    ) -> PyResult<Self> {
        reader.object(name).or_raise()?;
        Ok(TensorSlice { reader, name: name.to_owned(), target: Arc::clone(target), dequantize })
    }
}

#[pymethods]
impl TensorSlice {
    /// The shape of the whole tensor.
    fn get_shape(&self) -> PyResult<Vec<u64>> {
        Ok(self.reader.object(&self.name).or_raise()?.shape.to_vec())
    }

    /// The element type by the name safetensors gives it, such as "F32"; our own name where it has none, that of the blocks of a quantised tensor.
    fn get_dtype(&self) -> PyResult<String> {
        let object = self.reader.object(&self.name).or_raise()?;
        let element = match Single::of(&self.name, object, self.dequantize) {
            Ok(single) => Some(single.element),
            Err(_) if quantized::is_torch(&object.layout) && self.dequantize.is_some() => {
                self.dequantize.map(ElementType::plain)
            }
            Err(_) if BlockType::of(&object.layout).is_some() => return Ok(object.layout.name().to_owned()),
            Err(_) => object.principal().map(|component| component.element.clone()),
        };
        Ok(element.map_or_else(String::new, |element| {
            safetensors::name_of(&element).map_or_else(|| element.name().into_owned(), str::to_owned)
        }))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.target.torch(key.py())? {
            Some(torch) => torch_slice(&torch, &self.reader, &self.name, key, self.dequantize),
            None => {
                let array = numpy_slice(&self.reader, &self.name, key, self.dequantize)?;
                self.target.placed(array)
            }
        }
    }
}
