//! Reading into memory the user already has. Arrays and CPU tensors that match the stored tensor are filled directly, all at once; everything
//! else (other devices, other types, other strides) goes through `np.copyto` and `torch.Tensor.copy_`, which also say what does not fit.

use std::sync::Arc;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::{ArrayBytes, overlap};
use crate::arrays::{How, numpy_arrays, torch_tensors};
use crate::blocks;
use crate::errors::OrRaise;
use crate::load::Wanted;
use crate::single::Single;
use crate::torch::{self, Torch};
use crate::{element, packed};

/// A view would show what was written into other views.
const FROM_THE_FILE: How = How { copy: true, dequantize: false };

/// Fills destinations with the tensors of the given names.
pub(crate) fn fill<'py>(
    py: Python<'py>,
    reader: &Arc<ztensor::Reader>,
    targets: &[(&str, Bound<'py, PyAny>)],
) -> PyResult<()> {
    let mut direct: Vec<(Wanted<'_>, ArrayBytes)> = Vec::new();
    let mut indirect = Vec::new();
    for (name, destination) in targets {
        let object = reader.object(name).or_raise()?;
        let matching = match Single::of(name, object, false) {
            Ok(single) => matching(&single, destination)?.map(|bytes| (single.wanted(), bytes)),
            Err(_) => None,
        };
        match matching {
            Some(task) => direct.push(task),
            None => indirect.push((*name, destination)),
        }
    }
    if overlap(direct.iter().map(|(_, bytes)| bytes)) {
        // The same memory twice: one after the other, as the caller listed them.
        return targets.iter().try_for_each(|(name, destination)| copy(py, reader, name, destination));
    }
    direct.sort_by_key(|(wanted, _)| wanted.component.data.first_span());
    let tasks = direct.iter_mut().filter_map(|(wanted, bytes)| Some((&*wanted, bytes.bytes_mut()?)));
    blocks::decode(py, reader, tasks.collect())?;
    indirect.into_iter().try_for_each(|(name, destination)| copy(py, reader, name, destination))
}

/// The memory of a destination that has exactly the tensor's type, shape and order.
fn matching(single: &Single<'_>, destination: &Bound<'_, PyAny>) -> PyResult<Option<ArrayBytes>> {
    if packed::is_packed(&single.element) {
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
) -> PyResult<()> {
    if destination.is_instance_of::<PyUntypedArray>() {
        let arrays = numpy_arrays(py, reader, &[name], FROM_THE_FILE)?;
        let copyto = py.import("numpy")?.getattr("copyto")?;
        return arrays.into_iter().try_for_each(|array| copyto.call1((destination, array)).map(drop));
    }
    if !torch::is_tensor(destination)? {
        let given = destination.get_type().fully_qualified_name()?;
        let message = format!("\"{name}\" is read into a NumPy array or a torch.Tensor, not {given}");
        return Err(PyTypeError::new_err(message));
    }
    let tensors = torch_tensors(py, &Torch::new(py, None)?, reader, &[name], FROM_THE_FILE)?;
    tensors.into_iter().try_for_each(|tensor| destination.call_method1("copy_", (tensor,)).map(drop))
}
