//! PyTorch tensors from NumPy arrays and back, without copying. Types NumPy does not know travel as integers of the same width and are
//! viewed as what they are on the other side.

use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use ztensor::{DType, ElementType, Error, LogicalType};

use crate::element;
use crate::errors::{argument, to_python};

/// The `torch` module and what is called once per tensor.
pub(crate) struct Torch<'py> {
    module: Bound<'py, PyModule>,
    from_numpy: Bound<'py, PyAny>,
    /// `None` for the CPU, where nothing has to be moved.
    device: Option<Bound<'py, PyAny>>,
}

impl<'py> Torch<'py> {
    /// Imports PyTorch; `device` is what `torch.device` takes, or a GPU's number.
    pub(crate) fn new(py: Python<'py>, device: Option<&Bound<'py, PyAny>>) -> PyResult<Torch<'py>> {
        let module = py.import("torch").map_err(|cause| {
            let error = Error::unsupported("PyTorch is not installed")
                .with_hint("Install it with `pip install ztensor[torch]`, or use ztensor.numpy.");
            let error = to_python(&error);
            error.set_cause(py, Some(cause));
            error
        })?;
        let from_numpy = module.getattr("from_numpy")?;
        let device = match device {
            None => None,
            Some(device) => {
                let device = match device.extract::<u32>() {
                    Ok(number) => PyString::new(py, &format!("cuda:{number}")).into_any(),
                    Err(_) => device.clone(),
                };
                let device = module.getattr("device")?.call1((device,))?;
                let kind: String = device.getattr("type")?.extract()?;
                (kind != "cpu").then_some(device)
            }
        };
        Ok(Torch { module, from_numpy, device })
    }

    /// The NumPy type in which elements travel to PyTorch.
    pub(crate) fn carrier(&self, element: &ElementType) -> PyResult<Bound<'py, PyArrayDescr>> {
        let py = self.module.py();
        if element::torch_name(element).is_none() {
            return Err(argument(format!(
                "PyTorch has no type for {element} elements; read them with NumPy"
            )));
        }
        match integer_carrier(element) {
            Some(name) => PyArrayDescr::new(py, name),
            None => element::carrier(py, element),
        }
    }

    /// The shape in which elements travel: two 4-bit floats share one element of `float4_e2m1fn_x2`.
    pub(crate) fn carrier_shape(element: &ElementType, mut shape: Vec<usize>) -> PyResult<Vec<usize>> {
        if element.logical == Some(LogicalType::F4E2M1) {
            match shape.last_mut() {
                Some(last) if last.is_multiple_of(2) => *last /= 2,
                _ => return Err(argument("PyTorch holds 4-bit floats in pairs; the last dimension is odd")),
            }
        }
        Ok(shape)
    }

    /// A tensor over an array of the carrier type, on the device that was asked for.
    pub(crate) fn tensor(
        &self,
        element: &ElementType,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.place(self.tensor_on_cpu(element, array)?)
    }

    /// A tensor over an array of the carrier type.
    pub(crate) fn tensor_on_cpu(
        &self,
        element: &ElementType,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.module.py();
        let tensor = self.from_numpy.call1((array,))?;
        match element::torch_name(element) {
            Some(name) if integer_carrier(element).is_some() => {
                let dtype = self.module.getattr(name).map_err(|_| {
                    argument(format!("the installed PyTorch has no type {name}; read the tensor with NumPy"))
                })?;
                tensor.call_method1(intern!(py, "view"), (dtype,))
            }
            _ => Ok(tensor),
        }
    }

    /// Moves a tensor to the device that was asked for.
    pub(crate) fn place(&self, tensor: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match &self.device {
            Some(device) => tensor.call_method1(intern!(tensor.py(), "to"), (device,)),
            None => Ok(tensor),
        }
    }

    /// A function or class of the `torch` module.
    pub(crate) fn attribute(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.module.getattr(name)
    }
}

