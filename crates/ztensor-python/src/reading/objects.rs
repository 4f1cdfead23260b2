//! Tensors of any layout, read with all their components as `ztensor.Tensor`: at once, or when they are looked at.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::index::Object;
use ztensor::{DType, ElementType, Layout};

use crate::attributes;
use crate::classes::tensor::PyTensor;
use crate::errors::{OrRaise, argument};
use crate::reading::components::components;
use crate::reading::quantized;
use crate::reading::single::Single;

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
            let data = PyDict::new(py);
            data.set_item("data", Single::of(name, object, dequantize)?.array(py, file, copy)?)?;
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

fn element_of(object: &Object) -> ElementType {
    object.principal().map_or(DType::U8.into(), |component| component.element.clone())
}

fn attributes_of(py: Python<'_>, object: &Object) -> PyResult<Option<Py<PyDict>>> {
    match &object.attributes {
        none if none.is_empty() => Ok(None),
        some => Ok(Some(attributes::to_dict(py, some)?.unbind())),
    }
}
