//! Sparse tensors as PyTorch's, and PyTorch's as the arrays that files hold.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::{Attributes, Compressed, DType, ElementType, Layout, Value};

use crate::element;
use crate::errors::{OrRaise, argument, mismatch};
use crate::reading::blocks::Wanted;
use crate::reading::load::{Terms, load};
use crate::torch::Torch;
use crate::work::Work;

/// Whether a layout is one of PyTorch's sparse ones.
pub(crate) fn is_sparse(layout: &Layout) -> bool {
    *layout == Layout::SparseCoo || Compressed::of(layout).is_some()
}

/// A sparse tensor of a file as a PyTorch tensor.
pub(crate) fn tensor<'py>(
    py: Python<'py>,
    torch: &Torch<'py>,
    reader: &Arc<ztensor::Reader>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let object = reader.object(name).or_raise()?;
    py.work(|| reader.check_sparse(name)).or_raise()?;
    let array = |role: &str| -> PyResult<(Bound<'py, PyAny>, ElementType)> {
        let Some(component) = object.component(role) else {
            return Err(mismatch(name, format!("it has no component \"{role}\""), "The file is damaged."));
        };
        let loaded = load(py, reader, &[Wanted { name, role, component }], Terms::Copy)?.into_iter().next();
        let loaded = loaded.ok_or_else(|| argument("nothing was read"))?;
        let count = component.elements().and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or_else(|| mismatch(name, format!("the type of \"{role}\" is unknown"), ""))?;
        let descriptor = match role {
            "values" => torch.carrier(&component.element)?,
            _ => element::descriptor(py, &component.element)?,
        };
        Ok((loaded.region.array(&descriptor, &[count], None)?, component.element.clone()))
    };
    let tensor = assemble(torch, &object.layout, &object.shape, &object.attributes, array)?;
    torch.place(tensor)
}

/// Puts a sparse tensor together from flat arrays of its parts. Its `values` come in PyTorch's carrier type, with the type that they stand for.
pub(crate) fn assemble<'py>(
    torch: &Torch<'py>,
    layout: &Layout,
    shape: &[u64],
    attributes: &Attributes,
    array: impl Fn(&str) -> PyResult<(Bound<'py, PyAny>, ElementType)>,
) -> PyResult<Bound<'py, PyAny>> {
    let index = |role: &str| {
        // PyTorch counts with signed integers.
        let signed = array(role)?.0.call_method1("astype", ("int64",))?;
        torch.tensor_on_cpu(&DType::I64.into(), &signed)
    };
    let (values, element) = array("values")?;
    let mut values = torch.tensor_on_cpu(&element, &values)?;
    let size = shape.to_vec();
    // PyTorch trusts indices unless it is told to check them, and a file is not to be trusted.
    let checked = PyDict::new(values.py());
    checked.set_item("check_invariants", true)?;
    let Some(compressed) = Compressed::of(layout) else {
        let coordinates = index("coords")?.call_method1("reshape", (size.len(), -1))?;
        return torch.attribute("sparse_coo_tensor")?.call((coordinates, values, size), Some(&checked));
    };
    if compressed.in_blocks {
        let block = compressed.block(shape, attributes);
        let [rows, columns] = block.ok_or_else(|| argument("the blocks do not divide the shape"))?;
        values = values.call_method1("reshape", (-1, rows, columns))?;
    }
    let function = match (compressed.by_columns, compressed.in_blocks) {
        (false, false) => "sparse_csr_tensor",
        (true, false) => "sparse_csc_tensor",
        (false, true) => "sparse_bsr_tensor",
        (true, true) => "sparse_bsc_tensor",
    };
    torch.attribute(function)?.call((index("indptr")?, index("indices")?, values, size), Some(&checked))
}

/// The parts of a PyTorch tensor that is stored sparse, by role: compressed matrices, or COO without dense dimensions. `None` for others.
pub(crate) fn parts<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Option<SparseParts<'py>>> {
    let layout = tensor.getattr("layout")?.str()?.to_string();
    let rank: usize = tensor.call_method0("dim")?.extract()?;
    let plain = tensor.call_method0("detach")?;
    let flat = |part: Bound<'py, PyAny>| part.call_method1("reshape", (-1,));
    match layout.as_str() {
        name @ ("torch.sparse_csr" | "torch.sparse_csc" | "torch.sparse_bsr" | "torch.sparse_bsc")
            if rank == 2 && dense_dimensions(tensor)? == 0 =>
        {
            let (by_columns, in_blocks) = (name.ends_with('c'), name.contains("_bs"));
            let (pointers, indices) = match by_columns {
                true => ("ccol_indices", "row_indices"),
                false => ("crow_indices", "col_indices"),
            };
            let values = plain.call_method0("values")?;
            let mut attributes = Attributes::new();
            if in_blocks {
                let shape: Vec<u64> = values.getattr("shape")?.extract()?;
                let block = shape.into_iter().skip(1).map(Value::from).collect();
                attributes.insert(Compressed::BLOCK_SHAPE.to_owned(), Value::List(block));
            }
            Ok(Some(SparseParts {
                layout: Compressed { by_columns, in_blocks }.layout(),
                attributes,
                values: flat(values)?,
                indices: vec![
                    ("indices", plain.call_method0(indices)?),
                    ("indptr", plain.call_method0(pointers)?),
                ],
            }))
        }
        "torch.sparse_coo" if rank > 0 && dense_dimensions(tensor)? == 0 => {
            // Values of the same coordinates are added up: a file holds each element once.
            let plain = plain.call_method0("coalesce")?;
            let coordinates = flat(plain.call_method0("indices")?)?;
            Ok(Some(SparseParts {
                layout: Layout::SparseCoo,
                attributes: Attributes::new(),
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
    pub(crate) attributes: Attributes,
    pub(crate) values: Bound<'py, PyAny>,
    pub(crate) indices: Vec<(&'static str, Bound<'py, PyAny>)>,
}
