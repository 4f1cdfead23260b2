//! Archives and model deltas for Python: files and bytes in, the same back, and what came of it as a dict.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use ztensor::archive::{self, ArchiveOptions, Stats};
use ztensor::delta;
use ztensor::{Effort, Error, OpenOptions};

use crate::classes::limits;
use crate::classes::limits::Limits;
use crate::classes::reader;
use crate::errors::{OrRaise, argument, to_python};
use crate::network::{StorageOptions, with_options};
use crate::remote;
use crate::work::{Progress, Work};
use crate::writing::save;

/// Archives a model file of any format.
#[pyfunction]
#[pyo3(signature = (source, target, *, effort=None, level=None, threads=0, progress=None, storage_options=None))]
#[allow(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub(crate) fn archive_file<'py>(
    py: Python<'py>,
    source: PathBuf,
    target: PathBuf,
    effort: Option<&str>,
    level: Option<i32>,
    threads: usize,
    progress: Option<Py<PyAny>>,
    storage_options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (options, storage) = (options(effort, level, threads)?, remote::options(storage_options)?);
    let progress = watched(py, progress, &source, &storage)?;
    let stats = py.interruptible(progress, |progress| {
        with_options(storage, || archive::archive(&source, &target, &options, progress))
    })?;
    report(py, &stats)
}

/// Archives a model file that is in memory.
#[pyfunction]
#[pyo3(signature = (data, *, effort=None, level=None, threads=0))]
pub(crate) fn archive_bytes<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    effort: Option<&str>,
    level: Option<i32>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let options = options(effort, level, threads)?;
    let (bytes, _) = py.work(|| archive::archive_bytes(data, &options)).or_raise()?;
    Ok(PyBytes::new(py, &bytes))
}

/// Archives tensors as the .safetensors file that they would make.
#[pyfunction]
#[pyo3(signature = (tensors, target, metadata=None, *, effort=None, level=None, threads=0, progress=None))]
#[allow(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub(crate) fn archive_tensors<'py>(
    py: Python<'py>,
    tensors: &Bound<'py, PyDict>,
    target: PathBuf,
    metadata: Option<&Bound<'py, PyDict>>,
    effort: Option<&str>,
    level: Option<i32>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options(effort, level, threads)?;
    let plain = save::safetensors_source(tensors, metadata)?;
    let progress = Progress::new(progress, plain.len());
    let stats =
        py.interruptible(progress, |progress| archive::archive_source(plain, &target, &options, progress))?;
    report(py, &stats)
}

/// Restores the original of an archive. Returns its length.
#[pyfunction]
#[pyo3(signature = (source, target, *, progress=None, limits=None, storage_options=None))]
pub(crate) fn restore_file(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    progress: Option<Py<PyAny>>,
    limits: Option<&Bound<'_, Limits>>,
    storage_options: Option<&Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let options = OpenOptions::within(&limits::given(limits));
    restore(py, &source, &target, progress, &options, remote::options(storage_options)?)
}

fn restore(
    py: Python<'_>,
    source: &Path,
    target: &Path,
    progress: Option<Py<PyAny>>,
    options: &OpenOptions,
    storage: StorageOptions,
) -> PyResult<u64> {
    let total = match Progress::is_wanted(progress.as_ref()) {
        true => py.waiting(|| with_options(storage.clone(), || options.describe_archive(source)))?.length,
        false => 0,
    };
    py.interruptible(Progress::new(progress, total), |progress| {
        with_options(storage, || options.restore(source, target, progress))
    })
}

/// Restores the original of an archive that is in memory.
#[pyfunction]
#[pyo3(signature = (data, *, limits=None))]
pub(crate) fn restore_bytes<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    limits: Option<&Bound<'py, Limits>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let options = OpenOptions::within(&limits::given(limits));
    let bytes = py.work(|| options.restore_bytes(data)).or_raise()?;
    Ok(PyBytes::new(py, &bytes))
}

