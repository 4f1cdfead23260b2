//! Checkpoints of several writers, such as the ranks of a training job: `ztensor.dcp` is made of these.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use ztensor::index::Data;
use ztensor::{OpenOptions, Source};
use ztensor_store::{AddOptions, Store};

use super::reports;
use crate::errors::OrRaise;
use crate::work::{Progress, Work};
use crate::writing::save;

/// Stores tensors as one file.
pub(super) fn add<'py>(
    store: &Store,
    stem: &str,
    tensors: &Bound<'py, PyDict>,
    name: &str,
    options: &AddOptions,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = tensors.py();
    let (extension, source) = save::source(tensors)?;
    let (file, source) = (format!("{stem}.{extension}"), Arc::new(source));
    let reader = py.work(|| OpenOptions::default().open_shared(Arc::clone(&source))).or_raise()?;
    let places = PyDict::new(py);
    for (tensor, object) in reader.objects() {
        if let Some((_, component)) = object.components.first()
            && let Data::Raw(span) = component.data
        {
            places.set_item(tensor, (span.offset, span.length, component.element.name()))?;
        }
    }
    let part = py.interruptible(Progress::default(), |advance| {
        store.add_part(vec![(file.clone(), source)], name, options, advance)
    })?;
    let report = reports::added(py, name, &part.stats)?;
    PyTuple::new(
        py,
        [
            PyBytes::new(py, &part.record).into_any(),
            file.into_pyobject(py)?.into_any(),
            places.into_any(),
            report.into_any(),
        ],
    )
}

/// Makes parts and files a checkpoint, with the metadata of the options.
pub(super) fn commit<'py>(
    py: Python<'py>,
    store: &Store,
    name: &str,
    parts: Vec<PyBackedBytes>,
    files: Vec<(String, PyBackedBytes)>,
    options: &AddOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let files = files.into_iter().map(|(path, bytes)| (path, Arc::new(Source::from_bytes(bytes)))).collect();
    let stats = py.interruptible(Progress::default(), |advance| {
        let mut records: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        records.push(store.add_part(files, name, options, advance)?.record);
        store.commit_parts(name, &records, options.metadata.clone())
    })?;
    reports::added(py, name, &stats)
}
