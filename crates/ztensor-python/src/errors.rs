//! From the core's errors to Python's. The exception classes are Python (`ztensor/_errors.py`), because a missing file must be both a
//! `ZTensorError` and a `FileNotFoundError`; here the context of a core error is handed to them.

use std::path::Path;

use pyo3::exceptions::{PyException, PyIndexError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use ztensor::{Caller, Error, Kind};

/// Turns the core's results into results that raise in Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for ztensor::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| to_python(&error))
    }
}

/// The Python exception for a core error.
pub(crate) fn to_python(error: &Error) -> PyErr {
    Python::attach(|py| exception(py, error).map_or_else(|failure| failure, PyErr::from_value))
}

/// An error about an argument of the call, for checks made on this side.
pub(crate) fn argument(message: impl Into<String>) -> PyErr {
    to_python(&Error::argument(message))
}

/// A tensor that is not what the caller asked for.
pub(crate) fn mismatch(name: &str, message: impl Into<String>, hint: &str) -> PyErr {
    to_python(&Error::new(Kind::Mismatch, message).with_tensor(name).with_hint(hint))
}

/// An `IndexError` of NumPy as one that is a `ZTensorError` too; other exceptions as they are.
pub(crate) fn indexing(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyIndexError>(py) {
        return error;
    }
    let none: Option<&str> = None;
    let made = factory(py).and_then(|factory| {
        let exception = factory.call1(("index", error.value(py).str()?, none, none, none, none))?;
        exception.setattr("__cause__", error.value(py))?;
        Ok(exception)
    });
    made.map_or_else(|failure| failure, PyErr::from_value)
}

fn factory<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    static FACTORY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FACTORY.import(py, "ztensor._errors", "from_core")
}

fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let exception = factory(py)?.call1((
        error.kind().name(),
        error.told(Caller::Python).to_string(),
        error.path().map(Path::as_os_str),
        error.tensor(),
        error.offset(),
        error.hint_for(Caller::Python),
    ))?;
    if let Some(cause) = std::error::Error::source(error) {
        exception.setattr(
            "__cause__",
            PyException::new_err(ztensor::printable(&cause.to_string()).into_owned()).into_value(py),
        )?;
    }
    Ok(exception)
}

/// Text with everything escaped that would not be seen as itself, for messages that hold names from files.
#[pyfunction]
pub(crate) fn printable(text: &str) -> String {
    ztensor::printable(text).into_owned()
}
