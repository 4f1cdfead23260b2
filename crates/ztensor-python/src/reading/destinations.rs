//! Reading into memory the user already has. Arrays and CPU tensors that match the stored tensor are filled directly, all at once; everything
//! else (other devices, other strides, other types where casting is asked for) goes through `np.copyto` and `torch.Tensor.copy_`, which also say
//! what does not fit.

use std::sync::Arc;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::DType;

use crate::element;
use crate::errors::{OrRaise, mismatch};
use crate::memory::array::{ArrayBytes, overlap};
use crate::reading::arrays::{How, numpy_arrays, torch_tensors};
use crate::reading::blocks;
use crate::reading::blocks::Wanted;
use crate::reading::packed;
use crate::reading::single::Single;
use crate::torch::{self, Torch};

/// What may happen to elements on the way.
#[derive(Clone, Copy, Default)]
pub(crate) struct Conversion {
    /// Elements become those of the destination; otherwise another type is an error.
    pub(crate) cast: bool,
    /// Blocks of quantised numbers become numbers.
    pub(crate) dequantize: Option<DType>,
}

/// Fills destinations with the tensors of the given names.
pub(crate) fn fill<'py>(
    py: Python<'py>,
    reader: &Arc<ztensor::Reader>,
    targets: &[(&str, Bound<'py, PyAny>)],
    conversion: Conversion,
) -> PyResult<()> {
    let mut direct: Vec<(Wanted<'_>, ArrayBytes)> = Vec::new();
    let mut indirect = Vec::new();
    for (name, destination) in targets {
        let object = reader.object(name).or_raise()?;
        let matching = match Single::of(name, object, conversion.dequantize) {
            Ok(single) => {
                check_shape(&single, destination)?;
                if !conversion.cast {
                    check_type(&single, destination)?;
                }
                matching(&single, destination)?.map(|bytes| (single.wanted(), bytes))
            }
            Err(_) => None,
        };
        match matching {
            Some(task) => direct.push(task),
            None => indirect.push((*name, destination)),
        }
    }
    if overlap(direct.iter().map(|(_, bytes)| bytes)) {
        // The same memory twice: one after the other, as the caller listed them.
        return targets
            .iter()
            .try_for_each(|(name, destination)| copy(py, reader, name, destination, conversion));
    }
    direct.sort_by_key(|(wanted, _)| wanted.component.data.first_span());
    let tasks = direct.iter_mut().filter_map(|(wanted, bytes)| Some((&*wanted, bytes.bytes_mut()?)));
    blocks::decode(py, reader, tasks.collect())?;
    indirect.into_iter().try_for_each(|(name, destination)| copy(py, reader, name, destination, conversion))
}

/// Refuses a destination of another shape, which NumPy and PyTorch would fill as often as the tensor fits.
fn check_shape(single: &Single<'_>, destination: &Bound<'_, PyAny>) -> PyResult<()> {
    // Elements of less than a byte are counted in different ways.
    if packed::is_packed(&single.element) {
        return Ok(());
    }
    let Ok(shape) = destination.getattr("shape").and_then(|shape| shape.extract::<Vec<usize>>()) else {
        return Ok(());
    };
    if shape == single.shape {
        return Ok(());
    }
    let message = format!("it has the shape {:?}, but the destination has {shape:?}", single.shape);
    Err(mismatch(single.name, message, "Give a destination of its shape."))
}

/// Refuses a destination whose elements cannot hold the stored ones exactly: rounding is for those who ask for it.
fn check_type(single: &Single<'_>, destination: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = destination.py();
    let (found, name) = if let Ok(array) = destination.cast::<PyUntypedArray>() {
        (element::of_descriptor(&array.dtype()).ok(), array.dtype().to_string())
    } else if torch::is_tensor(destination)? {
        let dtype = destination.getattr("dtype")?;
        (element::of_any(&dtype).ok(), dtype.to_string())
    } else {
        return Ok(());
    };
    if found.as_ref() == Some(&single.element) {
        return Ok(());
    }
    if let Some(found) = found
        && let (Ok(from), Ok(to)) =
            (element::descriptor(py, &single.element), element::descriptor(py, &found))
        && py.import("numpy")?.call_method1("can_cast", (from, to, "safe"))?.is_truthy()?
    {
        return Ok(());
    }
    let message = format!("it holds {}, but the destination holds {name}", single.element);
    Err(mismatch(single.name, message, "cast=True converts the elements."))
}

/// The memory of a destination that has exactly the tensor's type, shape and order.
fn matching(single: &Single<'_>, destination: &Bound<'_, PyAny>) -> PyResult<Option<ArrayBytes>> {
    if packed::is_packed(&single.element) || single.blocks.is_some() {
        return Ok(None);
    }
    if let Ok(array) = destination.cast::<PyUntypedArray>() {
        let same = array.shape() == single.shape
            && element::of_descriptor(&array.dtype()).is_ok_and(|found| found == single.element)
            && array.dtype().is_native_byteorder() != Some(false);
        return Ok(ArrayBytes::of(array).filter(|bytes| same && bytes.is_writable()));
    }
    if !torch::is_tensor(destination)? {
        return Ok(None);
    }
    let Some((array, shape, element)) = torch::own_memory(destination)? else { return Ok(None) };
    let same =
        element == single.element && shape.iter().map(|d| *d as usize).eq(single.shape.iter().copied());
    Ok(ArrayBytes::of(&array).filter(|bytes| same && bytes.is_writable()))
}

fn copy<'py>(
    py: Python<'py>,
    reader: &Arc<ztensor::Reader>,
    name: &str,
    destination: &Bound<'py, PyAny>,
    conversion: Conversion,
) -> PyResult<()> {
    // A view would show what was written into other views.
    let how = How { copy: true, dequantize: conversion.dequantize, objects: false };
    if destination.is_instance_of::<PyUntypedArray>() {
        let arrays = numpy_arrays(py, reader, &[name], how)?;
        let copyto = py.import("numpy")?.getattr("copyto")?;
        let options = PyDict::new(py);
        if conversion.cast {
            options.set_item("casting", "unsafe")?;
        }
        let mut arrays = arrays.into_iter();
        return arrays.try_for_each(|array| copyto.call((destination, array), Some(&options)).map(drop));
    }
    if !torch::is_tensor(destination)? {
        let given = destination.get_type().fully_qualified_name()?;
        let message = format!("\"{name}\" is read into a NumPy array or a torch.Tensor, not {given}");
        return Err(PyTypeError::new_err(message));
    }
    let tensors = torch_tensors(py, &Torch::new(py, None)?, reader, &[name], how)?;
    tensors.into_iter().try_for_each(|tensor| destination.call_method1("copy_", (tensor,)).map(drop))
}
