//! What an archive says of itself, as Python sees it.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::archive::{ArchiveInfo, BaseInfo, FileInfo};

/// What an archive says, as a dict.
pub(crate) fn info<'py>(py: Python<'py>, info: &ArchiveInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("format", &info.format)?;
    dict.set_item("length", info.length)?;
    dict.set_item("sha256", &info.sha256)?;
    dict.set_item("stored", info.stored)?;
    dict.set_item("files", files(py, &info.files)?)?;
    let base = |base: &BaseInfo| {
        let dict = PyDict::new(py);
        dict.set_item("name", &base.name)?;
        dict.set_item("length", base.length)?;
        dict.set_item("sha256", &base.sha256)?;
        dict.set_item("files", files(py, &base.files)?)?;
        Ok(dict)
    };
    let bases = info.bases.iter().map(base).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("base", bases.first())?;
    dict.set_item("bases", bases)?;
    Ok(dict)
}

/// The files of a model in several, as dicts.
fn files<'py>(py: Python<'py>, files: &[FileInfo]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let dict = |file: &FileInfo| {
        let dict = PyDict::new(py);
        dict.set_item("name", &file.name)?;
        dict.set_item("length", file.length)?;
        dict.set_item("sha256", &file.sha256)?;
        Ok(dict)
    };
    files.iter().map(dict).collect()
}
