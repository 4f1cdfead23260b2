//! Regions of dense tensors into memory the user already has: what a rank of a training job loads of each.

use std::sync::Arc;

use pyo3::prelude::*;
use rayon::prelude::*;
use ztensor::ElementType;

use crate::errors::{OrRaise, argument, mismatch};
use crate::memory::array::{ArrayBytes, overlap};
use crate::reading::booleans;
use crate::torch;
use crate::work::Work;

/// A tensor, the first element and the elements in each dimension, and a contiguous CPU tensor of just that shape and type.
pub(crate) type Region<'py> = (String, Vec<u64>, Vec<u64>, Bound<'py, PyAny>);

/// A region on its way into its destination.
struct Task<'a> {
    name: &'a str,
    starts: &'a [u64],
    lengths: &'a [u64],
    element: &'a ElementType,
    bytes: ArrayBytes,
}

/// Fills destinations with regions.
pub(crate) fn fill(py: Python<'_>, reader: &Arc<ztensor::Reader>, regions: &[Region<'_>]) -> PyResult<()> {
    let mut tasks = Vec::with_capacity(regions.len());
    for (name, starts, lengths, destination) in regions {
        let object = reader.object(name).or_raise()?;
        let component = object.component("data").ok_or_else(|| argument("a tensor without data"))?;
        let element = &component.element;
        let memory = torch::own_memory(destination)?;
        let fitting = memory.filter(|(_, shape, found)| shape == lengths && found == element);
        let bytes = fitting.and_then(|(array, ..)| ArrayBytes::of(&array)).filter(ArrayBytes::is_writable);
        let bytes = bytes.ok_or_else(|| {
            let what = format!("the destination is no contiguous CPU tensor of {lengths:?} {element}");
            mismatch(name, what, "Read into one, and copy it.")
        })?;
        tasks.push(Task { name, starts, lengths, element, bytes });
    }
    let shared = overlap(tasks.iter().map(|task| &task.bytes));
    let read = |task: &mut Task<'_>| {
        let Some(target) = task.bytes.bytes_mut() else { return Ok(()) };
        reader.region_into(task.name, task.starts, task.lengths, target)?;
        booleans::normalise(task.element, target);
        Ok(())
    };
    // The same memory twice, such as that of tied weights: one after the other.
    py.work(|| match shared {
        true => tasks.iter_mut().try_for_each(read),
        false => tasks.par_iter_mut().try_for_each(read),
    })
    .or_raise()
}
