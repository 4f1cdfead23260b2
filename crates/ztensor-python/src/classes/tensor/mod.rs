//! `Tensor`: a tensor of any layout in memory, as its component arrays with shape, types and attributes. A dense one is an array to NumPy and to
//! everything that takes arrays. One that was taken from a `Reader` by its name reads its components when they are first needed.

mod parts;

use std::sync::Arc;

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyIterator, PyTuple};
use ztensor::formats::gguf::BlockType;
use ztensor::{DType, ElementType, Layout, LogicalType, Shape};

use self::parts::{of_shape, principal, seen_as, storage_of};
use crate::element;
use crate::errors::{argument, indexing, to_python};
use crate::memory::array::ArrayBytes;
use crate::reading::packed;
use crate::reading::quantized::{self, Blocks, precision};
use crate::reading::slices;
use crate::reading::sparse;
use crate::torch::Torch;

/// A tensor as its component arrays: one array "data" when dense, several when sparse or quantized.
///
/// A dense tensor is an array: np.asarray, indexing, arithmetic and the methods of ndarray work on it. One that is not dense has
/// dequantize() or to_dense(), and components.
///
/// Shape and dtype of a dense tensor are those of its "data"; other layouts need an explicit shape. A shape or dtype that the arrays cannot
/// have is an error; "data" takes the given shape. format is another name for layout.
#[pyclass(frozen, module = "ztensor", name = "Tensor")]
pub(crate) struct PyTensor {
    shape: Vec<u64>,
    element: ElementType,
    layout: Layout,
    attributes: Option<Py<PyDict>>,
    components: PyOnceLock<Py<PyDict>>,
    /// Where components that have not been read are.
    source: Option<Source>,
    /// The array whose address was given away: it lives as long as the tensor.
    exported: PyOnceLock<Py<PyAny>>,
}

