//! Changes to existing `.zt` files.

use std::path::PathBuf;

use numpy::PyUntypedArray;
use pyo3::prelude::*;

use crate::errors::{OrRaise, argument};
use crate::incoming::Incoming;
use crate::work::Work;

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

/// Replaces the data of a dense, uncompressed tensor inside a .zt file by an array of the same type and byte size.
#[pyfunction]
pub(crate) fn replace_tensor(
    py: Python<'_>,
    path: PathBuf,
    name: &str,
    data: &Bound<'_, PyUntypedArray>,
) -> PyResult<()> {
    let tensor = Incoming::array(name, data)?;
    let (element, bytes) = tensor.data().ok_or_else(|| argument("the array has no data"))?;
    py.work(|| ztensor::replace_tensor(&path, name, element, bytes)).or_raise()
}

/// Recovers the last complete state of a .zt file whose append or replacement was interrupted. Returns whether it had to.
#[pyfunction]
pub(crate) fn repair(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    py.work(|| ztensor::repair(&path)).or_raise().map(|done| done.removed > 0)
}
