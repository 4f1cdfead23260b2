//! Tensors of a file as NumPy arrays or PyTorch tensors, in bulk: one pass over the index, one load, then one array per tensor.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use ztensor::Layout;

use crate::element::{self, PerElement};
use crate::errors::{OrRaise, argument};
use crate::load::{Loaded, Terms};
use crate::single::Single;
use crate::torch::Torch;
use crate::work::Work;
use crate::{packed, sparse};

/// How tensors are to be read.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    /// Into memory of their own.
    pub(crate) copy: bool,
    /// Blocks of quantised numbers as the numbers they stand for.
    pub(crate) dequantize: bool,
}

/// What a read method was asked for: one name, or several.
pub(crate) enum Names<'py> {
    One(Bound<'py, PyString>),
    Many(Vec<Bound<'py, PyString>>),
}

impl<'py> Names<'py> {
    /// A text, or anything that iterates over texts.
    pub(crate) fn from(name: &Bound<'py, PyAny>) -> PyResult<Names<'py>> {
        if let Ok(name) = name.cast::<PyString>() {
            return Ok(Names::One(name.clone()));
        }
        let names = name
            .try_iter()
            .map_err(|_| pyo3::exceptions::PyTypeError::new_err("name must be a str or a list of str"))?;
        let names = names.map(|name| Ok(name?.cast_into::<PyString>()?)).collect::<PyResult<_>>()?;
        Ok(Names::Many(names))
    }

    /// The names as text.
    pub(crate) fn texts(&self) -> PyResult<Vec<&str>> {
        match self {
            Names::One(name) => Ok(vec![name.to_str()?]),
            Names::Many(names) => names.iter().map(|name| name.to_str()).collect(),
        }
    }

    /// One result for one name, a dictionary in the order of the names otherwise.
    pub(crate) fn answer(
        self,
        py: Python<'py>,
        results: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Names::One(_) => results.into_iter().next().ok_or_else(|| argument("nothing was read")),
            Names::Many(names) => {
                let dict = PyDict::new(py);
                for (name, result) in names.into_iter().zip(results) {
                    dict.set_item(name, result)?;
                }
                Ok(dict.into_any())
            }
        }
    }
}

/// Reads tensors as NumPy arrays.
pub(crate) fn numpy_arrays<'py>(
    py: Python<'py>,
    reader: &Arc<ztensor::Reader>,
    names: &[&str],
    how: How,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let singles: Vec<Single<'_>> = names
        .iter()
        .map(|name| Single::of(name, reader.object(name).or_raise()?, how.dequantize))
        .collect::<PyResult<_>>()?;
    let terms = if how.copy { Terms::Copy } else { Terms::View };
    let mut loaded = Single::load(py, reader, singles.iter(), terms, false)?;
    let mut descriptors = PerElement::new();
    singles
        .iter()
        .map(|single| {
            if packed::is_packed(&single.element) {
                let bytes = py.work(|| reader.bytes(single.name)).or_raise()?;
                return packed::array(py, &bytes, &single.element, &single.shape);
            }
            let descriptor = descriptors.get(&single.element, || element::descriptor(py, &single.element))?;
            let Loaded { region, strides } = loaded.next(single)?;
            region.array(descriptor, &single.shape, strides)
        })
        .collect()
}

/// Reads tensors as PyTorch tensors; sparse ones become PyTorch's sparse tensors.
pub(crate) fn torch_tensors<'py>(
    py: Python<'py>,
    torch: &Torch<'py>,
    reader: &Arc<ztensor::Reader>,
    names: &[&str],
    how: How,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut singles = Vec::with_capacity(names.len());
    for name in names {
        let object = reader.object(name).or_raise()?;
        singles.push(match object.layout {
            Layout::SparseCsr | Layout::SparseCoo => None,
            _ => Some(Single::of(name, object, how.dequantize)?),
        });
    }
    let terms = if how.copy { Terms::Copy } else { Terms::AlignedView };
    // PyTorch holds packed elements as they are stored.
    let mut loaded = Single::load(py, reader, singles.iter().flatten(), terms, true)?;
    let mut carriers = PerElement::new();
    names
        .iter()
        .zip(&singles)
        .map(|(name, single)| {
            let Some(single) = single else { return sparse::tensor(py, torch, reader, name) };
            let carrier = carriers.get(&single.element, || torch.carrier(&single.element))?;
            let shape = Torch::carrier_shape(&single.element, single.shape.clone())?;
            let Loaded { region, strides } = loaded.next(single)?;
            torch.tensor(&single.element, &region.array(carrier, &shape, strides)?)
        })
        .collect()
}
