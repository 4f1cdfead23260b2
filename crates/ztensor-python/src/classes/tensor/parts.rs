//! What a `Tensor` is made of, for the rest of the module: components that are read when they are first needed, and arrays of the shape and type
//! that the tensor says.

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use ztensor::formats::gguf::BlockType;
use ztensor::{DType, ElementType, Error, Kind, Layout, Shape};

use super::{PyTensor, Source};
use crate::attributes;
use crate::element;
use crate::errors::{argument, to_python};
use crate::reading::{components, quantized, sparse};
use crate::torch::Torch;
impl PyTensor {
    /// A tensor that was read.
    pub(crate) fn read(
        shape: Vec<u64>,
        element: ElementType,
        layout: &Layout,
        attributes: Option<Py<PyDict>>,
        components: Bound<'_, PyDict>,
    ) -> Self {
        let py = components.py();
        let cell = PyOnceLock::new();
        // A cell that was just made is empty.
        let _ = cell.set(py, components.unbind());
        let layout = layout.clone();
        let exported = PyOnceLock::new();
        PyTensor { shape, element, layout, attributes, components: cell, source: None, exported }
    }

    /// A tensor to be read.
    pub(crate) fn lazy(
        shape: Vec<u64>,
        element: ElementType,
        layout: &Layout,
        attributes: Option<Py<PyDict>>,
        source: Source,
    ) -> Self {
        PyTensor {
            shape,
            element,
            layout: layout.clone(),
            attributes,
            components: PyOnceLock::new(),
            source: Some(source),
            exported: PyOnceLock::new(),
        }
    }

    pub(crate) fn dimensions(&self) -> &[u64] {
        &self.shape
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The component arrays, read if they have not been.
    pub(crate) fn components<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyDict>> {
        let read = || {
            let Some((reader, name)) = &self.source else { return Ok(PyDict::new(py).unbind()) };
            let components = components::components(py, reader, &[name], false)?.into_iter().next();
            components.map(Bound::unbind).ok_or_else(|| argument("nothing was read"))
        };
        self.components.get_or_try_init(py, read).map(|components| components.bind(py))
    }

    pub(crate) fn attributes<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyDict>> {
        self.attributes.as_ref().map(|attributes| attributes.bind(py))
    }

    /// The element type of the component that carries the values.
    pub(crate) fn element(&self) -> &ElementType {
        &self.element
    }

    /// The role of the component that carries the values.
    pub(crate) fn principal(&self, py: Python<'_>) -> PyResult<Option<String>> {
        principal(&self.layout, self.components(py)?)
    }

    /// An error that says why this is not one array, and what to do about it.
    pub(super) fn not_an_array(&self) -> PyErr {
        let way = match &self.layout {
            layout if sparse::is_sparse(layout) => {
                "torch() gives PyTorch's own, to_dense() gives all its elements, components its indices and values."
            }
            layout if BlockType::of(layout).is_some() || quantized::is_torch(layout) => {
                "dequantize() gives the numbers it stands for, components its blocks."
            }
            _ => "components gives the arrays it consists of.",
        };
        let what = format!("this is a {} tensor, which is not one array", self.layout);
        to_python(&Error::new(Kind::Mismatch, what).with_hint(way))
    }

    pub(super) fn needs_dense(&self) -> PyResult<()> {
        if self.layout == Layout::Dense { Ok(()) } else { Err(self.not_an_array()) }
    }

    pub(super) fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        self.needs_dense()?;
        match self.components(py)?.get_item("data")? {
            Some(data) => Ok(data.cast_into::<PyUntypedArray>()?),
            None => Err(argument("this dense tensor has no component \"data\"")),
        }
    }

    /// A sparse tensor as PyTorch's.
    pub(super) fn sparse_torch<'py>(
        &self,
        py: Python<'py>,
        device: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let torch = Torch::new(py, device)?;
        if let (Some((reader, name)), None) = (&self.source, self.components.get(py)) {
            return sparse::tensor(py, &torch, reader, name);
        }
        let components = self.components(py)?;
        let array = |role: &str| -> PyResult<(Bound<'py, PyAny>, ElementType)> {
            let array = components.get_item(role)?;
            let array = array.ok_or_else(|| argument(format!("this tensor has no component \"{role}\"")))?;
            let array = array.call_method1("reshape", (-1,))?.cast_into::<PyUntypedArray>()?;
            match role {
                "values" => {
                    let seen = seen_as(array, &torch.carrier(&self.element)?)?;
                    // PyTorch wants memory of its own that it may write to.
                    Ok((seen.call_method1("copy", ("C",))?, self.element.clone()))
                }
                _ => Ok((array.into_any(), DType::U64.into())),
            }
        };
        let attributes = self.attributes(py).map(attributes::from_dict).transpose()?.unwrap_or_default();
        torch.place(sparse::assemble(&torch, &self.layout, &self.shape, &attributes, array)?)
    }

    pub(super) fn usize_shape(&self) -> PyResult<Vec<usize>> {
        let shape = Shape::from(self.shape.clone()).to_usize();
        shape.ok_or_else(|| argument("the shape is larger than the address space"))
    }
}

/// The component that carries the values: "data", "values", "packed_weight", or the first.
pub(super) fn principal(layout: &Layout, components: &Bound<'_, PyDict>) -> PyResult<Option<String>> {
    for role in ["data", "values", "packed_weight"] {
        if components.contains(role)? {
            return Ok(Some(role.to_owned()));
        }
    }
    if *layout == Layout::Dense {
        return Ok(None);
    }
    components.keys().iter().next().map(|role| role.extract()).transpose()
}

/// A dtype argument: a storage name such as "float32", or anything `np.dtype` understands.
pub(super) fn storage_of(dtype: &Bound<'_, PyAny>) -> PyResult<ElementType> {
    if let Ok(name) = dtype.extract::<String>()
        && let Some(storage) = DType::parse(&name)
    {
        return Ok(storage.into());
    }
    element::of_descriptor(&PyArrayDescr::new(dtype.py(), dtype)?)
}

/// The data of a dense tensor in the tensor's shape, which must have as many elements. Elements that are packed, or larger than the array's, keep
/// the array's shape.
pub(super) fn of_shape<'py>(
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
pub(super) fn seen_as<'py>(
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
