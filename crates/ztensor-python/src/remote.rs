//! `storage_options=`: endpoints and keys for files by URL, as pandas, polars and fsspec take them.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use ztensor::source::{Io, Source, is_url};
use ztensor_remote::StorageOptions;

use crate::errors::OrRaise;
use crate::work::Work;

/// The options of a call.
pub(crate) fn options(given: Option<&Bound<'_, PyDict>>) -> PyResult<StorageOptions> {
    let mut pairs = Vec::new();
    if let Some(given) = given {
        collect(given, "", &mut pairs)?;
    }
    StorageOptions::new(pairs).or_raise()
}

fn collect(given: &Bound<'_, PyDict>, prefix: &str, pairs: &mut Vec<(String, String)>) -> PyResult<()> {
    for (name, value) in given {
        let name: String =
            name.extract().map_err(|_| PyTypeError::new_err("the names of storage_options are str"))?;
        if value.is_none() {
            continue;
        }
        if let Ok(inner) = value.cast::<PyDict>() {
            // s3fs hands these on to botocore; HTTP headers are a dict of their own.
            match name.as_str() {
                "client_kwargs" if prefix.is_empty() => collect(inner, "", pairs)?,
                "headers" if prefix.is_empty() => collect(inner, "header.", pairs)?,
                other => {
                    return Err(PyTypeError::new_err(format!("storage option \"{other}\" is not a dict")));
                }
            }
            continue;
        }
        let text = match value.cast::<PyBool>() {
            Ok(switch) => switch.is_true().to_string(),
            Err(_) => match value.extract::<PathBuf>() {
                Ok(path) => path.to_string_lossy().into_owned(),
                Err(_) => value.str()?.to_string(),
            },
        };
        pairs.push((format!("{prefix}{name}"), text));
    }
    Ok(())
}

/// Bytes of a file before it is read, by path or URL; 0 where it cannot be told, which whoever opens it says.
pub(crate) fn length_of(path: &Path) -> u64 {
    match is_url(path) {
        true => Source::open(path, Io::Auto).map_or(0, |source| source.len()),
        false => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
    }
}

/// Bytes of a file by path or URL.
#[pyfunction]
#[pyo3(signature = (path, *, storage_options=None))]
pub(crate) fn file_length(
    py: Python<'_>,
    path: PathBuf,
    storage_options: Option<&Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let storage = options(storage_options)?;
    Ok(py.work(|| ztensor_remote::with_options(storage, || length_of(&path))))
}
