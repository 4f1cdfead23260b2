//! The components of a tensor, each as a NumPy array.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::{ElementType, Layout};

use crate::element::{self, PerElement};
use crate::errors::{OrRaise, mismatch};
use crate::reading::blocks::Wanted;
use crate::reading::load::{Loaded, Terms, load};
use crate::reading::packed;
use crate::work::Work;

/// The component arrays of tensors, by role.
pub(crate) fn components<'py>(
    py: Python<'py>,
    file: &Arc<ztensor::Reader>,
    names: &[&str],
    copy: bool,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let mut wanted = Vec::with_capacity(names.len());
    for name in names {
        py.work(|| file.check_sparse(name)).or_raise()?;
        for (role, component) in &file.object(name).or_raise()?.components {
            wanted.push(Wanted { name, role, component });
        }
    }
    let mut loaded = load(py, file, &wanted, if copy { Terms::Copy } else { Terms::View })?.into_iter();
    let mut descriptors = PerElement::new();
    let mut results = Vec::with_capacity(names.len());
    for name in names {
        let object = file.object(name).or_raise()?;
        let components = PyDict::new(py);
        for ((role, component), Loaded { region, strides }) in object.components.iter().zip(&mut loaded) {
            let descriptor =
                descriptors.get(&component.element, || best_descriptor(py, &component.element))?;
            let shape = object.component_shape(role).and_then(|shape| shape.to_usize());
            let mut shape = shape.ok_or_else(|| mismatch(name, "it is larger than the address space", ""))?;
            if object.layout == Layout::SparseCoo {
                // Coordinates are flat, as every reader of the format has them.
                shape = vec![shape.iter().product()];
            }
            components.set_item(&**role, region.array(descriptor, &shape, strides)?)?;
        }
        results.push(components);
    }
    Ok(results)
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
