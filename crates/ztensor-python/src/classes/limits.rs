//! `Limits`: what a file may cost.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// What a file may cost before it is refused; limits that are not given keep their defaults, and float("inf") is no limit.
///
/// header: bytes of one manifest, header or pickle, and bytes that are decoded to index an archive. index: memory that the index may take.
/// objects: tensors in a file. stream: bytes taken into memory from a pipe. decoded: bytes that the tensors of a file may take once decoded;
/// what is lent from a memory map is not decoded. ratio: how many times as long as the file its tensors may be once decoded; up to a gigabyte
/// they may always be longer.
#[pyclass(frozen, eq, module = "ztensor")]
#[derive(Clone, PartialEq)]
pub(crate) struct Limits {
    #[pyo3(get)]
    header: u64,
    #[pyo3(get)]
    index: u64,
    #[pyo3(get)]
    objects: u64,
    #[pyo3(get)]
    stream: u64,
    #[pyo3(get)]
    decoded: u64,
    #[pyo3(get)]
    ratio: u64,
}

#[pymethods]
impl Limits {
    #[new]
    #[pyo3(signature = (*, header=None, index=None, objects=None, stream=None, decoded=None, ratio=None))]
    fn new(
        header: Option<&Bound<'_, PyAny>>,
        index: Option<&Bound<'_, PyAny>>,
        objects: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        decoded: Option<&Bound<'_, PyAny>>,
        ratio: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let usual = ztensor::Limits::default();
        Ok(Limits {
            header: limit("header", header, usual.header_bytes)?,
            index: limit("index", index, usual.index_bytes)?,
            objects: limit("objects", objects, usual.objects)?,
            stream: limit("stream", stream, usual.stream_bytes)?,
            decoded: limit("decoded", decoded, usual.decoded_bytes)?,
            ratio: limit("ratio", ratio, usual.ratio)?,
        })
    }

    fn __repr__(&self) -> String {
        let shown = |value: u64| if value == u64::MAX { "inf".to_owned() } else { value.to_string() };
        format!(
            "ztensor.Limits(header={}, index={}, objects={}, stream={}, decoded={}, ratio={})",
            shown(self.header),
            shown(self.index),
            shown(self.objects),
            shown(self.stream),
            shown(self.decoded),
            shown(self.ratio)
        )
    }
}

/// The limits of a call: those that were given, or the defaults.
pub(crate) fn given(limits: Option<&Bound<'_, Limits>>) -> ztensor::Limits {
    let mut core = ztensor::Limits::default();
    if let Some(limits) = limits {
        let given = limits.get();
        core.header_bytes = given.header;
        core.index_bytes = given.index;
        core.objects = given.objects;
        core.stream_bytes = given.stream;
        core.decoded_bytes = given.decoded;
        core.ratio = given.ratio;
    }
    core
}

fn limit(name: &str, value: Option<&Bound<'_, PyAny>>, usual: u64) -> PyResult<u64> {
    let Some(value) = value else { return Ok(usual) };
    if let Ok(number) = value.extract::<u64>() {
        return Ok(number);
    }
    match value.extract::<f64>() {
        Ok(number) if number == f64::INFINITY => Ok(u64::MAX),
        Ok(number) => {
            Err(PyValueError::new_err(format!("{name} must be a whole number or inf, not {number}")))
        }
        Err(_) => Err(PyTypeError::new_err(format!("{name} must be an int or float(\"inf\")"))),
    }
}
