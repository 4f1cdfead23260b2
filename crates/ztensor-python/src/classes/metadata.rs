//! `TensorMetadata`: what the index knows of one tensor, without reading it.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ztensor::Layout;
use ztensor::index::{Component, Object};

use crate::attributes;
use crate::errors::OrRaise;

/// Shape, types and layout of one tensor in a file; nothing of its data has been read.
#[pyclass(frozen, module = "ztensor")]
pub(crate) struct TensorMetadata {
    reader: Arc<ztensor::Reader>,
    #[pyo3(get)]
    name: String,
}

impl TensorMetadata {
    pub(crate) fn new(reader: &Arc<ztensor::Reader>, name: &str) -> PyResult<Self> {
        reader.object(name).or_raise()?;
        Ok(TensorMetadata { reader: Arc::clone(reader), name: name.to_owned() })
    }

    fn object(&self) -> PyResult<&Object> {
        self.reader.object(&self.name).or_raise()
    }
}

#[pymethods]
impl TensorMetadata {
    /// Tensor dimensions, outermost first.
    #[getter]
    fn shape(&self) -> PyResult<Vec<u64>> {
        Ok(self.object()?.shape.to_vec())
    }

    /// Storage type of the values, such as "float32".
    #[getter]
    fn dtype(&self) -> PyResult<&str> {
        Ok(self.object()?.principal().map_or("unknown", |component| component.element.storage.long_name()))
    }

    /// Logical type, such as "f8_e4m3fn"; None when the storage type says it all.
    #[getter]
    fn r#type(&self) -> PyResult<Option<&str>> {
        let principal = self.object()?.principal();
        Ok(principal.and_then(|component| component.element.logical.as_ref()).map(|logical| logical.name()))
    }

    /// Layout, such as "dense" or "sparse_csr".
    #[getter]
    fn layout(&self) -> PyResult<&str> {
        Ok(self.object()?.layout.name())
    }

    /// Another name for layout.
    #[getter]
    fn format(&self) -> PyResult<&str> {
        self.layout()
    }

    /// The tensor's own attributes, or None.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let attributes = &self.object()?.attributes;
        if attributes.is_empty() { Ok(None) } else { attributes::to_dict(py, attributes).map(Some) }
    }

    /// The components by role: dtype, type, offset, length (bytes once decoded), stored_length (bytes in the file), encoding and digest.
    #[getter]
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (role, component) in &self.object()?.components {
            dict.set_item(&**role, describe(py, component)?)?;
        }
        Ok(dict)
    }

    /// Bytes of all components once decoded.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.object()?.decoded_length())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = self.name.as_str().into_pyobject(py)?.repr()?;
        let shape = PyList::new(py, self.object()?.shape.iter())?.repr()?;
        let kind = self.r#type()?.map_or(String::new(), |kind| format!(" type='{kind}'"));
        let layout = match &self.object()?.layout {
            Layout::Dense => String::new(),
            layout => format!(" format='{layout}'"),
        };
        Ok(format!("<TensorMetadata name={name} shape={shape} dtype='{}'{kind}{layout}>", self.dtype()?))
    }
}

fn describe<'py>(py: Python<'py>, component: &Component) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("dtype", component.element.storage.long_name())?;
    dict.set_item("type", component.element.logical.as_ref().map(|logical| logical.name()))?;
    dict.set_item("offset", component.data.first_span().map(|span| span.offset))?;
    dict.set_item("length", component.length)?;
    dict.set_item("stored_length", component.data.stored_length())?;
    dict.set_item("encoding", component.data.encoding_name())?;
    dict.set_item("digest", component.digest.as_ref().map(|digest| digest.value.to_string()))?;
    Ok(dict)
}