/// Stores a model file as differences to a base, which is a path or a Reader, or to a list of them.
#[pyfunction]
#[pyo3(signature = (source, base, target, *, effort=None, level=None, threads=0, progress=None, storage_options=None))]
#[allow(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub(crate) fn delta_file<'py>(
    py: Python<'py>,
    source: PathBuf,
    base: &Bound<'py, PyAny>,
    target: PathBuf,
    effort: Option<&str>,
    level: Option<i32>,
    threads: usize,
    progress: Option<Py<PyAny>>,
    storage_options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (options, storage) = (options(effort, level, threads)?, remote::options(storage_options)?);
    let bases = opened(base, &storage)?;
    let progress = watched(py, progress, &source, &storage)?;
    let stats = py.interruptible(progress, |progress| {
        with_options(storage, || delta::make(&source, &bases, &target, &options, progress))
    })?;
    report(py, &stats)
}

/// Stores a model file that is in memory as differences to a base.
#[pyfunction]
#[pyo3(signature = (data, base, *, effort=None, level=None, threads=0))]
pub(crate) fn delta_bytes<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    base: &Bound<'py, PyAny>,
    effort: Option<&str>,
    level: Option<i32>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (options, bases) = (options(effort, level, threads)?, opened(base, &StorageOptions::default())?);
    let (bytes, _) = py.work(|| delta::make_bytes(data, &bases, &options)).or_raise()?;
    Ok(PyBytes::new(py, &bytes))
}

/// Restores the model file of a delta. Returns its length.
#[pyfunction]
#[pyo3(signature = (source, base, target, *, progress=None, limits=None, storage_options=None))]
pub(crate) fn apply_file(
    py: Python<'_>,
    source: PathBuf,
    base: Option<&Bound<'_, PyAny>>,
    target: PathBuf,
    progress: Option<Py<PyAny>>,
    limits: Option<&Bound<'_, Limits>>,
    storage_options: Option<&Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let options =
        OpenOptions { bases: reader::candidates(base)?, ..OpenOptions::within(&limits::given(limits)) };
    restore(py, &source, &target, progress, &options, remote::options(storage_options)?)
}

/// Restores the model file of a delta that is in memory.
#[pyfunction]
#[pyo3(signature = (data, base, *, limits=None))]
pub(crate) fn apply_bytes<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    base: Option<&Bound<'py, PyAny>>,
    limits: Option<&Bound<'py, Limits>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let options =
        OpenOptions { bases: reader::candidates(base)?, ..OpenOptions::within(&limits::given(limits)) };
    let bytes = py.work(|| options.restore_bytes(data)).or_raise()?;
    Ok(PyBytes::new(py, &bytes))
}

/// The progress of work on a file.
fn watched(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    file: &Path,
    storage: &StorageOptions,
) -> PyResult<Progress> {
    let total = match Progress::is_wanted(progress.as_ref()) {
        true => py.waiting(|| with_options(storage.clone(), || Ok(remote::length_of(file))))?,
        false => 0,
    };
    Ok(Progress::new(progress, total))
}

/// The models that a delta is made against, paths or Readers. Those that are deltas find their own bases among the others.
fn opened(base: &Bound<'_, PyAny>, storage: &StorageOptions) -> PyResult<Vec<Arc<ztensor::Reader>>> {
    let bases = reader::candidates(Some(base))?;
    if bases.is_empty() {
        return Err(argument("base names nothing"));
    }
    let open = || with_options(storage.clone(), || delta::open_bases(&bases, &OpenOptions::default()));
    base.py().waiting(open)
}

fn options(effort: Option<&str>, level: Option<i32>, threads: usize) -> PyResult<ArchiveOptions> {
    let effort = effort.map(Effort::parse).transpose();
    let effort = effort.map_err(|cause| to_python(&Error::argument(cause.to_string())))?.unwrap_or_default();
    if let Some(level) = level.filter(|level| !(1..=22).contains(level)) {
        return Err(argument(format!("level must be from 1 to 22, not {level}")));
    }
    Ok(ArchiveOptions { effort, level, threads, ..ArchiveOptions::default() })
}

fn report<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("original_bytes", stats.original)?;
    dict.set_item("compressed_bytes", stats.stored)?;
    dict.set_item("ratio", stats.original as f64 / stats.stored.max(1) as f64)?;
    dict.set_item("saved_pct", 100.0 * (1.0 - stats.stored as f64 / stats.original.max(1) as f64))?;
    dict.set_item("tensors", stats.tensors)?;
    dict.set_item("copied", stats.copied)?;
    dict.set_item("deltas", stats.deltas)?;
    dict.set_item("derived", stats.derived)?;
    dict.set_item("seconds", stats.seconds)?;
    Ok(dict)
}