/// A tensor of a file.
type Source = (Arc<ztensor::Reader>, String);

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(
        signature = (components, *, shape=None, dtype=None, format=None, r#type=None, attributes=None, layout=None),
        text_signature = "(components, *, shape=None, dtype=None, format='dense', type=None, attributes=None, layout='dense')"
    )]
    fn from_components(
        components: &Bound<'_, PyAny>,
        shape: Option<Vec<u64>>,
        dtype: Option<&Bound<'_, PyAny>>,
        format: Option<&str>,
        r#type: Option<String>,
        attributes: Option<&Bound<'_, PyDict>>,
        layout: Option<&str>,
    ) -> PyResult<Self> {
        let components = components
            .cast::<PyDict>()
            .map_err(|_| PyTypeError::new_err("components must be a dict of NumPy arrays"))?
            .copy()?;
        for (role, array) in &components {
            array
                .cast::<PyUntypedArray>()
                .map_err(|_| PyTypeError::new_err(format!("the component {role} is not a NumPy array")))?;
        }
        if let (Some(layout), Some(format)) = (layout, format)
            && layout != format
        {
            let message = format!(
                "format is another name for layout, and one says \"{format}\", the other \"{layout}\""
            );
            return Err(argument(message));
        }
        let layout = Layout::parse(layout.or(format).unwrap_or("dense"));
        let role = principal(&layout, &components)?;
        let values = match &role {
            Some(role) => components.get_item(role)?,
            None => None,
        };
        let values = values.map(|values| values.cast_into::<PyUntypedArray>()).transpose()?;
        let dense = layout == Layout::Dense;
        if dense && values.is_none() {
            return Err(PyValueError::new_err("a dense tensor needs the component \"data\""));
        }
        let shape = match (shape, &values) {
            (Some(shape), _) => shape,
            (None, Some(values)) if dense => values.shape().iter().map(|&size| size as u64).collect(),
            (None, _) => return Err(PyValueError::new_err("a tensor that is not dense needs a shape")),
        };
        let found = values.as_ref().map(|values| element::of_descriptor(&values.dtype())).transpose()?;
        let mut element = match (dtype, &found) {
            (Some(dtype), _) => storage_of(dtype)?,
            (None, Some(found)) => found.clone(),
            (None, None) => return Err(PyValueError::new_err("the dtype cannot be told: give dtype=")),
        };
        if let Some(name) = r#type {
            element.logical = Some(LogicalType::parse(&name));
        }
        if let Some(found) = &found {
            element::check_carries(found, &element)?;
        }
        if let Some(data) = values.filter(|_| dense) {
            components.set_item("data", of_shape(data, &shape, &element)?)?;
        }
        let attributes = attributes.map(|attributes| attributes.copy().map(Bound::unbind)).transpose()?;
        Ok(PyTensor::read(shape, element, &layout, attributes, components))
    }

    /// Tensor dimensions, outermost first; equal to a list and to a tuple of them.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        CLASS.import(py, "ztensor._arrays", "Dimensions")?.call1((self.shape.clone(),))
    }

    /// Storage type of the values, such as "float32"; equal to the NumPy type too.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        CLASS.import(py, "ztensor._arrays", "StorageType")?.call1((self.element.storage.long_name(),))
    }

    /// Logical type, such as "f8_e4m3fn"; None when the storage type says it all.
    #[getter]
    fn r#type(&self) -> Option<&str> {
        self.element.logical.as_ref().map(|logical| logical.name())
    }

    /// Layout, such as "dense" or "sparse_csr".
    #[getter(layout)]
    fn layout_name(&self) -> &str {
        self.layout.name()
    }

    /// Another name for layout.
    #[getter]
    fn format(&self) -> &str {
        self.layout.name()
    }

    /// The component arrays by role.
    #[getter(components)]
    fn component_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.components(py).cloned()
    }

    /// The tensor's own attributes, or None.
    #[getter(attributes)]
    fn own_attributes<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyDict>> {
        self.attributes(py).cloned()
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        let count = Shape::from(self.shape.clone()).elements();
        count.ok_or_else(|| argument("the shape has more elements than 64 bits count"))
    }

    /// Bytes of all components.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<u64> {
        if let Some((reader, name)) = &self.source {
            return Ok(reader.object(name).map_err(|error| to_python(&error))?.decoded_length());
        }
        let arrays = self.components(py)?.values();
        arrays.iter().map(|array| array.getattr("nbytes")?.extract::<u64>()).sum()
    }

    /// The tensor as a NumPy array (dense tensors only).
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let data = self.data(py)?;
        let element = &self.element;
        if element.bits().is_none() {
            return Ok(data.into_any());
        }
        if packed::is_packed(element)
            && data.dtype().itemsize() == 1
            && element::of_descriptor(&data.dtype())? != *element
        {
            let bytes =
                ArrayBytes::of(&data).ok_or_else(|| argument("packed elements must be contiguous"))?;
            return packed::array(py, bytes.bytes(), element, &self.usize_shape()?);
        }
        seen_as(data, &element::descriptor(py, element)?)
    }

    /// The tensor as a torch.Tensor, without a copy where PyTorch can use the memory; a sparse one as PyTorch's own.
    #[pyo3(signature = (*, device=None), text_signature = "($self, *, device='cpu')")]
    fn torch<'py>(&self, py: Python<'py>, device: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        if sparse::is_sparse(&self.layout) {
            return self.sparse_torch(py, device);
        }
        let data = self.data(py)?;
        let torch = Torch::new(py, device)?;
        let carrier = torch.carrier(&self.element)?;
        let mut array = seen_as(data, &carrier)?;
        if packed::is_packed(&self.element) {
            let shape = Torch::carrier_shape(&self.element, self.usize_shape()?)?;
            array = array.call_method1("reshape", (shape,))?;
        }
        let untyped = array.cast::<PyUntypedArray>()?;
        // PyTorch wants aligned elements, no negative strides, and memory it may write to.
        let negative = untyped.strides().iter().any(|step| *step < 0);
        let writable = array.getattr("flags")?.getattr("writeable")?.is_truthy()?;
        if !untyped.is_aligned() || negative || !writable {
            array = array.call_method1("copy", ("C",))?;
        }
        torch.tensor(&self.element, &array)
    }

    /// The dense tensor of numbers that ggml blocks or PyTorch's quantised integers stand for; a dense tensor is itself. dtype: float32, float16 or bfloat16.
    #[pyo3(signature = (dtype=None), text_signature = "($self, dtype='float32')")]
    fn dequantize<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, tensor) = (slf.py(), slf.get());
        if tensor.layout == Layout::Dense {
            return Ok(slf.clone().into_any());
        }
        let precision = precision(dtype)?.unwrap_or(DType::F32);
        if quantized::is_torch(&tensor.layout) {
            static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let descriptor = element::descriptor(py, &precision.into())?;
            return FUNCTION.import(py, "ztensor._arrays", "dequantized")?.call1((slf, descriptor));
        }
        let block = BlockType::of(&tensor.layout).ok_or_else(|| tensor.not_an_array())?;
        let shape = tensor.usize_shape()?;
        let region = match (&tensor.source, tensor.components.get(py)) {
            (Some((reader, name)), None) => Blocks::InFile(reader, name).numbers(py, precision, &shape)?,
            _ => {
                let data = tensor.components(py)?.get_item("data")?;
                let data = data.ok_or_else(|| argument("this tensor has no component \"data\""))?;
                let bytes = ArrayBytes::of(data.cast::<PyUntypedArray>()?)
                    .ok_or_else(|| argument("blocks must be contiguous"))?;
                Blocks::Here(block, bytes.bytes()).numbers(py, precision, &shape)?
            }
        };
        let element: ElementType = precision.into();
        let components = PyDict::new(py);
        components.set_item("data", region.array(&element::descriptor(py, &element)?, &shape, None)?)?;
        let attributes = tensor.attributes.as_ref().map(|attributes| attributes.clone_ref(py));
        let shape = tensor.shape.clone();
        let dense = PyTensor::read(shape, element, &Layout::Dense, attributes, components);
        Ok(Bound::new(py, dense)?.into_any())
    }

    /// The dense tensor with all elements of a sparse one; a dense tensor is itself.
    fn to_dense<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, tensor) = (slf.py(), slf.get());
        match &tensor.layout {
            Layout::Dense => Ok(slf.clone().into_any()),
            layout if sparse::is_sparse(layout) => {
                static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let values = tensor.components(py)?.get_item("values")?;
                let values = values.ok_or_else(|| argument("this tensor has no component \"values\""))?;
                let typed = seen_as(values.cast_into()?, &element::descriptor(py, &tensor.element)?)?;
                FUNCTION.import(py, "ztensor._arrays", "dense")?.call1((slf, typed))
            }
            _ => Err(tensor.not_an_array()),
        }
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.numpy(py)?;
        let converted = match dtype {
            Some(dtype) => !array.getattr("dtype")?.eq(PyArrayDescr::new(py, dtype)?)?,
            None => false,
        };
        match (dtype, copy) {
            (Some(dtype), _) if converted && copy != Some(false) => array.call_method1("astype", (dtype,)),
            (Some(_), _) if converted => {
                Err(PyValueError::new_err("another dtype needs a copy, which copy=False forbids"))
            }
            (_, Some(true)) => array.call_method1("copy", ("C",)),
            _ => Ok(array),
        }
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // Types that packages add to NumPy have no code of their own there: __array__ brings them.
        let plain = self.element.logical.is_none() && self.element.storage != DType::BF16;
        if self.layout != Layout::Dense || !plain {
            return Err(PyAttributeError::new_err("__array_interface__"));
        }
        let array = self.exported.get_or_try_init(py, || self.numpy(py).map(Bound::unbind))?;
        array.bind(py).getattr("__array_interface__")
    }

    #[pyo3(signature = (**options))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.numpy(py)?.call_method("__dlpack__", (), options) {
            // What NumPy does not know, such as bfloat16, PyTorch does.
            Err(error) if error.is_instance_of::<PyBufferError>(py) => {
                self.torch(py, None)?.call_method("__dlpack__", (), options)
            }
            result => result,
        }
    }

    fn __jax_array__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("ztensor.jax")?.call_method1("from_array", (self.numpy(py)?,))
    }

    fn __dlpack_device__(&self) -> (u32, u32) {
        const CPU: u32 = 1;
        (CPU, 0)
    }

    #[pyo3(signature = (ufunc, method, *inputs, **options))]
    fn __array_ufunc__<'py>(
        &self,
        py: Python<'py>,
        ufunc: &Bound<'py, PyAny>,
        method: &str,
        inputs: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrays = |values: &Bound<'py, PyTuple>| {
            let arrays: Vec<_> = values
                .iter()
                .map(|value| match value.cast::<PyTensor>() {
                    Ok(tensor) => tensor.get().numpy(py),
                    Err(_) => Ok(value),
                })
                .collect::<PyResult<_>>()?;
            PyTuple::new(py, arrays)
        };
        let options = options.map(|options| options.copy()).transpose()?;
        let targets = match &options {
            Some(options) => options.get_item("out")?,
            None => None,
        };
        let targets = targets.map(|targets| targets.cast_into::<PyTuple>()).transpose()?;
        if let (Some(options), Some(targets)) = (&options, &targets) {
            options.set_item("out", arrays(targets)?)?;
        }
        let result = ufunc.getattr(method)?.call(arrays(inputs)?, options.as_ref())?;
        // What was computed into a tensor is that tensor, as NumPy returns the array it was given.
        match targets.filter(|targets| targets.len() == 1) {
            Some(targets) => targets.get_item(0),
            None => Ok(result),
        }
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.usize_shape()?.first() {
            Some(length) => Ok(*length),
            None => Err(PyTypeError::new_err("len() of a tensor without dimensions")),
        }
    }

    /// A part of a dense tensor, as of a NumPy array. Of a tensor that has not been read, only what the part needs is decoded.
    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.needs_dense()?;
        match (&self.source, self.components.get(py)) {
            (Some((reader, name)), None) => slices::numpy_slice(reader, name, key, None),
            _ => self.numpy(py)?.get_item(key).map_err(|error| indexing(py, error)),
        }
    }

    fn __setitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        self.numpy(py)?.set_item(key, value).map_err(|error| indexing(py, error))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.numpy(py)?.try_iter()
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.numpy(py)?.contains(value)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.numpy(py)?.is_truthy()
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.numpy(py)?.call_method0("__float__")?.extract()
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.numpy(py)?.call_method0("__int__")
    }

    /// Everything else that a NumPy array has.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if name.starts_with('_') || !CLASS.import(py, "numpy", "ndarray")?.hasattr(name)? {
            return Err(PyAttributeError::new_err(format!("ztensor.Tensor has no attribute {name:?}")));
        }
        if self.layout != Layout::Dense {
            let reason = self.not_an_array().value(py).str()?;
            return Err(PyAttributeError::new_err(format!("no attribute {name:?}: {reason}")));
        }
        self.numpy(py)?.getattr(name)
    }

    /// What pickle and copy make the tensor from again.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("shape", &self.shape)?;
        named.set_item("dtype", self.element.storage.long_name())?;
        named.set_item("layout", self.layout.name())?;
        named.set_item("type", self.r#type())?;
        named.set_item("attributes", self.attributes(py))?;
        Ok((PyTuple::new(py, [self.components(py)?])?, named))
    }

    fn __repr__(&self) -> String {
        let kind = self.r#type().map_or(String::new(), |kind| format!(" type='{kind}'"));
        let (dtype, layout) = (self.element.storage, &self.layout);
        format!("<ztensor.Tensor shape={:?} dtype='{dtype}'{kind} format='{layout}'>", self.shape)
    }
}
