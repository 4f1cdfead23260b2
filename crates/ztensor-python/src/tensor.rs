//! `Tensor`: a tensor of any layout in memory, as its component arrays with shape, types and attributes.

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use ztensor::{DType, ElementType, LogicalType, Shape};

use crate::array::ArrayBytes;
use crate::errors::argument;
use crate::torch::Torch;
use crate::{element, packed};

/// A tensor as its component arrays: one array "data" when dense, several when sparse or quantized.
///
/// Shape and dtype of a dense tensor are those of its "data"; other formats need an explicit shape. A shape or dtype that the arrays cannot
/// have is an error; "data" takes the given shape.
#[pyclass(frozen, module = "ztensor", name = "Tensor")]
pub(crate) struct PyTensor {
    #[pyo3(get)]
    shape: Py<PyList>,
    #[pyo3(get)]
    dtype: String,
    #[pyo3(get)]
    r#type: Option<String>,
    #[pyo3(get)]
    format: String,
    #[pyo3(get)]
    components: Py<PyDict>,
    #[pyo3(get)]
    attributes: Option<Py<PyDict>>,
}

impl PyTensor {
    /// A tensor that was read.
    pub(crate) fn new(
        shape: Py<PyList>,
        element: &ElementType,
        format: &str,
        components: Py<PyDict>,
        attributes: Option<Py<PyDict>>,
    ) -> Self {
        PyTensor {
            shape,
            dtype: element.storage.long_name().to_owned(),
            r#type: element.logical.as_ref().map(|logical| logical.name().to_owned()),
            format: format.to_owned(),
            components,
            attributes,
        }
    }

    pub(crate) fn shape<'py>(&self, py: Python<'py>) -> &Bound<'py, PyList> {
        self.shape.bind(py)
    }

    pub(crate) fn format(&self) -> &str {
        &self.format
    }

    pub(crate) fn components<'py>(&self, py: Python<'py>) -> &Bound<'py, PyDict> {
        self.components.bind(py)
    }

    pub(crate) fn attributes<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyDict>> {
        self.attributes.as_ref().map(|attributes| attributes.bind(py))
    }

    /// The element type of the component that carries the values.
    pub(crate) fn element(&self) -> PyResult<ElementType> {
        element::of_names(&self.dtype, self.r#type.as_deref())
    }

    /// The role of the component that carries the values.
    pub(crate) fn principal(&self, py: Python<'_>) -> PyResult<Option<String>> {
        principal(&self.format, self.components.bind(py))
    }

    fn data<'py>(&self, py: Python<'py>, method: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
        if self.format != "dense" {
            let message = format!("{method}() is for dense tensors; this one is \"{}\"", self.format);
            return Err(PyRuntimeError::new_err(message));
        }
        match self.components.bind(py).get_item("data")? {
            Some(data) => Ok(data.cast_into::<PyUntypedArray>()?),
            None => Err(PyRuntimeError::new_err("this dense tensor has no component \"data\"")),
        }
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (components, *, shape=None, dtype=None, format="dense", r#type=None, attributes=None))]
    fn from_components(
        components: &Bound<'_, PyAny>,
        shape: Option<Vec<u64>>,
        dtype: Option<&Bound<'_, PyAny>>,
        format: &str,
        r#type: Option<String>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = components.py();
        let components = components
            .cast::<PyDict>()
            .map_err(|_| PyTypeError::new_err("components must be a dict of NumPy arrays"))?
            .copy()?;
        for (role, array) in &components {
            array
                .cast::<PyUntypedArray>()
                .map_err(|_| PyTypeError::new_err(format!("the component {role} is not a NumPy array")))?;
        }
        let role = principal(format, &components)?;
        let values = match &role {
            Some(role) => components.get_item(role)?,
            None => None,
        };
        let values = values.map(|values| values.cast_into::<PyUntypedArray>()).transpose()?;
        let dense = format == "dense";
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
        Ok(PyTensor {
            shape: PyList::new(py, shape)?.unbind(),
            dtype: element.storage.long_name().to_owned(),
            r#type: element.logical.as_ref().map(|logical| logical.name().to_owned()),
            format: format.to_owned(),
            components: components.unbind(),
            attributes: attributes.map(|attributes| attributes.copy().map(Bound::unbind)).transpose()?,
        })
    }

    /// The tensor as a NumPy array (dense tensors only).
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let data = self.data(py, "numpy")?;
        let element = self.element()?;
        if element.bits().is_none() {
            return Ok(data.into_any());
        }
        if packed::is_packed(&element)
            && data.dtype().itemsize() == 1
            && element::of_descriptor(&data.dtype())? != element
        {
            let shape: Vec<usize> = self.shape.bind(py).extract()?;
            let bytes =
                ArrayBytes::of(&data).ok_or_else(|| argument("packed elements must be contiguous"))?;
            return packed::array(py, bytes.bytes(), &element, &shape);
        }
        seen_as(data, &element::descriptor(py, &element)?)
    }

    /// The tensor as a torch.Tensor (dense tensors only), without a copy where PyTorch can use the memory.
    #[pyo3(signature = (*, device=None), text_signature = "($self, *, device='cpu')")]
    fn torch<'py>(&self, py: Python<'py>, device: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let data = self.data(py, "torch")?;
        let element = self.element()?;
        let torch = Torch::new(py, device)?;
        let carrier = torch.carrier(&element)?;
        let mut array = seen_as(data, &carrier)?;
        if packed::is_packed(&element) {
            let shape = Torch::carrier_shape(&element, self.shape.bind(py).extract()?)?;
            array = array.call_method1("reshape", (shape,))?;
        }
        let untyped = array.cast::<PyUntypedArray>()?;
        // PyTorch wants aligned elements, no negative strides, and memory it may write to.
        let negative = untyped.strides().iter().any(|step| *step < 0);
        let writable = array.getattr("flags")?.getattr("writeable")?.is_truthy()?;
        if !untyped.is_aligned() || negative || !writable {
            array = array.call_method1("copy", ("C",))?;
        }
        torch.tensor(&element, &array)
    }

    /// What pickle and copy make the tensor from again.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("shape", self.shape(py))?;
        named.set_item("dtype", &self.dtype)?;
        named.set_item("format", &self.format)?;
        named.set_item("type", &self.r#type)?;
        named.set_item("attributes", self.attributes(py))?;
        Ok((PyTuple::new(py, [self.components(py)])?, named))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape.bind(py).repr()?;
        let kind = self.r#type.as_ref().map_or(String::new(), |kind| format!(" type='{kind}'"));
        Ok(format!("<ztensor.Tensor shape={shape} dtype='{}'{kind} format='{}'>", self.dtype, self.format))
    }
}