/// The integers that carry elements NumPy does not know; `None` for those it does. Every PyTorch takes these integers from NumPy.
fn integer_carrier(element: &ElementType) -> Option<&'static str> {
    match (&element.logical, element.storage) {
        (None, DType::BF16) => Some("int16"),
        (None, _) | (Some(LogicalType::Complex64 | LogicalType::Complex128), _) => None,
        (Some(LogicalType::Complex32), _) => Some("int32"),
        (Some(_), _) => Some("uint8"),
    }
}

/// Whether a value is a PyTorch tensor; PyTorch is not imported to find out.
pub(crate) fn is_tensor(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    // What is given most often is told by its type alone.
    if value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyByteArray>()
        || value.is_exact_instance_of::<PyMemoryView>()
    {
        return Ok(false);
    }
    let py = value.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    match modules.call_method1(intern!(py, "get"), (intern!(py, "torch"),))? {
        module if module.is_none() => Ok(false),
        module => value.is_instance(&module.getattr(intern!(py, "Tensor"))?),
    }
}

/// An error that names what was given where a tensor belongs.
pub(crate) fn needs_tensor(value: &Bound<'_, PyAny>) -> PyResult<()> {
    if is_tensor(value)? {
        return Ok(());
    }
    let given = value.get_type().fully_qualified_name()?;
    Err(PyTypeError::new_err(format!("a torch.Tensor is needed, not {given}")))
}

/// An array over a tensor's own memory, with the tensor's shape and element type; `None` where it has strides, is on another device, or is
/// part of a gradient.
pub(crate) fn own_memory<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Option<CarriedArray<'py>>> {
    let py = tensor.py();
    let device: String = tensor.getattr(intern!(py, "device"))?.getattr(intern!(py, "type"))?.extract()?;
    let strided = tensor.getattr(intern!(py, "layout"))?.str()? == "torch.strided";
    let plain = device == "cpu" && strided && !tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
    if !plain || !tensor.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
        return Ok(None);
    }
    for bit in [intern!(py, "is_conj"), intern!(py, "is_neg")] {
        if tensor.call_method0(bit)?.is_truthy()? {
            return Ok(None);
        }
    }
    // None of the steps below copies a tensor like this.
    to_array(tensor).map(Some)
}

/// An array of a carrier type, with the shape and the type of the elements it carries.
pub(crate) type CarriedArray<'py> = (Bound<'py, PyUntypedArray>, Vec<u64>, ElementType);

/// The elements of a tensor as a NumPy array of its carrier type, and what they are. Tensors on other devices, with a gradient,
/// conjugated or with strides are brought into shape first.
pub(crate) fn to_array<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<CarriedArray<'py>> {
    let py = tensor.py();
    let dtype = tensor.getattr(intern!(py, "dtype"))?.str()?.to_string();
    let name = dtype.strip_prefix("torch.").unwrap_or(&dtype);
    let element = element::of_torch_name(name)
        .ok_or_else(|| argument(format!("tensors of type {dtype} cannot be stored")))?;
    let layout = tensor.getattr(intern!(py, "layout"))?.str()?.to_string();
    if layout != "torch.strided" {
        return Err(argument(format!(
            "this is a sparse tensor ({layout}), of which matrices and COO without dense dimensions are stored; call to_dense() on it"
        )));
    }
    if tensor.getattr(intern!(py, "is_meta"))?.is_truthy()? {
        return Err(argument("this tensor is on the meta device and has no values"));
    }
    let mut plain = tensor.call_method0(intern!(py, "detach"))?.call_method0(intern!(py, "cpu"))?;
    for method in [intern!(py, "resolve_conj"), intern!(py, "resolve_neg"), intern!(py, "contiguous")] {
        plain = plain.call_method0(method)?;
    }
    let mut shape: Vec<u64> = plain.getattr(intern!(py, "shape"))?.extract()?;
    if element.logical == Some(LogicalType::F4E2M1)
        && let Some(last) = shape.last_mut()
    {
        *last *= 2;
    }
    if let Some(carrier) = integer_carrier(&element) {
        let dtype = py.import("torch")?.getattr(carrier)?;
        plain = plain.call_method1(intern!(py, "view"), (dtype,))?;
    }
    let array = plain.call_method0(intern!(py, "numpy"))?;
    Ok((array.cast_into::<PyUntypedArray>()?, shape, element))
}
