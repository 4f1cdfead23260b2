//! The codec for Python: buffers and arrays in, frames out, and back. Bad arguments and bad data are `ZTensorError`s that are `ValueError`s too.

use std::collections::BTreeMap;
use std::convert::Infallible;

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView};
use z4ai::{Dtype, Effort, ErrorKind, Options};
use ztensor::{DType, ElementType, Error, Kind, Known, LogicalType};

use crate::classes::tensor::PyTensor;
use crate::element;
use crate::errors::{OrRaise, argument, to_python};
use crate::memory::array::{ArrayBytes, Region, new_bytes, overlap};
use crate::memory::{Block, Memory, spare};
use crate::reading::booleans;
use crate::torch;
use crate::work::Work;

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
    let (bytes, options) = request(data, dtype, shape, level, threads, effort)?;
    let mut frame = spare::take_buffer();
    py.work(|| z4ai::compress_into(bytes.bytes(), &options, &mut frame)).map_err(raise)?;
    let copied: Result<_, Infallible> = new_bytes(py, frame.len(), |memory| {
        memory.copy_from_slice(&frame);
        Ok(())
    })?;
    spare::keep_buffer(frame);
    let Ok(copied) = copied;
    Ok(copied)
}

/// What to compress and how.
pub(crate) fn request(
    data: &Bound<'_, PyAny>,
    dtype: Option<&str>,
    shape: Option<Vec<u64>>,
    level: Option<i32>,
    threads: usize,
    effort: Option<&str>,
) -> PyResult<(ArrayBytes, Options)> {
    let mut options = Options { level, threads, ..Options::default() };
    options.effort = effort.map(Effort::parse).transpose().map_err(raise)?.unwrap_or_default();
    if let Some(level) = level.filter(|level| !(1..=22).contains(level)) {
        return Err(argument(format!("level must be from 1 to 22, not {level}")));
    }
    let said = dtype.filter(|name| *name != "raw").map(Dtype::parse).transpose().map_err(raise)?;
    let bytes = match Typed::of(data)? {
        Some(typed) => {
            options.dtype = if dtype.is_some() { said } else { typed.dtype };
            let elements = options.dtype.is_some_and(|dtype| dtype.width() == typed.item);
            if elements || (dtype.is_none() && shape.is_none()) {
                options.shape = Some(shape.unwrap_or_else(|| typed.shape_of(options.dtype)));
                options.numpy_dtype = typed.numpy_dtype;
            } else {
                // Other elements than those of the array: it is a buffer that holds them.
                options.shape = shape;
            }
            typed.bytes
        }
        None => {
            options.dtype = said;
            options.shape = shape;
            buffer(data)?
        }
    };
    Ok((bytes, options))
}

/// Restores the bytes of a z4ai frame, into `out` if it is given. `out` must have exactly the right size.
#[pyfunction]
#[pyo3(signature = (blob, *, out=None, threads=0, max_output=None))]
pub(crate) fn decompress<'py>(
    blob: &Bound<'py, PyAny>,
    out: Option<Bound<'py, PyAny>>,
    threads: usize,
    max_output: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = blob.py();
    let frame = buffer(blob)?;
    let length = decoded_length(frame.bytes(), max_output)?;
    deliver(py, length, out, [&frame], |memory| {
        z4ai::Frame::open(frame.bytes()).and_then(|frame| frame.threads(threads).read_all_into(memory))
    })
}

/// Fills new bytes, or `out` if it is given, which must have exactly `length` bytes and share none with what these are made from. Other Python threads run
/// meanwhile.
pub(crate) fn deliver<'py, const N: usize>(
    py: Python<'py>,
    length: usize,
    out: Option<Bound<'py, PyAny>>,
    inputs: [&ArrayBytes; N],
    fill: impl FnOnce(&mut [u8]) -> z4ai::Result<()> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(out) = out else {
        return Ok(new_bytes(py, length, fill)?.map_err(raise)?.into_any());
    };
    let mut target = destination(&out)?;
    if inputs.into_iter().any(|input| overlap([&target, input].into_iter())) {
        return Err(argument("out shares memory with what it would be decoded from"));
    }
    let memory = target.bytes_mut().ok_or_else(|| argument("out is read-only"))?;
    if memory.len() != length {
        let message = format!("out has {} bytes, but the frame decodes to {length}", memory.len());
        return Err(argument(message));
    }
    py.work(|| fill(memory)).map_err(raise)?;
    if holds_booleans(&out)? {
        booleans::normalise(&DType::Bool.into(), memory);
    }
    Ok(out)
}

/// Whether an array or a tensor is of booleans.
fn holds_booleans(out: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(array) = out.cast::<PyUntypedArray>() {
        return Ok(array.dtype().kind() == b'b');
    }
    Ok(torch::is_tensor(out)? && out.getattr(intern!(out.py(), "dtype"))?.str()? == "torch.bool")
}