/// The component that carries the values: "data", "values", "packed_weight", or the first.
fn principal(format: &str, components: &Bound<'_, PyDict>) -> PyResult<Option<String>> {
    for role in ["data", "values", "packed_weight"] {
        if components.contains(role)? {
            return Ok(Some(role.to_owned()));
        }
    }
    if format == "dense" {
        return Ok(None);
    }
    components.keys().iter().next().map(|role| role.extract()).transpose()
}

/// A dtype argument: a storage name such as "float32", or anything `np.dtype` understands.
fn storage_of(dtype: &Bound<'_, PyAny>) -> PyResult<ElementType> {
    if let Ok(name) = dtype.extract::<String>()
        && let Some(storage) = DType::parse(&name)
    {
        return Ok(storage.into());
    }
    element::of_descriptor(&PyArrayDescr::new(dtype.py(), dtype)?)
}

/// The data of a dense tensor in the tensor's shape, which must have as many elements. Elements that are packed, or larger than the array's, keep
/// the array's shape.
fn of_shape<'py>(
    data: Bound<'py, PyUntypedArray>,
    shape: &[u64],
    element: &ElementType,
) -> PyResult<Bound<'py, PyAny>> {
    let (descriptor, held) = (data.dtype(), data.len() as u64);
    let spelled_out = element::of_descriptor(&descriptor)? == *element;
    let count = Shape::from(shape.to_vec()).elements();
    let taken = if spelled_out { count } else { count.and_then(|count| element.byte_length(count)) };
    let given = if spelled_out { held } else { held * descriptor.itemsize() as u64 };
    if element.bits().is_some() && taken != Some(given) {
        return Err(PyValueError::new_err(format!(
            "the shape {shape:?} of {element} elements does not fit \"data\" of shape {:?} and type {descriptor}",
            data.shape()
        )));
    }
    let same = data.shape().iter().map(|&size| size as u64).eq(shape.iter().copied());
    if same || count != Some(held) {
        return Ok(data.into_any());
    }
    data.call_method1("reshape", (shape.to_vec(),))
}

/// The same memory read as another type of the same width.
fn seen_as<'py>(
    array: Bound<'py, PyUntypedArray>,
    descriptor: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    if array.dtype().is_equiv_to(descriptor) {
        return Ok(array.into_any());
    }
    if array.dtype().itemsize() != descriptor.itemsize() {
        let message = format!("the component holds {}, which cannot be read as {descriptor}", array.dtype());
        return Err(argument(message));
    }
    array.call_method1("view", (descriptor,))
}
