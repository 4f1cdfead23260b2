//! Element types as NumPy and PyTorch know them. bfloat16, the 8-bit floats and the packed types come to NumPy from the `ml_dtypes` package,
//! which is imported when it is first needed.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::tensor::NumpyType;
use ztensor::{DType, ElementType, Error, Known, LogicalType};

use crate::errors::{argument, to_python};

/// What was found out once per element type: a file has many tensors of few types.
pub(crate) struct PerElement<T>(Vec<(ElementType, T)>);

impl<T> PerElement<T> {
    pub(crate) fn new() -> Self {
        PerElement(Vec::new())
    }

    pub(crate) fn get(&mut self, element: &ElementType, find: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        let position = match self.0.iter().position(|(known, _)| known == element) {
            Some(position) => position,
            None => {
                self.0.push((element.clone(), find()?));
                self.0.len() - 1
            }
        };
        Ok(&self.0[position].1)
    }
}

/// The NumPy type of an element type; an error that says what to install where `ml_dtypes` is missing.
pub(crate) fn descriptor<'py>(py: Python<'py>, element: &ElementType) -> PyResult<Bound<'py, PyArrayDescr>> {
    let numpy = Known::of(element).and_then(|known| known.names.numpy);
    let NumpyType { name, from_ml_dtypes } =
        numpy.ok_or_else(|| argument(format!("NumPy has no type for \"{element}\" elements")))?;
    if !from_ml_dtypes {
        return PyArrayDescr::new(py, name);
    }
    let module = py.import("ml_dtypes").map_err(|failure| {
        if !failure.is_instance_of::<PyImportError>(py) {
            return failure;
        }
        to_python(
            &Error::unsupported(format!("{element} elements need the ml_dtypes package in NumPy")).with_hint(
                "Install it with `pip install ztensor[bfloat16]`, or read the tensor with PyTorch.",
            ),
        )
    })?;
    let class = module.getattr(name).map_err(|_| {
        to_python(
            &Error::unsupported(format!("the installed ml_dtypes has no type {name}"))
                .with_hint("Install a newer one with `pip install -U ml_dtypes`."),
        )
    })?;
    PyArrayDescr::new(py, class)
}

/// The NumPy type that carries the stored bytes whatever is installed: unsigned integers for what NumPy itself does not know.
pub(crate) fn carrier<'py>(py: Python<'py>, element: &ElementType) -> PyResult<Bound<'py, PyArrayDescr>> {
    let name = match (&element.logical, element.storage) {
        (Some(LogicalType::Complex32), _) => "uint32",
        (Some(LogicalType::Complex64), _) => "complex64",
        (Some(LogicalType::Complex128), _) => "complex128",
        (_, DType::BF16) => "uint16",
        (_, storage) => storage.long_name(),
    };
    PyArrayDescr::new(py, name)
}

/// The element type of a NumPy type; byte order is not looked at.
pub(crate) fn of_descriptor(descriptor: &Bound<'_, PyArrayDescr>) -> PyResult<ElementType> {
    let plain = match (descriptor.kind(), descriptor.itemsize()) {
        (b'f', 8) => DType::F64,
        (b'f', 4) => DType::F32,
        (b'f', 2) => DType::F16,
        (b'i', 8) => DType::I64,
        (b'i', 4) => DType::I32,
        (b'i', 2) => DType::I16,
        (b'i', 1) => DType::I8,
        (b'u', 8) => DType::U64,
        (b'u', 4) => DType::U32,
        (b'u', 2) => DType::U16,
        (b'u', 1) => DType::U8,
        (b'b', 1) => DType::Bool,
        (b'c', 8) => return Ok(ElementType::logical(LogicalType::Complex64)),
        (b'c', 16) => return Ok(ElementType::logical(LogicalType::Complex128)),
        _ => return of_extension(descriptor),
    };
    if is_builtin(descriptor) { Ok(plain.into()) } else { of_extension(descriptor) }
}

/// Whether a type is NumPy's own. Types that packages add have larger numbers, whatever kind they claim to be.
pub(crate) fn is_builtin(descriptor: &Bound<'_, PyArrayDescr>) -> bool {
    const FLOAT16: i32 = 23;
    descriptor.num() <= FLOAT16
}

fn of_extension(descriptor: &Bound<'_, PyArrayDescr>) -> PyResult<ElementType> {
    let name: String = descriptor.getattr("name")?.extract()?;
    let known =
        Known::find(|names| names.numpy.is_some_and(|numpy| numpy.from_ml_dtypes && numpy.name == name));
    known.map(Known::element).ok_or_else(|| {
        argument(format!("arrays of dtype {name} cannot be stored; numbers, bool and ml_dtypes types can"))
    })
}

/// Checks that an array can stand for elements of the type that a tensor says it has. Integers of the same width carry what NumPy has no type
/// for: bfloat16 in uint16, fp8 in bytes.
pub(crate) fn check_carries(array: &ElementType, declared: &ElementType) -> PyResult<()> {
    let integer = matches!(
        array.storage,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 | DType::U64
    );
    let unknown_to_numpy = declared.logical.is_some() || declared.storage == DType::BF16;
    // Packed elements are carried by bytes.
    let width = declared.bits().map_or(declared.storage.width() as u64, |bits| bits.div_ceil(8));
    let carries = array.logical.is_none()
        && (array.storage == declared.storage
            || (integer && unknown_to_numpy && array.storage.width() as u64 == width));
    if array == declared || carries {
        return Ok(());
    }
    Err(argument(format!("the tensor is said to hold {declared}, but its array holds {array}")))
}

/// PyTorch's name for an element type; `None` where it has none.
pub(crate) fn torch_name(element: &ElementType) -> Option<&'static str> {
    Known::of(element)?.names.torch
}

/// The element type of one of PyTorch's names, such as `bfloat16`.
pub(crate) fn of_torch_name(name: &str) -> Option<ElementType> {
    Known::find(|names| names.torch == Some(name)).map(Known::element)
}

/// Every element type, for the packages and their tests: its names, bits and the fields of floats.
#[pyfunction]
pub(crate) fn element_types(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let describe = |known: &Known| {
        let (row, names) = (PyDict::new(py), &known.names);
        row.set_item("name", known.element().name())?;
        row.set_item("bits", known.bits)?;
        row.set_item("fields", names.float.map(|fields| (fields.exponent, fields.mantissa, fields.bias)))?;
        row.set_item("numpy", names.numpy.map(|numpy| numpy.name))?;
        row.set_item("ml_dtypes", names.numpy.is_some_and(|numpy| numpy.from_ml_dtypes))?;
        row.set_item("torch", names.torch)?;
        row.set_item("safetensors", names.safetensors)?;
        row.set_item("gguf", names.gguf)?;
        row.set_item("onnx", names.onnx)?;
        row.set_item("z4ai", names.codec.map(z4ai::Dtype::name))?;
        Ok(row)
    };
    Known::all().iter().map(describe).collect()
}

/// The element type of a name such as "float16", "f16" or "torch.float16", of a `torch.dtype`, or of anything `np.dtype` understands.
pub(crate) fn of_any(value: &Bound<'_, PyAny>) -> PyResult<ElementType> {
    let text = value.str()?;
    let text = text.to_str()?;
    let name = text.strip_prefix("torch.").unwrap_or(text);
    if let Some(storage) = DType::parse(name) {
        return Ok(storage.into());
    }
    if let Some(element) = of_torch_name(name) {
        return Ok(element);
    }
    of_descriptor(&PyArrayDescr::new(value.py(), value)?)
}
