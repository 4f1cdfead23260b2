//! What loading a file with the library it was made for would run.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ztensor::scan::{Part, Trust};

use crate::classes::limits::{self, Limits};
use crate::network::with_options;
use crate::remote;
use crate::work::Work;

/// Scans a file of any format without running anything in it.
#[pyfunction]
#[pyo3(signature = (path, *, limits=None, storage_options=None))]
pub(crate) fn scan<'py>(
    py: Python<'py>,
    path: PathBuf,
    limits: Option<&Bound<'py, Limits>>,
    storage_options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (limits, storage) = (limits::given(limits), remote::options(storage_options)?);
    let scan = || ztensor::OpenOptions::within(&limits).scan(&path);
    let found = py.waiting(|| with_options(storage, scan))?;
    let parts = PyList::empty(py);
    for found in &found.parts {
        parts.append(part(py, found)?)?;
    }
    let report = PyDict::new(py);
    report.set_item("verdict", found.verdict().name())?;
    report.set_item("parts", parts)?;
    Ok(report)
}

fn part<'py>(py: Python<'py>, found: &Part) -> PyResult<Bound<'py, PyDict>> {
    let (globals, calls) = (PyDict::new(py), PyDict::new(py));
    for global in &found.globals {
        globals.set_item(format!("{}.{}", global.module, global.name), word(global.trust))?;
    }
    for call in &found.calls {
        calls.set_item(&call.text, word(call.trust))?;
    }
    let part = PyDict::new(py);
    part.set_item("name", &found.name)?;
    part.set_item("kind", found.kind)?;
    part.set_item("verdict", found.verdict().name())?;
    part.set_item("globals", globals)?;
    part.set_item("calls", calls)?;
    part.set_item("error", found.error.as_deref())?;
    Ok(part)
}

fn word(trust: Trust) -> &'static str {
    match trust {
        Trust::Harmless => "harmless",
        Trust::Unknown => "unknown",
        Trust::Dangerous => "dangerous",
    }
}
