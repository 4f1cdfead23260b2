//! Element types as NumPy and PyTorch know them. bfloat16, the 8-bit floats and the packed types come to NumPy from the `ml_dtypes` package,
//! which is imported when it is first needed.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use ztensor::{DType, ElementType, Error, LogicalType};

use crate::errors::{argument, to_python};

/// The name of a logical type in `ml_dtypes` (or NumPy, for complex numbers); `None` for types NumPy cannot know.
fn logical_name(logical: &LogicalType) -> Option<&'static str> {
    Some(match logical {
        LogicalType::F8E4M3FN => "float8_e4m3fn",
        LogicalType::F8E5M2 => "float8_e5m2",
        LogicalType::F8E4M3FNUZ => "float8_e4m3fnuz",
        LogicalType::F8E5M2FNUZ => "float8_e5m2fnuz",
        LogicalType::F8E8M0 => "float8_e8m0fnu",
        LogicalType::F4E2M1 => "float4_e2m1fn",
        LogicalType::F6E2M3 => "float6_e2m3fn",
        LogicalType::F6E3M2 => "float6_e3m2fn",
        LogicalType::I4 => "int4",
        LogicalType::U4 => "uint4",
        LogicalType::I2 => "int2",
        LogicalType::U2 => "uint2",
        LogicalType::Complex32 => "complex32",
        LogicalType::Complex64 => "complex64",
        LogicalType::Complex128 => "complex128",
        LogicalType::Other(_) => return None,
    })
}

const LOGICAL: [LogicalType; 15] = [
    LogicalType::F8E4M3FN,
    LogicalType::F8E5M2,
    LogicalType::F8E4M3FNUZ,
    LogicalType::F8E5M2FNUZ,
    LogicalType::F8E8M0,
    LogicalType::F4E2M1,
    LogicalType::F6E2M3,
    LogicalType::F6E3M2,
    LogicalType::I4,
    LogicalType::U4,
    LogicalType::I2,
    LogicalType::U2,
    LogicalType::Complex32,
    LogicalType::Complex64,
    LogicalType::Complex128,
];

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
    let (name, extension) = match &element.logical {
        None => (element.storage.long_name(), element.storage == DType::BF16),
        Some(logical) => {
            let name = logical_name(logical)
                .ok_or_else(|| argument(format!("NumPy has no type for \"{}\" elements", logical.name())))?;
            (name, !matches!(logical, LogicalType::Complex64 | LogicalType::Complex128))
        }
    };
    if !extension {
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
    if name == "bfloat16" {
        return Ok(DType::BF16.into());
    }
    let logical = LOGICAL.iter().find(|logical| logical_name(logical) == Some(&name));
    logical.map(|logical| ElementType::logical(logical.clone())).ok_or_else(|| {
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
    match &element.logical {
        None => Some(element.storage.long_name()),
        Some(LogicalType::F4E2M1) => Some("float4_e2m1fn_x2"),
        Some(logical) if logical.geometry().is_some_and(|(bits, _)| bits >= 8) => logical_name(logical),
        Some(_) => None,
    }
}

/// The element type of one of PyTorch's names, such as `bfloat16`.
pub(crate) fn of_torch_name(name: &str) -> Option<ElementType> {
    let plain =
        DType::ALL.iter().find(|storage| storage.long_name() == name).map(|storage| (*storage).into());
    plain.or_else(|| {
        let mut logical = LOGICAL.iter().map(|logical| ElementType::logical(logical.clone()));
        logical.find(|element| torch_name(element) == Some(name))
    })
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
