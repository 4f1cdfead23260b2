//! Tensors of a file as NumPy arrays or PyTorch tensors, in bulk: one pass over the index, one load, then one array per tensor.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use ztensor::{DType, ElementType, LogicalType};

use crate::element::{self, PerElement};
use crate::errors::{OrRaise, argument, indexing};
use crate::reading::load::{Loaded, Terms};
use crate::reading::objects;
use crate::reading::packed;
use crate::reading::quantized;
use crate::reading::single::Single;
use crate::reading::slices;
use crate::reading::sparse;
use crate::torch::Torch;
use crate::work::Work;

/// How tensors are to be read.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    /// Into memory of their own.
    pub(crate) copy: bool,
    /// Blocks of quantised numbers as numbers of this type.
    pub(crate) dequantize: Option<DType>,
    /// What is not one array (quantised blocks, sparse tensors in NumPy) as `ztensor.Tensor`; otherwise it is refused.
    pub(crate) objects: bool,
}

impl How {
    /// Whether a tensor of PyTorch's quantised integers is to be given as numbers.
    fn dequantizes(self, reader: &ztensor::Reader, name: &str) -> PyResult<bool> {
        Ok(self.dequantize.is_some() && quantized::is_torch(&reader.object(name).or_raise()?.layout))
    }
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
    let mut singles = Vec::with_capacity(names.len());
    for name in names {
        match Single::of(name, reader.object(name).or_raise()?, how.dequantize) {
            Ok(single) => singles.push(Some(single)),
            Err(_) if how.objects || how.dequantizes(reader, name)? => singles.push(None),
            Err(error) => return Err(error),
        }
    }
    let mut objects = Rest::read(py, reader, names, &singles, how)?;
    let terms = if how.copy { Terms::Copy } else { Terms::View };
    let mut loaded = Single::load(py, reader, singles.iter().flatten(), terms, false)?;
    let mut descriptors = PerElement::new();
    names
        .iter()
        .zip(&singles)
        .map(|(name, single)| {
            let Some(single) = single else {
                let object = objects.next()?;
                return if how.dequantizes(reader, name)? {
                    object.call_method0("numpy")
                } else {
                    Ok(object)
                };
            };
            if packed::is_packed(&single.element) {
                let bytes = py.working(reader.is_remote(), || reader.bytes(single.name))?;
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
    let sparse = |name: &str| {
        let layout = &reader.object(name).or_raise()?.layout;
        Ok::<_, PyErr>(sparse::is_sparse(layout))
    };
    let mut singles = Vec::with_capacity(names.len());
    for name in names {
        singles.push(match Single::of(name, reader.object(name).or_raise()?, how.dequantize) {
            Ok(single) if how.objects && !has_torch_type(&single.element, &single.shape) => None,
            Ok(single) => Some(single),
            Err(_) if how.objects || sparse(name)? || how.dequantizes(reader, name)? => None,
            Err(error) => return Err(error),
        });
    }
    let mut rest = Vec::new();
    for (name, single) in names.iter().zip(&singles) {
        if single.is_none() && !sparse(name)? {
            rest.push(*name);
        }
    }
    let mut objects = Rest(objects::read(py, reader, &rest, how.copy, how.dequantize)?.into_iter());
    let terms = if how.copy { Terms::Copy } else { Terms::AlignedView };
    // PyTorch holds packed elements as they are stored.
    let mut loaded = Single::load(py, reader, singles.iter().flatten(), terms, true)?;
    let mut carriers = PerElement::new();
    names
        .iter()
        .zip(&singles)
        .map(|(name, single)| {
            let Some(single) = single else {
                if sparse(name)? {
                    return sparse::tensor(py, torch, reader, name);
                }
                let object = objects.next()?;
                return match how.dequantizes(reader, name)? {
                    true => torch.place(object.call_method0("torch")?),
                    false => Ok(object),
                };
            };
            let carrier = carriers.get(&single.element, || torch.carrier(&single.element))?;
            let shape = Torch::carrier_shape(&single.element, single.shape.clone())?;
            let Loaded { region, strides } = loaded.next(single)?;
            torch.tensor(&single.element, &region.array(carrier, &shape, strides)?)
        })
        .collect()
}

/// A part of a tensor as a NumPy array; of PyTorch's quantised integers, which are dequantised whole, as numbers where that is asked for.
pub(crate) fn numpy_slice<'py>(
    reader: &Arc<ztensor::Reader>,
    name: &str,
    key: &Bound<'py, PyAny>,
    dequantize: Option<DType>,
) -> PyResult<Bound<'py, PyAny>> {
    let how = How { dequantize, ..How::default() };
    match how.dequantizes(reader, name)? {
        true => picked(numpy_arrays(key.py(), reader, &[name], how)?, key),
        false => slices::numpy_slice(reader, name, key, dequantize),
    }
}

/// The same as a PyTorch tensor.
pub(crate) fn torch_slice<'py>(
    torch: &Torch<'py>,
    reader: &Arc<ztensor::Reader>,
    name: &str,
    key: &Bound<'py, PyAny>,
    dequantize: Option<DType>,
) -> PyResult<Bound<'py, PyAny>> {
    let how = How { dequantize, ..How::default() };
    match how.dequantizes(reader, name)? {
        true => picked(torch_tensors(key.py(), torch, reader, &[name], how)?, key),
        false => slices::torch_slice(torch, reader, name, key, dequantize),
    }
}

fn picked<'py>(tensors: Vec<Bound<'py, PyAny>>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let tensor = tensors.into_iter().next().ok_or_else(|| argument("no tensor was read"))?;
    tensor.get_item(key).map_err(|error| indexing(key.py(), error))
}

/// Whether PyTorch has tensors of this type and shape: it holds 4-bit floats in pairs.
fn has_torch_type(element: &ElementType, shape: &[usize]) -> bool {
    let paired = element.logical == Some(LogicalType::F4E2M1);
    element::torch_name(element).is_some() && (!paired || shape.last().is_some_and(|last| last % 2 == 0))
}

/// Tensors that are not one array, to be taken one by one.
struct Rest<'py>(std::vec::IntoIter<Bound<'py, PyAny>>);

impl<'py> Rest<'py> {
    fn read(
        py: Python<'py>,
        reader: &Arc<ztensor::Reader>,
        names: &[&str],
        singles: &[Option<Single<'_>>],
        how: How,
    ) -> PyResult<Self> {
        let rest = names.iter().zip(singles).filter(|(_, single)| single.is_none()).map(|(name, _)| *name);
        let rest: Vec<&str> = rest.collect();
        Ok(Rest(objects::read(py, reader, &rest, how.copy, how.dequantize)?.into_iter()))
    }

    fn next(&mut self) -> PyResult<Bound<'py, PyAny>> {
        self.0.next().ok_or_else(|| argument("nothing was read"))
    }
}
