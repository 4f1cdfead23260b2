//! Sparse tensors as PyTorch's, and PyTorch's as the arrays that files hold.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::index::Object;
use ztensor::{DType, Layout};

use crate::element;
use crate::errors::{OrRaise, argument, mismatch};
use crate::reading::load::{Terms, Wanted, load};
use crate::torch::Torch;
use crate::work::Work;

/// A CSR or COO tensor of a file as a PyTorch tensor.
pub(crate) fn tensor<'py>(
    py: Python<'py>,
    torch: &Torch<'py>,
    reader: &Arc<ztensor::Reader>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let object = reader.object(name).or_raise()?;
    py.work(|| reader.check_sparse(name)).or_raise()?;
    let index = |role| part(py, torch, reader, name, object, role, true);
    let values = part(py, torch, reader, name, object, "values", false)?;
    let size = object.shape.to_vec();
    // PyTorch trusts indices unless it is told to check them, and a file is not to be trusted.
    let checked = PyDict::new(py);
    checked.set_item("check_invariants", true)?;
    let tensor = if object.layout == Layout::SparseCsr {
        let parts = (index("indptr")?, index("indices")?, values, size);
        torch.attribute("sparse_csr_tensor")?.call(parts, Some(&checked))?
    } else {
        let coordinates = index("coords")?.call_method1("reshape", (size.len(), -1))?;
        torch.attribute("sparse_coo_tensor")?.call((coordinates, values, size), Some(&checked))?
    };
    torch.place(tensor)
}

/// One component as a flat tensor. A sparse tensor of PyTorch owns its parts; they are small beside a dense one.
fn part<'py>(
    py: Python<'py>,
    torch: &Torch<'py>,
    reader: &Arc<ztensor::Reader>,
    name: &str,
    object: &Object,
    role: &str,
    index: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(component) = object.component(role) else {
        return Err(mismatch(name, format!("it has no component \"{role}\""), "The file is damaged."));
    };
    let Some(loaded) = load(py, reader, &[Wanted { name, role, component }], Terms::Copy)?.into_iter().next()
    else {
        return Err(argument("nothing was read"));
    };
    let count = component.elements().and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| mismatch(name, format!("the type of \"{role}\" is unknown"), ""))?;
    if !index {
        return torch.tensor_on_cpu(
            &component.element,
            &loaded.region.array(&torch.carrier(&component.element)?, &[count], None)?,
        );
    }
    // PyTorch counts with signed integers.
    let array = loaded.region.array(&element::descriptor(py, &component.element)?, &[count], None)?;
    torch.tensor_on_cpu(&DType::I64.into(), &array.call_method1("astype", ("int64",))?)
}

/// The parts of a PyTorch tensor that is stored sparse, by role: CSR with two dimensions, or COO without dense ones. `None` for others.
pub(crate) fn parts<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Option<SparseParts<'py>>> {
    let layout = tensor.getattr("layout")?.str()?.to_string();
    let rank: usize = tensor.call_method0("dim")?.extract()?;
    let plain = tensor.call_method0("detach")?;
    let flat = |part: Bound<'py, PyAny>| part.call_method1("reshape", (-1,));
    match layout.as_str() {
        "torch.sparse_csr" if rank == 2 && dense_dimensions(tensor)? == 0 => Ok(Some(SparseParts {
            layout: Layout::SparseCsr,
            values: plain.call_method0("values")?,
            indices: vec![
                ("indices", plain.call_method0("col_indices")?),
                ("indptr", plain.call_method0("crow_indices")?),
            ],
        })),
        "torch.sparse_coo" if rank > 0 && dense_dimensions(tensor)? == 0 => {
            // Values of the same coordinates are added up: a file holds each element once.
            let plain = plain.call_method0("coalesce")?;
            let coordinates = flat(plain.call_method0("indices")?)?;
            Ok(Some(SparseParts {
                layout: Layout::SparseCoo,
                values: plain.call_method0("values")?,
                indices: vec![("coords", coordinates)],
            }))
        }
        _ => Ok(None),
    }
}

fn dense_dimensions(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    tensor.call_method0("dense_dim")?.extract()
}

/// A sparse tensor of PyTorch, taken apart.
pub(crate) struct SparseParts<'py> {
    pub(crate) layout: Layout,
    pub(crate) values: Bound<'py, PyAny>,
    pub(crate) indices: Vec<(&'static str, Bound<'py, PyAny>)>,
}
