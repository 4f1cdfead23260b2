//! Deltas for Python: a buffer, array or tensor against another one.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::codec::{Typed, buffer, decoded_length, deliver, raise, request};
use crate::memory::array::{ArrayBytes, new_bytes};
use crate::work::Work;

/// Compresses a buffer, an array or a tensor against a reference.
#[pyfunction]
#[pyo3(signature = (current, reference, *, dtype=None, shape=None, level=None, threads=0, effort=None))]
#[allow(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub(crate) fn compress_delta<'py>(
    current: &Bound<'py, PyAny>,
    reference: &Bound<'py, PyAny>,
    dtype: Option<&str>,
    shape: Option<Vec<u64>>,
    level: Option<i32>,
    threads: usize,
    effort: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = current.py();
    let (bytes, options) = request(current, dtype, shape, level, threads, effort)?;
    let reference = contents(reference)?;
    let frame =
        py.work(|| z4ai::compress_delta(bytes.bytes(), reference.bytes(), &options)).map_err(raise)?;
    new_bytes(py, frame.len(), |memory| {
        memory.copy_from_slice(&frame);
        Ok::<(), Infallible>(())
    })
    .map(|Ok(bytes)| bytes)
}

/// Restores the bytes of a delta with its reference, into `out` if it is given.
#[pyfunction]
#[pyo3(signature = (blob, reference, *, out=None, threads=0, max_output=None))]
pub(crate) fn decompress_delta<'py>(
    blob: &Bound<'py, PyAny>,
    reference: &Bound<'py, PyAny>,
    out: Option<Bound<'py, PyAny>>,
    threads: usize,
    max_output: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let (frame, reference) = (buffer(blob)?, contents(reference)?);
    let length = decoded_length(frame.bytes(), max_output)?;
    deliver(blob.py(), length, out, [&frame, &reference], |memory| {
        z4ai::Frame::open(frame.bytes())
            .and_then(|frame| frame.against(reference.bytes())?.threads(threads).read_all_into(memory))
    })
}

/// Whether some bytes are a z4ai frame that needs a reference.
#[pyfunction]
pub(crate) fn is_delta(blob: &Bound<'_, PyAny>) -> PyResult<bool> {
    let frame = buffer(blob)?;
    Ok(z4ai::Frame::open(frame.bytes()).is_ok_and(|frame| frame.description().reference.is_some()))
}

/// The bytes of a buffer, an array or a tensor.
fn contents(value: &Bound<'_, PyAny>) -> PyResult<ArrayBytes> {
    match Typed::of(value)? {
        Some(typed) => Ok(typed.bytes),
        None => buffer(value),
    }
}
