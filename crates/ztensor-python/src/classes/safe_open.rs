//! `safe_open`: the interface of safetensors' class of that name, for files of any format.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use ztensor::{DType, Value};

use crate::classes::limits::Limits;
use crate::classes::reader::Reader;
use crate::classes::tensor_slice::{Target, TensorSlice};
use crate::errors::argument;
use crate::reading::arrays::{self, How};
use crate::reading::quantized;

/// Opens a model file of any format lazily and gives tensors as they are asked for.
///
/// framework: "pt" for PyTorch, "np" for NumPy, "jax" or "flax" for JAX. device: what torch.device takes, or a GPU's number; for JAX one of its
/// devices. backend: "mmap" or "pread". base: where the base of a delta is, a path, a Reader or a list of them. dequantize: True or a dtype gives quantised tensors as
/// the numbers they stand for; otherwise they are ztensor.Tensors, as are sparse ones outside PyTorch. limits: what the file may cost. storage_options:
/// endpoints and keys for URLs.
#[pyclass(frozen, module = "ztensor", name = "safe_open")]
#[allow(non_camel_case_types)]
pub(crate) struct safe_open {
    reader: Reader,
    target: Arc<Target>,
    dequantize: Option<DType>,
}

impl safe_open {
    fn tensors<'py>(&self, py: Python<'py>, names: &[&str]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let file = self.reader.file()?;
        let how = How { copy: false, dequantize: self.dequantize, objects: true };
        match self.target.torch(py)? {
            Some(torch) => arrays::torch_tensors(py, &torch, &file, names, how),
            None => {
                let arrays = arrays::numpy_arrays(py, &file, names, how)?;
                arrays.into_iter().map(|array| self.target.placed(array)).collect()
            }
        }
    }
}

#[pymethods]
impl safe_open {
    #[new]
    #[pyo3(signature = (filename, framework, device=None, *, backend=None, base=None, dequantize=None, limits=None, storage_options=None), text_signature = "(filename, framework, device='cpu', *, backend=None, base=None, dequantize=None, limits=None, storage_options=None)")]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python class")]
    fn new(
        py: Python<'_>,
        filename: PathBuf,
        framework: &str,
        device: Option<Py<PyAny>>,
        backend: Option<&str>,
        base: Option<&Bound<'_, PyAny>>,
        dequantize: Option<&Bound<'_, PyAny>>,
        limits: Option<&Bound<'_, Limits>>,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let target = match framework {
            "pt" | "pytorch" | "torch" => Target::Torch { device },
            "np" | "numpy" => Target::Numpy,
            "jax" | "flax" => {
                Target::Made { from_array: py.import("ztensor.jax")?.getattr("from_array")?.unbind(), device }
            }
            other => {
                return Err(argument(format!(
                    "framework must be \"pt\", \"np\", \"jax\" or \"flax\", not \"{other}\""
                )));
            }
        };
        let io = match backend {
            None => "auto",
            Some("mmap") => "mmap",
            Some("pread") => "read",
            Some(other) => {
                return Err(argument(format!("backend must be \"mmap\" or \"pread\", not \"{other}\"")));
            }
        };
        target.torch(py)?;
        let dequantize = quantized::precision(dequantize)?;
        let reader = Reader::open(py, filename, io, true, base, false, limits, storage_options)?;
        Ok(safe_open { reader, target: Arc::new(target), dequantize })
    }

    /// The names of all tensors, sorted.
    fn keys(&self) -> PyResult<Vec<String>> {
        let mut names: Vec<String> = self.reader.file()?.names().map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The names of all tensors in the order of their data in the file.
    fn offset_keys(&self) -> PyResult<Vec<String>> {
        let file = self.reader.file()?;
        let mut objects: Vec<_> = file.objects().collect();
        objects
            .sort_by_key(|(_, object)| object.principal().and_then(|component| component.data.first_span()));
        Ok(objects.into_iter().map(|(name, _)| name.to_owned()).collect())
    }

    /// The file's own metadata as text, or None where it has none.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let file = self.reader.file()?;
        if !file.states_attributes() {
            return Ok(None);
        }
        let dict = PyDict::new(py);
        for (key, value) in file.attributes() {
            match value {
                Value::Text(text) => dict.set_item(key, text)?,
                other => dict.set_item(key, crate::attributes::to_python(py, other)?.str()?)?,
            }
        }
        Ok(Some(dict))
    }

    /// One tensor.
    fn get_tensor<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let tensors = self.tensors(name.py(), &[name.to_str()?])?;
        tensors.into_iter().next().ok_or_else(|| argument("nothing was read"))
    }

    /// All tensors by name.
    fn get_tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let file = self.reader.file()?;
        let names: Vec<&str> = file.names().collect();
        let dict = PyDict::new(py);
        for (name, tensor) in names.iter().zip(self.tensors(py, &names)?) {
            dict.set_item(name, tensor)?;
        }
        Ok(dict)
    }

    /// One tensor to take parts of, as in `file.get_slice(name)[:, 2:4]`.
    fn get_slice(&self, name: &str) -> PyResult<TensorSlice> {
        TensorSlice::new(self.reader.file()?, name, &self.target, self.dequantize)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.reader.close();
    }
}