/// Restores the array of a z4ai frame, with its dtype and shape.
#[pyfunction]
#[pyo3(signature = (blob, *, threads=0, max_output=None))]
pub(crate) fn decompress_array<'py>(
    blob: &Bound<'py, PyAny>,
    threads: usize,
    max_output: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = blob.py();
    let frame = buffer(blob)?;
    let description = z4ai::Frame::open(frame.bytes()).map(|frame| frame.description()).map_err(raise)?;
    let descriptor = match (&description.numpy_dtype, description.dtype) {
        (Some(name), _) => named_descriptor(py, name)?,
        (None, Some(dtype)) => element::descriptor(py, &element_of(dtype)?)?,
        (None, None) => {
            return Err(argument("the frame holds opaque bytes, not an array; use decompress"));
        }
    };
    let length = decoded_length(frame.bytes(), max_output)?;
    let shape = match description.shape {
        Some(mut shape) => {
            if description.dtype.map_or(1, Dtype::width) != descriptor.itemsize() {
                shape.pop();
            }
            shape.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>()?
        }
        None if !length.is_multiple_of(descriptor.itemsize().max(1)) => {
            let message = format!(
                "the frame holds {length} bytes, which are no whole {descriptor} elements; use decompress"
            );
            return Err(argument(message));
        }
        None => vec![length / descriptor.itemsize().max(1)],
    };
    let mut block = Block::new(length).or_raise()?;
    if let Some(memory) = block.bytes().get_mut(..length) {
        py.work(|| {
            z4ai::Frame::open(frame.bytes()).and_then(|frame| frame.threads(threads).read_all_into(memory))
        })
        .map_err(raise)?;
        if descriptor.kind() == b'b' {
            booleans::normalise(&DType::Bool.into(), memory);
        }
    }
    let memory = Memory::of_block(py, block)?.into_bound(py);
    let region = Region::new(&memory, 0, 0, length as u64);
    let region = region.ok_or_else(|| PyMemoryError::new_err("the array is too large"))?;
    region.array(&descriptor, &shape, None)
}

/// An array or tensor, with what is kept of it in a frame.
pub(crate) struct Typed {
    pub(crate) bytes: ArrayBytes,
    /// What the codec calls the elements; `None`, opaque bytes, for those it has no name for.
    dtype: Option<Dtype>,
    shape: Vec<u64>,
    /// Bytes per element.
    item: usize,
    /// What NumPy calls the elements, if it can.
    numpy_dtype: Option<String>,
}

impl Typed {
    pub(crate) fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Typed>> {
        if torch::is_tensor(value)? {
            return Typed::of_tensor(value).map(Some);
        }
        if value.is_instance_of::<PyTensor>() {
            return Typed::of(&value.call_method0(intern!(value.py(), "__array__"))?);
        }
        let Ok(array) = value.cast::<PyUntypedArray>() else { return Ok(None) };
        let descriptor = array.dtype();
        if descriptor.has_object() || descriptor.has_fields() || descriptor.has_subarray() {
            let message =
                format!("arrays of dtype {descriptor} cannot be compressed; view them as numbers or bytes");
            return Err(argument(message));
        }
        Ok(Some(Typed {
            bytes: contiguous(array)?,
            dtype: codec_dtype(&descriptor),
            shape: array.shape().iter().map(|&dimension| dimension as u64).collect(),
            item: descriptor.itemsize(),
            numpy_dtype: Some(descriptor_name(&descriptor)?),
        }))
    }

    fn of_tensor(tensor: &Bound<'_, PyAny>) -> PyResult<Typed> {
        let (array, mut shape, element) = torch::to_array(tensor)?;
        let item = array.dtype().itemsize();
        let (dtype, numpy_dtype) = match &element.logical {
            // What NumPy has no type for is to it what it consists of: two halves, or a byte with two elements.
            Some(LogicalType::Complex32) => (Some(Dtype::F16), None),
            Some(LogicalType::F4E2M1) => {
                shape = tensor.getattr(intern!(tensor.py(), "shape"))?.extract()?;
                (Some(Dtype::U8), None)
            }
            _ => {
                let name = match element::descriptor(tensor.py(), &element) {
                    Ok(descriptor) => descriptor_name(&descriptor)?,
                    Err(_) => element.name().into_owned(),
                };
                (ztensor::codec_dtype(&element), Some(name))
            }
        };
        Ok(Typed { bytes: contiguous(&array)?, dtype, shape, item, numpy_dtype })
    }

    /// The shape in elements of `dtype`: one dimension more than the array's where those are parts of the array's own.
    fn shape_of(&self, dtype: Option<Dtype>) -> Vec<u64> {
        let mut shape = self.shape.clone();
        let width = dtype.map_or(1, Dtype::width);
        if self.item != width {
            shape.push((self.item / width) as u64);
        }
        shape
    }
}

fn contiguous(array: &Bound<'_, PyUntypedArray>) -> PyResult<ArrayBytes> {
    let bytes = match ArrayBytes::of(array) {
        Some(bytes) => Some(bytes),
        None => ArrayBytes::of(array.call_method1("copy", ("C",))?.cast()?),
    };
    bytes.ok_or_else(|| argument("the array is not plain memory"))
}

/// `numpy.frombuffer`, looked up once: decoding a small tensor takes no longer than the look-up.
fn frombuffer<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    static FROMBUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FROMBUFFER.import(py, "numpy", "frombuffer")
}

