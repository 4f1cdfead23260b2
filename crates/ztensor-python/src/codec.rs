//! The codec for Python: buffers and arrays in, frames out, and back. Errors are `ValueError`s, as bad arguments and bad data are anywhere else.

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use z4ai::{Dtype, Effort, ErrorKind, Options};
use ztensor::ElementType;

use crate::array::{ArrayBytes, Region, new_bytes};
use crate::errors::OrRaise;
use crate::memory::{Block, Memory};
use crate::{element, torch};

/// Compresses a buffer, a NumPy array or a torch.Tensor into a z4ai frame.
#[pyfunction]
#[pyo3(signature = (data, *, dtype=None, shape=None, level=None, threads=0, effort=None))]
pub(crate) fn compress<'py>(
    data: &Bound<'py, PyAny>,
    dtype: Option<&str>,
    shape: Option<Vec<u64>>,
    level: Option<i32>,
    threads: usize,
    effort: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = data.py();
    let mut options = Options { level, threads, ..Options::default() };
    options.effort = effort.map(Effort::parse).transpose().map_err(raise)?.unwrap_or_default();
    if let Some(level) = level.filter(|level| !(1..=22).contains(level)) {
        return Err(PyValueError::new_err(format!("level must be from 1 to 22, not {level}")));
    }
    let bytes = match Typed::of(data)? {
        Some(typed) => {
            options.dtype = codec_dtype(&typed.element, &typed.numpy_dtype);
            options.shape = Some(typed.shape);
            options.numpy_dtype = Some(typed.numpy_dtype);
            typed.bytes
        }
        None => {
            options.dtype =
                dtype.filter(|name| *name != "raw").map(Dtype::parse).transpose().map_err(raise)?;
            options.shape = shape;
            buffer(data)?
        }
    };
    let frame = py.detach(|| z4ai::compress(bytes.bytes(), &options)).map_err(raise)?;
    Ok(PyBytes::new(py, &frame))
}

/// Restores the bytes of a z4ai frame, into `out` if it is given. `out` must have exactly the right size.
#[pyfunction]
#[pyo3(signature = (blob, *, out=None, threads=0))]
pub(crate) fn decompress<'py>(
    blob: &Bound<'py, PyAny>,
    out: Option<Bound<'py, PyAny>>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = blob.py();
    let frame = buffer(blob)?;
    let length = decoded_length(frame.bytes())?;
    let Some(out) = out else {
        let fill = |memory: &mut [u8]| z4ai::decompress_into_with(frame.bytes(), memory, threads);
        return Ok(new_bytes(py, length, fill)?.map_err(raise)?.into_any());
    };
    let mut target = destination(&out)?;
    let memory = target.bytes_mut().ok_or_else(|| PyValueError::new_err("out is read-only"))?;
    if memory.len() != length {
        let message = format!("out has {} bytes, but the frame decodes to {length}", memory.len());
        return Err(PyValueError::new_err(message));
    }
    py.detach(|| z4ai::decompress_into_with(frame.bytes(), memory, threads)).map_err(raise)?;
    Ok(out)
}

/// Restores the array of a z4ai frame, with its dtype and shape.
#[pyfunction]
#[pyo3(signature = (blob, *, threads=0))]
pub(crate) fn decompress_array<'py>(blob: &Bound<'py, PyAny>, threads: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = blob.py();
    let frame = buffer(blob)?;
    let description = z4ai::describe(frame.bytes()).map_err(raise)?;
    let descriptor = match (&description.numpy_dtype, description.dtype) {
        (Some(name), _) => named_descriptor(py, name)?,
        (None, Some(dtype)) => element::descriptor(py, &element_of(dtype)?)?,
        (None, None) => {
            return Err(PyValueError::new_err("the frame holds opaque bytes, not an array; use decompress"));
        }
    };
    let length = decoded_length(frame.bytes())?;
    let shape = match description.shape {
        Some(shape) => shape.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>()?,
        None => vec![length / descriptor.itemsize().max(1)],
    };
    let mut block = Block::new(length).or_raise()?;
    if let Some(memory) = block.bytes().get_mut(..length) {
        py.detach(|| z4ai::decompress_into_with(frame.bytes(), memory, threads)).map_err(raise)?;
    }
    let memory = Memory::of_block(py, block)?.into_bound(py);
    let region = Region::new(&memory, 0, 0, length as u64);
    let region = region.ok_or_else(|| PyMemoryError::new_err("the array is too large"))?;
    region.array(&descriptor, &shape, None)
}

/// An array or tensor, with what is kept of it in a frame.
struct Typed {
    bytes: ArrayBytes,
    shape: Vec<u64>,
    element: Option<ElementType>,
    numpy_dtype: String,
}

