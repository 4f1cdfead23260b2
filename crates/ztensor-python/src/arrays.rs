//! Tensors of a file as NumPy arrays or PyTorch tensors, in bulk: one pass over the index, one load, then one array per tensor.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use ztensor::index::{Component, Object};
use ztensor::{ElementType, Layout};

use crate::element::{self, PerElement};
use crate::errors::{OrRaise, argument, mismatch};
use crate::load::{Loaded, Terms, Wanted, load};
use crate::packed;
use crate::torch::Torch;

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

/// An object that is one array: dense, or blocks of bytes such as ggml's.
pub(crate) struct Single<'a> {
    pub(crate) name: &'a str,
    pub(crate) component: &'a Component,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<usize>,
}

impl<'a> Single<'a> {
    pub(crate) fn of(name: &'a str, object: &'a Object) -> PyResult<Single<'a>> {
        let refuse = |what: String| {
            mismatch(name, format!("{what}, which is not one array"), "Use Reader.read for its components.")
        };
        let component = match (&object.layout, object.components.as_slice()) {
            (Layout::Dense | Layout::Other(_), [(role, component)]) if role == "data" => component,
            (layout, _) => return Err(refuse(format!("this is a {layout} tensor"))),
        };
        let too_large = || refuse(format!("the shape {} is larger than the address space", object.shape));
        let shape = object.shape.to_usize().ok_or_else(too_large)?;
        if object.layout == Layout::Dense {
            if component.element.bits().is_none() {
                return Err(refuse(format!(
                    "its elements are of the unknown type \"{}\"",
                    component.element
                )));
            }
            return Ok(Single { name, component, element: component.element.clone(), shape });
        }
        let element = ElementType::plain(component.element.storage);
        let shape = block_shape(&shape, component.length / element.storage.width() as u64);
        Ok(Single { name, component, element, shape })
    }

    pub(crate) fn wanted(&self) -> Wanted<'a> {
        Wanted { name: self.name, role: "data", component: self.component }
    }
}

/// Blocks keep the rows of the tensor they encode; where rows are not whole, they are one run.
fn block_shape(shape: &[usize], units: u64) -> Vec<usize> {
    let units = usize::try_from(units).unwrap_or(usize::MAX);
    let mut shape = shape.to_vec();
    let last = shape.pop();
    let rows = shape.iter().try_fold(1usize, |rows, &dimension| rows.checked_mul(dimension));
    match (last, rows) {
        (Some(_), Some(rows)) if rows > 0 && units.is_multiple_of(rows) => {
            shape.push(units / rows);
            shape
        }
        _ => vec![units],
    }
}

/// Reads tensors as NumPy arrays.
pub(crate) fn numpy_arrays<'py>(
    py: Python<'py>,
    reader: &Arc<ztensor::Reader>,
    names: &[&str],
    copy: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let singles: Vec<Single<'_>> = names
        .iter()
        .map(|name| Single::of(name, reader.object(name).or_raise()?))
        .collect::<PyResult<_>>()?;
    let wanted: Vec<Wanted<'_>> =
        singles.iter().filter(|single| !packed::is_packed(&single.element)).map(Single::wanted).collect();
    let mut loaded = load(py, reader, &wanted, if copy { Terms::Copy } else { Terms::View })?.into_iter();
    let mut descriptors = PerElement::new();
    singles
        .iter()
        .map(|single| {
            if packed::is_packed(&single.element) {
                let bytes = py.detach(|| reader.bytes(single.name)).or_raise()?;
                return packed::array(py, &bytes, &single.element, &single.shape);
            }
            let descriptor = descriptors.get(&single.element, || element::descriptor(py, &single.element))?;
            let Loaded { region, strides } = loaded.next().ok_or_else(|| argument("nothing was read"))?;
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
    copy: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let terms = if copy { Terms::Copy } else { Terms::AlignedView };
    let mut singles = Vec::with_capacity(names.len());
    for name in names {
        let object = reader.object(name).or_raise()?;
        singles.push(match object.layout {
            Layout::SparseCsr | Layout::SparseCoo => None,
            _ => Some(Single::of(name, object)?),
        });
    }
    let wanted: Vec<Wanted<'_>> = singles.iter().flatten().map(Single::wanted).collect();
    let mut loaded = load(py, reader, &wanted, terms)?.into_iter();
    let mut carriers = PerElement::new();
    names
        .iter()
        .zip(&singles)
        .map(|(name, single)| {
            let Some(single) = single else { return sparse_tensor(py, torch, reader, name) };
            let carrier = carriers.get(&single.element, || torch.carrier(&single.element))?;
            let shape = Torch::carrier_shape(&single.element, single.shape.clone())?;
            let Loaded { region, strides } = loaded.next().ok_or_else(|| argument("nothing was read"))?;
            torch.tensor(&single.element, &region.array(carrier, &shape, strides)?)
        })
        .collect()
}

fn sparse_tensor<'py>(
    py: Python<'py>,
    torch: &Torch<'py>,
    reader: &Arc<ztensor::Reader>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let object = reader.object(name).or_raise()?;
    let part = |role: &str, index: bool| {
        let Some(component) = object.component(role) else {
            return Err(mismatch(name, format!("it has no component \"{role}\""), "The file is damaged."));
        };
        // A sparse tensor of PyTorch owns its parts; they are small beside a dense tensor.
        let wanted = Wanted { name, role, component };
        let Some(loaded) = load(py, reader, &[wanted], Terms::Copy)?.into_iter().next() else {
            return Err(argument("nothing was read"));
        };
        let element = &component.element;
        let width = element.bits().map_or(1, |bits| bits.div_ceil(8)) as usize;
        let array = loaded.region.array(
            &if index { element::descriptor(py, element)? } else { torch.carrier(element)? },
            &[usize::try_from(component.length).unwrap_or(usize::MAX) / width],
            None,
        )?;
        if index {
            // PyTorch counts with signed integers.
            return torch.tensor(&ztensor::DType::I64.into(), &array.call_method1("astype", ("int64",))?);
        }
        torch.tensor(element, &array)
    };
    let size = object.shape.to_vec();
    // PyTorch trusts indices unless it is told to check them, and a file is not to be trusted.
    let checked = PyDict::new(py);
    checked.set_item("check_invariants", true)?;
    if object.layout == Layout::SparseCsr {
        let parts = (part("indptr", true)?, part("indices", true)?, part("values", false)?, size);
        return torch.attribute("sparse_csr_tensor")?.call(parts, Some(&checked));
    }
    let coordinates = part("coords", true)?.call_method1("reshape", (size.len(), -1))?;
    torch.attribute("sparse_coo_tensor")?.call((coordinates, part("values", false)?, size), Some(&checked))
}
