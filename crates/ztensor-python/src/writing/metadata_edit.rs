//! The metadata of a file, and changes to it that leave its tensors where they are.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::metadata::MetadataEdit;

use crate::attributes;
use crate::errors::{OrRaise, argument};
use crate::work::{Progress, Work};

/// The metadata of a file of any format.
#[pyfunction]
pub(crate) fn read_metadata(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let found = py.work(|| ztensor::metadata::read_metadata(&path)).or_raise()?;
    attributes::to_dict(py, &found)
}

/// Changes metadata of a .zt, .safetensors or .gguf file in place; its tensors are not read.
#[pyfunction]
#[pyo3(signature = (path, metadata=None, *, remove=Vec::new(), types=None, progress=None))]
pub(crate) fn write_metadata(
    py: Python<'_>,
    path: PathBuf,
    metadata: Option<&Bound<'_, PyDict>>,
    remove: Vec<String>,
    types: Option<HashMap<String, String>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let mut types = types.unwrap_or_default();
    let mut edit = MetadataEdit::new();
    let values = metadata.map(attributes::from_dict).transpose()?.unwrap_or_default();
    for (key, value) in values {
        edit = match types.remove(&key) {
            Some(kind) => edit.set_typed(key, kind, value),
            None => edit.set(key, value),
        };
    }
    if let Some(key) = types.into_keys().next() {
        return Err(argument(format!("types names \"{key}\", which is given no value")));
    }
    edit = remove.into_iter().fold(edit, MetadataEdit::remove);
    let total = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    py.interruptible(Progress::new(progress, total), |progress| {
        ztensor::metadata::write_metadata_with(&path, &edit, progress)
    })
}
