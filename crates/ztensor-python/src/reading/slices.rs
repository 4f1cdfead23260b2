//! Parts of tensors: NumPy's indexing on tensors that have not been read. Along the first dimension only the rows that are asked for are
//! read, decoded or dequantised; views of a map read nothing at all.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PySlice, PyTuple};
use ztensor::DType;

use crate::element;
use crate::errors::{OrRaise, argument, indexing};
use crate::memory::array::Region;
use crate::memory::{Block, Memory};
use crate::reading::booleans;
use crate::reading::load::{Terms, is_borrowed};
use crate::reading::packed;
use crate::reading::quantized::Blocks;
use crate::reading::single::Single;
use crate::torch::Torch;
use crate::work::Work;

/// A part of a tensor as a NumPy array.
pub(crate) fn numpy_slice<'py>(
    reader: &Arc<ztensor::Reader>,
    name: &str,
    key: &Bound<'py, PyAny>,
    dequantize: Option<DType>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = key.py();
    let single = Single::of(name, reader.object(name).or_raise()?, dequantize)?;
    if packed::is_packed(&single.element) {
        let bytes = py.working(reader.is_remote(), || reader.bytes(name))?;
        let array = packed::array(py, &bytes, &single.element, &single.shape)?;
        return array.get_item(key).map_err(|error| indexing(py, error));
    }
    let descriptor = element::descriptor(py, &single.element)?;
    part(reader, &single, &descriptor, &single.shape, Terms::View, key)
}

/// A part of a tensor as a PyTorch tensor.
pub(crate) fn torch_slice<'py>(
    torch: &Torch<'py>,
    reader: &Arc<ztensor::Reader>,
    name: &str,
    key: &Bound<'py, PyAny>,
    dequantize: Option<DType>,
) -> PyResult<Bound<'py, PyAny>> {
    let single = Single::of(name, reader.object(name).or_raise()?, dequantize)?;
    let carrier = torch.carrier(&single.element)?;
    let shape = Torch::carrier_shape(&single.element, single.shape.clone())?;
    let mut array = part(reader, &single, &carrier, &shape, Terms::AlignedView, key)?;
    let strides: Vec<isize> = array.getattr("strides")?.extract()?;
    if strides.iter().any(|step| *step < 0) {
        array = array.call_method1("copy", ("C",))?;
    }
    // Indexing every dimension gives a NumPy scalar, which PyTorch does not take.
    let array = key.py().import("numpy")?.call_method1("asarray", (array,))?;
    torch.tensor(&single.element, &array)
}

/// Reads what the key needs and lets NumPy index it.
fn part<'py>(
    reader: &Arc<ztensor::Reader>,
    single: &Single<'_>,
    descriptor: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    terms: Terms,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = key.py();
    let whole = single.blocks.is_none() && is_borrowed(reader, single.component, terms);
    let rows = if whole { None } else { Rows::of(key, shape)? };
    let total = usize::try_from(single.component.length).map_err(|_| argument("the tensor is too large"))?;
    let row = total / shape.first().map_or(1, |&all| all.max(1));
    // Blocks that reach over the end of a row cannot be cut there.
    let rows = rows.filter(|_| single.blocks.is_none_or(|block| row.is_multiple_of(block.bytes())));
    let Some(rows) = rows else {
        if !whole {
            check_key(descriptor, shape, key)?;
        }
        let mut loaded = Single::load(py, reader, std::iter::once(single), terms, true)?;
        let loaded = loaded.next(single)?;
        let array = loaded.region.array(descriptor, shape, loaded.strides)?;
        return array.get_item(key).map_err(|error| indexing(py, error));
    };
    let length = rows.count * row;
    reader.check_proportion(single.name, "data").or_raise()?;
    let mut block = Block::new(length).or_raise()?;
    if let Some(target) = block.bytes().get_mut(..length) {
        let start = (rows.first * row) as u64;
        let read = || reader.component_range_into(single.name, "data", start, target);
        py.working(reader.is_remote(), read)?;
        booleans::normalise(&single.component.element, target);
    }
    let mut shape = shape.to_vec();
    if let Some(first) = shape.first_mut() {
        *first = rows.count;
    }
    let region = match single.blocks {
        Some(kind) => {
            let bytes = block.bytes().get(..length).unwrap_or_default();
            Blocks::Here(kind, bytes).numbers(py, single.element.storage, &shape)?
        }
        None => {
            let memory = Memory::of_block(py, block)?.into_bound(py);
            Region::new(&memory, 0, 0, length as u64).ok_or_else(|| argument("the part is too large"))?
        }
    };
    region.array(descriptor, &shape, None)?.get_item(rows.key).map_err(|error| indexing(py, error))
}

/// Lets NumPy say what is wrong with a key before anything is decoded for it: on an array of that shape that takes no memory.
fn check_key(descriptor: &Bound<'_, PyArrayDescr>, shape: &[usize], key: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = key.py();
    let numpy = py.import("numpy")?;
    let element = numpy.call_method1("zeros", (PyTuple::empty(py), descriptor))?;
    let like = numpy.call_method1("broadcast_to", (element, shape.to_vec()))?;
    // Lists of numbers copy what they pick; numbers and slices do not.
    let plain = |item: &Bound<'_, PyAny>| {
        item.is_instance_of::<PySlice>() || item.is_exact_instance_of::<PyInt>() || item.is_none()
    };
    let simple = match key.cast::<PyTuple>() {
        Ok(items) => items.iter().all(|item| plain(&item)),
        Err(_) => plain(key),
    };
    if simple {
        like.get_item(key).map_err(|error| indexing(py, error))?;
    }
    Ok(())
}

/// The rows a key needs, and the key that picks the same elements from just those rows.
struct Rows<'py> {
    first: usize,
    count: usize,
    key: Bound<'py, PyAny>,
}

impl<'py> Rows<'py> {
    /// `None` where the key does not begin with a number or a slice, or where it would be wrong: NumPy then says so.
    fn of(key: &Bound<'py, PyAny>, shape: &[usize]) -> PyResult<Option<Rows<'py>>> {
        let py = key.py();
        let tuple = match key.cast::<PyTuple>() {
            Ok(tuple) => tuple.clone(),
            Err(_) => PyTuple::new(py, [key])?,
        };
        let (Ok(head), Some(&rows)) = (tuple.get_item(0), shape.first()) else { return Ok(None) };
        let total = rows as isize;
        let (first, count, head) = if let Ok(slice) = head.cast::<PySlice>() {
            let indices = slice.indices(total)?;
            let (count, step) = (indices.slicelength as isize, indices.step);
            if count == 0 {
                return Ok(None);
            }
            let last = indices.start + (count - 1) * step;
            let (low, high) = (indices.start.min(last), indices.start.max(last));
            let span = high - low + 1;
            // Counted from the end so that a negative step stops behind the first row.
            let (start, stop) = if step > 0 { (0, span) } else { (span - 1, -span - 1) };
            (low, span, PySlice::new(py, start, stop, step).into_any())
        } else if head.is_exact_instance_of::<PyInt>() {
            let index: isize = head.extract()?;
            let index = if index < 0 { index + total } else { index };
            if !(0..total).contains(&index) {
                return Ok(None);
            }
            (index, 1, 0isize.into_pyobject(py)?.into_any())
        } else {
            return Ok(None);
        };
        let mut items: Vec<Bound<'py, PyAny>> = tuple.iter().collect();
        if let Some(item) = items.first_mut() {
            *item = head;
        }
        let key = PyTuple::new(py, items)?.into_any();
        Ok(Some(Rows { first: first as usize, count: count as usize, key }))
    }
}
