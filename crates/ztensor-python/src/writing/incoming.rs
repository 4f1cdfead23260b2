//! Tensors on their way into a file: the bytes of NumPy arrays, PyTorch tensors and `ztensor.Tensor`s, brought into little-endian, row-major
//! order where they are not, and held while they are written without the interpreter lock.

use std::borrow::Cow;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ztensor::{Attributes, ElementType, Error, Layout, Shape, TensorInput};

use crate::attributes;
use crate::classes::tensor::PyTensor;
use crate::element;
use crate::errors::{argument, to_python};
use crate::memory::array::ArrayBytes;
use crate::reading::packed;
use crate::reading::sparse::{self, SparseParts};
use crate::torch;

/// A tensor to be written.
pub(crate) struct Incoming {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    layout: Layout,
    attributes: Attributes,
    components: Vec<(String, ElementType, Bytes)>,
}

enum Bytes {
    /// An array's own memory.
    Array(ArrayBytes),
    /// Elements that were packed several to a byte.
    Packed(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Array(array) => array.bytes(),
            Bytes::Packed(bytes) => bytes,
        }
    }
}

impl Incoming {
    /// A dense tensor from a NumPy array.
    pub(crate) fn array(name: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<Incoming> {
        let (element, bytes) = bytes_of(array).map_err(|error| about(name, array.py(), error))?;
        Ok(Incoming::dense(name, shape_of(array), element, bytes))
    }

    /// A tensor from a PyTorch tensor, wherever it is; sparse ones stay so.
    pub(crate) fn torch(name: &str, tensor: &Bound<'_, PyAny>) -> PyResult<Incoming> {
        torch::needs_tensor(tensor)?;
        if let Some(parts) = sparse::parts(tensor)? {
            return Incoming::sparse(name, tensor, parts).map_err(|error| about(name, tensor.py(), error));
        }
        let (array, shape, element) =
            torch::to_array(tensor).map_err(|error| about(name, tensor.py(), error))?;
        let (_, bytes) = bytes_of(&array).map_err(|error| about(name, tensor.py(), error))?;
        Ok(Incoming::dense(name, shape.into(), element, bytes))
    }

    /// A NumPy array, or what a reader gives for one.
    pub(crate) fn numpy(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Incoming> {
        if let Ok(array) = value.cast::<PyUntypedArray>() {
            return Incoming::array(name, array);
        }
        if let Ok(tensor) = value.cast::<PyTensor>() {
            return Incoming::object(name, tensor);
        }
        let kind = value.get_type().name()?;
        let what = format!("\"{name}\" is no NumPy array but {kind}; write_torch takes PyTorch's tensors");
        Err(PyTypeError::new_err(what))
    }

    /// A NumPy array, a PyTorch tensor or a `ztensor.Tensor`.
    pub(crate) fn any(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Incoming> {
        if let Ok(array) = value.cast::<PyUntypedArray>() {
            return Incoming::array(name, array);
        }
        if torch::is_tensor(value)? {
            return Incoming::torch(name, value);
        }
        if let Ok(tensor) = value.cast::<PyTensor>() {
            return Incoming::object(name, tensor);
        }
        let kind = value.get_type().name()?;
        Err(argument(format!("\"{name}\" is no NumPy array, torch.Tensor or ztensor.Tensor but {kind}")))
    }

    fn sparse(name: &str, tensor: &Bound<'_, PyAny>, parts: SparseParts<'_>) -> PyResult<Incoming> {
        let (values, _, element) = torch::to_array(&parts.values)?;
        let mut components = vec![("values".to_owned(), element, bytes_of(&values)?.1)];
        for (role, indices) in parts.indices {
            let indices = as_indices(role, torch::to_array(&indices)?.0)?;
            let (element, bytes) = bytes_of(&indices)?;
            components.push((role.to_owned(), element, bytes));
        }
        Ok(Incoming {
            name: name.to_owned(),
            shape: tensor.getattr("shape")?.extract::<Vec<u64>>()?.into(),
            layout: parts.layout,
            attributes: parts.attributes,
            components,
        })
    }

    /// A tensor of any layout with all its components.
    pub(crate) fn object(name: &str, tensor: &Bound<'_, PyTensor>) -> PyResult<Incoming> {
        let py = tensor.py();
        let fields = tensor.get();
        let principal = fields.principal(py)?;
        let layout = fields.layout().clone();
        let sparse = sparse::is_sparse(&layout);
        let mut components = Vec::new();
        for (role, array) in fields.components(py)? {
            let role = role.cast::<PyString>()?.to_str()?.to_owned();
            let mut array = array.cast_into::<PyUntypedArray>()?;
            if sparse && matches!(role.as_str(), "indices" | "indptr" | "coords") {
                array = as_indices(&role, array).map_err(|error| about(name, py, error))?;
            }
            let (mut found, bytes) = bytes_of(&array).map_err(|error| about(name, py, error))?;
            if principal.as_ref() == Some(&role) {
                let declared = fields.element().clone();
                element::check_carries(&found, &declared).map_err(|error| about(name, py, error))?;
                found = declared;
            }
            components.push((role, found, bytes));
        }
        Ok(Incoming {
            name: name.to_owned(),
            shape: fields.dimensions().to_vec().into(),
            layout,
            attributes: fields.attributes(py).map(attributes::from_dict).transpose()?.unwrap_or_default(),
            components,
        })
    }

    fn dense(name: &str, shape: Shape, element: ElementType, bytes: Bytes) -> Incoming {
        Incoming {
            name: name.to_owned(),
            shape,
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: vec![("data".to_owned(), element, bytes)],
        }
    }

    /// What the writer takes.
    pub(crate) fn input(&self) -> TensorInput<'_> {
        let components = self
            .components
            .iter()
            .map(|(role, element, bytes)| (Cow::Borrowed(role.as_str()), element.clone(), bytes.get()));
        TensorInput {
            shape: self.shape.clone(),
            layout: self.layout.clone(),
            attributes: self.attributes.clone(),
            components: components.collect(),
        }
    }

    /// Element type and bytes of a dense tensor.
    pub(crate) fn data(&self) -> Option<(&ElementType, &[u8])> {
        match self.components.as_slice() {
            [(_, element, bytes)] if self.layout == Layout::Dense => Some((element, bytes.get())),
            _ => None,
        }
    }

    /// Bytes of all components.
    pub(crate) fn byte_length(&self) -> usize {
        self.components.iter().map(|(_, _, bytes)| bytes.get().len()).sum()
    }

    /// Refuses what a `.safetensors` file cannot say of a tensor.
    pub(crate) fn check_plain(&self) -> PyResult<()> {
        let what = match (&self.layout, self.attributes.is_empty()) {
            (Layout::Dense, true) => return Ok(()),
            (Layout::Dense, false) => "it has attributes".to_owned(),
            (layout, _) => format!("it is a {layout} tensor"),
        };
        let error = Error::argument(format!("{what}, which a .safetensors file cannot hold"))
            .with_tensor(&self.name)
            .with_hint("Name the file .zt.");
        Err(to_python(&error))
    }
}

impl AsRef<[u8]> for Incoming {
    /// The bytes of a dense tensor.
    fn as_ref(&self) -> &[u8] {
        self.data().map_or(&[], |(_, bytes)| bytes)
    }
}

fn shape_of(array: &Bound<'_, PyUntypedArray>) -> Shape {
    array.shape().iter().map(|&dimension| dimension as u64).collect::<Vec<_>>().into()
}

/// Element type and bytes of an array, after a copy where it is not contiguous, little-endian memory.
fn bytes_of(array: &Bound<'_, PyUntypedArray>) -> PyResult<(ElementType, Bytes)> {
    let descriptor = array.dtype();
    let element = element::of_descriptor(&descriptor)?;
    let mut array = array.clone();
    if descriptor.is_native_byteorder() == Some(false) {
        let native = descriptor.call_method1("newbyteorder", ("=",))?;
        array = array.call_method1("astype", (native,))?.cast_into()?;
    }
    if !array.is_c_contiguous() {
        array = array.call_method1("copy", ("C",))?.cast_into()?;
    }
    let bytes =
        ArrayBytes::of(&array).ok_or_else(|| argument("the array is not plain, contiguous memory"))?;
    match element.bits().and_then(|bits| u32::try_from(bits).ok()) {
        Some(bits) if packed::is_packed(&element) => {
            Ok((element, Bytes::Packed(packed::pack(bytes.bytes(), bits))))
        }
        _ => Ok((element, Bytes::Array(bytes))),
    }
}

/// Readers of every version expect indices as unsigned 64-bit integers.
fn as_indices<'py>(role: &str, array: Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let kind = array.dtype().kind();
    if kind == b'i' && !array.is_empty() && array.call_method0("min")?.lt(0)? {
        return Err(argument(format!("\"{role}\" has negative indices")));
    }
    match (kind, array.dtype().itemsize()) {
        (b'u', 8) => Ok(array),
        (b'i' | b'u', _) => Ok(array.call_method1("astype", ("uint64",))?.cast_into()?),
        _ => Err(argument(format!("\"{role}\" must be an array of integers"))),
    }
}

/// Names the tensor in errors about its values.
fn about(name: &str, py: Python<'_>, error: PyErr) -> PyErr {
    let Ok(message) = error.value(py).str() else { return error };
    if error.value(py).hasattr("kind").unwrap_or(false) {
        return to_python(&Error::argument(message.to_string()).with_tensor(name));
    }
    error
}
