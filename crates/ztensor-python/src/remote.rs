//! `storage_options=`: endpoints and keys for files by URL, as pandas, polars and fsspec take them.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict};
use ztensor::Output;
use ztensor::source::{Io, Source, is_url};

use crate::errors::OrRaise;
use crate::network::{self, StorageOptions};
use crate::work::{Progress, Work};

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
    match network::length(path) {
        Some(length) => length,
        None if is_url(path) => Source::open(path, Io::Auto).map_or(0, |source| source.len()),
        None => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
    }
}

/// The bytes of a file: by path, by URL, or of one in a checkpoint of a store.
#[pyfunction]
#[pyo3(signature = (path, *, storage_options=None))]
pub(crate) fn read_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    storage_options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let storage = options(storage_options)?;
    let read = || {
        let source = Source::open(&path, Io::Auto)?;
        Ok(source.bytes(0, source.len())?.into_owned())
    };
    let bytes = py.waiting(|| network::with_options(storage, read))?;
    Ok(PyBytes::new(py, &bytes))
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
    py.waiting(|| network::with_options(storage, || Ok(length_of(&path))))
}

/// Copies a file by path or URL to a path, where it appears whole or not at all. Returns its bytes.
#[pyfunction]
#[pyo3(signature = (path, output, *, storage_options=None))]
pub(crate) fn fetch(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    storage_options: Option<&Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let storage = options(storage_options)?;
    py.interruptible(Progress::default(), |advance| {
        network::with_options(storage, || copy(&path, &output, advance))
    })
}

fn copy(
    path: &Path,
    output: &Path,
    advance: &mut dyn FnMut(u64) -> ztensor::Result<()>,
) -> ztensor::Result<u64> {
    /// Bytes that are held at a time.
    const PIECE: u64 = 8 << 20;
    let source = Source::open(path, Io::Auto)?;
    let mut output = Output::create(output)?;
    let pieces = (0..source.len()).step_by(PIECE as usize);
    let ranges = pieces.map(|start| start..source.len().min(start + PIECE));
    source.announce(ranges.clone().collect());
    for range in ranges {
        let length = range.end - range.start;
        output.write(&source.bytes(range.start, length)?)?;
        advance(length)?;
    }
    output.publish(false)?;
    Ok(source.len())
}
