//! Changes to existing `.zt` files.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::errors::{OrRaise, argument};
use crate::work::Work;
use crate::writing::incoming::Incoming;

/// Writes a copy of a .zt file without some of its tensors; encodings, checksums and attributes of the others are kept.
#[pyfunction]
pub(crate) fn remove_tensors(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    names: Vec<String>,
) -> PyResult<()> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    py.work(|| ztensor::remove_tensors(&input, &output, &names)).or_raise()
}

/// Replaces the data of a dense, uncompressed tensor inside a .zt file by an array of the same type and byte size. Who has the file open keeps the old
/// data.
#[pyfunction]
pub(crate) fn replace_tensor(
    py: Python<'_>,
    path: PathBuf,
    name: &str,
    data: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let tensor = Incoming::numpy(name, data)?;
    let (element, bytes) = tensor.data().ok_or_else(|| argument("the array has no data"))?;
    py.work(|| ztensor::replace_tensor(&path, name, element, bytes)).or_raise()
}

/// Cuts off what an interrupted append or replacement left behind the last complete state of a .zt file. Returns whether there was something.
///
/// at: go back to the state that ended at this offset, in a file of an earlier version that does not say where its last complete state ends.
#[pyfunction]
#[pyo3(signature = (path, *, at=None))]
pub(crate) fn repair(py: Python<'_>, path: PathBuf, at: Option<u64>) -> PyResult<bool> {
    let repaired = py.work(|| match at {
        Some(end) => ztensor::repair_at(&path, end),
        None => ztensor::repair(&path),
    });
    repaired.or_raise().map(|done| done.removed > 0)
}
