//! Tensors of any layout, read with all their components as `ztensor.Tensor`: at once, or when they are looked at.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::index::Object;
use ztensor::{DType, ElementType, Layout};

use crate::attributes;
use crate::classes::tensor::PyTensor;
use crate::element::{self, PerElement};
use crate::errors::{OrRaise, argument, mismatch};
use crate::reading::arrays::{How, numpy_arrays};
use crate::reading::load::{Loaded, Terms, Wanted, load};
use crate::reading::packed;
use crate::reading::quantized;
use crate::reading::single::Single;
use crate::work::Work;

/// Reads tensors with all their components. With `dequantize`, ggml blocks and PyTorch's quantised integers become dense tensors of that type.
pub(crate) fn read<'py>(
    py: Python<'py>,
    file: &Arc<ztensor::Reader>,
    names: &[&str],
    copy: bool,
    dequantize: Option<DType>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        let single = Single::of(name, file.object(name).or_raise()?, dequantize).ok();
        numbers.push(single.is_some_and(|single| single.blocks.is_some()));
    }
    let stored: Vec<&str> =
        names.iter().zip(&numbers).filter(|(_, numbers)| !**numbers).map(|(name, _)| *name).collect();
    let mut components = components(py, file, &stored, copy)?.into_iter();
    let mut tensors = Vec::with_capacity(names.len());
    for (name, numbers) in names.iter().zip(numbers) {
        let object = file.object(name).or_raise()?;
        let tensor = if numbers {
            let how = How { copy, dequantize, objects: false };
            let data = PyDict::new(py);
            data.set_item("data", numpy_arrays(py, file, &[name], how)?.into_iter().next())?;
            let element = dequantize.unwrap_or(DType::F32).into();
            PyTensor::read(object.shape.to_vec(), element, &Layout::Dense, attributes_of(py, object)?, data)
        } else {
            let components = components.next().ok_or_else(|| argument("nothing was read"))?;
            let (shape, element) = (object.shape.to_vec(), element_of(object));
            PyTensor::read(shape, element, &object.layout, attributes_of(py, object)?, components)
        };
        let tensor = Bound::new(py, tensor)?.into_any();
        tensors.push(match dequantize {
            Some(precision) if quantized::is_torch(&object.layout) => {
                tensor.call_method1("dequantize", (precision.long_name(),))?
            }
            _ => tensor,
        });
    }
    Ok(tensors)
}

/// A tensor whose components are read when they are first looked at.
pub(crate) fn lazy<'py>(
    py: Python<'py>,
    file: &Arc<ztensor::Reader>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let object = file.object(name).or_raise()?;
    let (shape, element) = (object.shape.to_vec(), element_of(object));
    let source = (Arc::clone(file), name.to_owned());
    let tensor = PyTensor::lazy(shape, element, &object.layout, attributes_of(py, object)?, source);
    Ok(Bound::new(py, tensor)?.into_any())
}

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

fn element_of(object: &Object) -> ElementType {
    object.principal().map_or(DType::U8.into(), |component| component.element.clone())
}

fn attributes_of(py: Python<'_>, object: &Object) -> PyResult<Option<Py<PyDict>>> {
    match &object.attributes {
        none if none.is_empty() => Ok(None),
        some => Ok(Some(attributes::to_dict(py, some)?.unbind())),
    }
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