/// The bytes of anything with the buffer protocol.
pub(crate) fn buffer(value: &Bound<'_, PyAny>) -> PyResult<ArrayBytes> {
    let frombuffer = frombuffer(value.py())?;
    let array = match frombuffer.call1((value, intern!(value.py(), "uint8"))) {
        Ok(array) => array,
        // A view with gaps has to be gathered first.
        Err(_) if value.is_instance_of::<PyMemoryView>() => {
            frombuffer.call1((value.call_method0("tobytes")?, "uint8"))?
        }
        Err(_) => {
            let kind = value.get_type().name()?;
            let message = format!("a bytes-like object, an array or a tensor is needed, not {kind}");
            return Err(PyTypeError::new_err(message));
        }
    };
    contiguous(array.cast::<PyUntypedArray>()?)
}

/// The memory of an array, tensor or buffer that is to be filled: its own, never a copy of it.
fn destination(out: &Bound<'_, PyAny>) -> PyResult<ArrayBytes> {
    let py = out.py();
    let own = if let Ok(array) = out.cast::<PyUntypedArray>() {
        ArrayBytes::of(array)
    } else if torch::is_tensor(out)? {
        if out.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
            return Err(argument("out requires a gradient; pass out.detach()"));
        }
        torch::own_memory(out)?.and_then(|(array, _, _)| ArrayBytes::of(&array))
    } else {
        match frombuffer(py)?.call1((out, intern!(py, "uint8"))) {
            Ok(array) => ArrayBytes::of(array.cast::<PyUntypedArray>()?),
            // A view with gaps.
            Err(error) if error.is_instance_of::<PyBufferError>(py) => None,
            Err(error) => return Err(error),
        }
    };
    own.ok_or_else(|| argument("out must be contiguous memory on the CPU"))
}

/// A name that gives the same dtype again: NumPy's own code, or the name of a type that `ml_dtypes` adds.
fn descriptor_name(descriptor: &Bound<'_, PyArrayDescr>) -> PyResult<String> {
    let own = element::is_builtin(descriptor);
    descriptor.getattr(if own { "str" } else { "name" })?.extract()
}

fn named_descriptor<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArrayDescr>> {
    if let Some(known) = Known::find(|names| names.numpy.is_some_and(|numpy| numpy.name == name)) {
        return element::descriptor(py, &known.element());
    }
    let descriptor = PyArrayDescr::new(py, name)?;
    if descriptor.has_object() {
        return Err(argument("the frame names a dtype of Python objects"));
    }
    Ok(descriptor)
}

/// The codec's name for a NumPy type. Big-endian numbers and dates are to it integers of their width.
fn codec_dtype(descriptor: &Bound<'_, PyArrayDescr>) -> Option<Dtype> {
    if descriptor.is_native_byteorder() != Some(false)
        && let Ok(element) = element::of_descriptor(descriptor)
    {
        return ztensor::codec_dtype(&element);
    }
    match (descriptor.kind(), descriptor.itemsize()) {
        (b'S' | b'U' | b'V', _) => None,
        (_, 2) => Some(Dtype::U16),
        (_, 4) => Some(Dtype::U32),
        (_, 8) => Some(Dtype::U64),
        _ => None,
    }
}

fn element_of(dtype: Dtype) -> PyResult<ElementType> {
    let known = Known::find(|names| names.codec == Some(dtype));
    known
        .map(Known::element)
        .ok_or_else(|| argument(format!("NumPy has no type for {} elements", dtype.name())))
}

/// Bytes per element of every spelling of every dtype of the codec.
#[pyfunction]
pub(crate) fn codec_widths() -> BTreeMap<&'static str, usize> {
    let spellings = |dtype: Dtype| dtype.spellings().map(move |name| (name, dtype.width()));
    Dtype::all().flat_map(spellings).collect()
}

/// How long the data of a frame is, unless that is more than the caller wants.
pub(crate) fn decoded_length(frame: &[u8], max_output: Option<u64>) -> PyResult<usize> {
    let length = z4ai::Frame::open(frame).map(|frame| frame.decoded_len()).map_err(raise)?;
    if let Some(most) = max_output.filter(|most| length > *most) {
        let message = format!("the frame decodes to {length} bytes, more than max_output={most}");
        return Err(argument(message));
    }
    usize::try_from(length)
        .map_err(|_| PyMemoryError::new_err("the frame decodes to more than the address space"))
}

/// The exception for an error of the codec, of the kind that the same defect of a file has.
pub(crate) fn raise(error: z4ai::Error) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::OutOfMemory => return PyMemoryError::new_err(error.to_string()),
        ErrorKind::NotAFrame => Kind::UnknownFormat,
        ErrorKind::Truncated => Kind::Truncated,
        ErrorKind::Corrupt | ErrorKind::UnsupportedVersion => Kind::Malformed,
        ErrorKind::ChecksumMismatch => Kind::Checksum,
        ErrorKind::WrongReference => Kind::WrongBase,
        ErrorKind::Io => Kind::Io,
        _ => Kind::InvalidArgument,
    };
    to_python(&Error::new(kind, error.to_string()))
}
