//! Tensors of any layout, read with all their components as `ztensor.Tensor`.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ztensor::{DType, ElementType};

use crate::element::{self, PerElement};
use crate::errors::{OrRaise, mismatch};
use crate::load::{Loaded, Terms, Wanted, load};
use crate::tensor::PyTensor;
use crate::work::Work;
use crate::{attributes, packed};

/// Reads tensors with all their components.
pub(crate) fn read<'py>(
    py: Python<'py>,
    file: &Arc<ztensor::Reader>,
    names: &[&str],
    copy: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut wanted = Vec::with_capacity(names.len());
    for name in names {
        py.work(|| file.check_sparse(name)).or_raise()?;
        for (role, component) in &file.object(name).or_raise()?.components {
            wanted.push(Wanted { name, role, component });
        }
    }
    let mut loaded = load(py, file, &wanted, if copy { Terms::Copy } else { Terms::View })?.into_iter();
    let mut descriptors = PerElement::new();
    let mut tensors = Vec::with_capacity(names.len());
    for name in names {
        let object = file.object(name).or_raise()?;
        let components = PyDict::new(py);
        for ((role, component), Loaded { region, strides }) in object.components.iter().zip(&mut loaded) {
            let descriptor =
                descriptors.get(&component.element, || best_descriptor(py, &component.element))?;
            let shape = object.component_shape(role).and_then(|shape| shape.to_usize());
            let shape = shape.ok_or_else(|| mismatch(name, "it is larger than the address space", ""))?;
            components.set_item(&**role, region.array(descriptor, &shape, strides)?)?;
        }
        let attributes = match &object.attributes {
            none if none.is_empty() => None,
            some => Some(attributes::to_dict(py, some)?.unbind()),
        };
        let values = object.principal().map_or(DType::U8.into(), |component| component.element.clone());
        let shape = PyList::new(py, object.shape.iter())?.unbind();
        let tensor = PyTensor::new(shape, &values, object.layout.name(), components.unbind(), attributes);
        tensors.push(Bound::new(py, tensor)?.into_any());
    }
    Ok(tensors)
}

/// The elements' own type; where it cannot be had here, the stored one: `numpy()` and `torch()` of the tensor know what it stands for.
fn best_descriptor<'py>(py: Python<'py>, element: &ElementType) -> PyResult<Bound<'py, PyArrayDescr>> {
    if !packed::is_packed(element)
        && let Ok(descriptor) = element::descriptor(py, element)
    {
        return Ok(descriptor);
    }
    element::carrier(py, element)
}