impl Typed {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Typed>> {
        if torch::is_tensor(value)? {
            let (array, shape, element) = torch::to_array(value)?;
            let numpy_dtype = match element::descriptor(value.py(), &element) {
                Ok(descriptor) => descriptor_name(&descriptor)?,
                Err(_) => element.name().into_owned(),
            };
            let bytes = contiguous(&array)?;
            return Ok(Some(Typed { bytes, shape, element: Some(element), numpy_dtype }));
        }
        let Ok(array) = value.cast::<PyUntypedArray>() else { return Ok(None) };
        let descriptor = array.dtype();
        if descriptor.has_object() || descriptor.has_fields() || descriptor.has_subarray() {
            let message =
                format!("arrays of dtype {descriptor} cannot be compressed; view them as numbers or bytes");
            return Err(PyValueError::new_err(message));
        }
        let swapped = descriptor.is_native_byteorder() == Some(false);
        let element = if swapped { None } else { element::of_descriptor(&descriptor).ok() };
        let shape = array.shape().iter().map(|&dimension| dimension as u64).collect();
        let numpy_dtype = descriptor_name(&descriptor)?;
        Ok(Some(Typed { bytes: contiguous(array)?, shape, element, numpy_dtype }))
    }
}

fn contiguous(array: &Bound<'_, PyUntypedArray>) -> PyResult<ArrayBytes> {
    let bytes = match ArrayBytes::of(array) {
        Some(bytes) => Some(bytes),
        None => ArrayBytes::of(array.call_method1("copy", ("C",))?.cast()?),
    };
    bytes.ok_or_else(|| PyValueError::new_err("the array is not plain memory"))
}

/// The bytes of anything with the buffer protocol.
fn buffer(value: &Bound<'_, PyAny>) -> PyResult<ArrayBytes> {
    let py = value.py();
    let numpy = py.import("numpy")?;
    let frombuffer = numpy.getattr("frombuffer")?;
    let array = match frombuffer.call1((value, "uint8")) {
        Ok(array) => array,
        Err(error)
            if error.is_instance_of::<PyBufferError>(py) || error.is_instance_of::<PyTypeError>(py) =>
        {
            let kind = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a bytes-like object or an array is needed, not {kind}"
            )));
        }
        // A memoryview with gaps has to be gathered first.
        Err(_) => frombuffer.call1((py.get_type::<PyBytes>().call1((value,))?, "uint8"))?,
    };
    contiguous(array.cast::<PyUntypedArray>()?)
}

/// The memory of an array, tensor or buffer that is to be filled: its own, never a copy of it.
fn destination(out: &Bound<'_, PyAny>) -> PyResult<ArrayBytes> {
    let py = out.py();
    let own = if let Ok(array) = out.cast::<PyUntypedArray>() {
        ArrayBytes::of(array)
    } else if torch::is_tensor(out)? {
        torch::own_memory(out)?.and_then(|(array, _, _)| ArrayBytes::of(&array))
    } else {
        let array = py.import("numpy")?.call_method1("frombuffer", (out, "uint8"))?;
        ArrayBytes::of(array.cast::<PyUntypedArray>()?)
    };
    own.ok_or_else(|| PyValueError::new_err("out must be contiguous memory on the CPU"))
}

/// A name that gives the same dtype again: NumPy's own code, or the name of a type that `ml_dtypes` adds.
fn descriptor_name(descriptor: &Bound<'_, PyArrayDescr>) -> PyResult<String> {
    let own = element::is_builtin(descriptor);
    descriptor.getattr(if own { "str" } else { "name" })?.extract()
}

fn named_descriptor<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArrayDescr>> {
    if let Some(element) = element::of_torch_name(name) {
        return element::descriptor(py, &element);
    }
    let descriptor = PyArrayDescr::new(py, name)?;
    if descriptor.has_object() {
        return Err(PyValueError::new_err("the frame names a dtype of Python objects"));
    }
    Ok(descriptor)
}

/// What the codec calls the elements; `None`, opaque bytes, for those it has no name for.
fn codec_dtype(element: Option<&ElementType>, numpy_dtype: &str) -> Option<Dtype> {
    match element {
        Some(element) => Dtype::parse(&element.name()).ok(),
        // Dates are counts.
        None if numpy_dtype.starts_with("<M8") || numpy_dtype.starts_with("<m8") => Some(Dtype::I64),
        None => None,
    }
}

fn element_of(dtype: Dtype) -> PyResult<ElementType> {
    let name = match dtype.name() {
        "bf16" => "bfloat16",
        "fp16" => "float16",
        "fp32" => "float32",
        "fp64" => "float64",
        "fp8_e4m3" => "float8_e4m3fn",
        "fp8_e5m2" => "float8_e5m2",
        other => other,
    };
    element::of_torch_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("NumPy has no type for {} elements", dtype.name())))
}

fn decoded_length(frame: &[u8]) -> PyResult<usize> {
    let length = z4ai::decoded_len(frame).map_err(raise)?;
    usize::try_from(length)
        .map_err(|_| PyMemoryError::new_err("the frame decodes to more than the address space"))
}

fn raise(error: z4ai::Error) -> PyErr {
    match error.kind() {
        ErrorKind::OutOfMemory => PyMemoryError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
