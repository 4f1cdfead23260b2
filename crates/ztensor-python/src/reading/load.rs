//! Bulk loading: many components at once, as regions of memory that arrays can lie over. What lies plainly in a map is borrowed; everything
//! else is decoded, or copied, into blocks of our own.

use std::sync::Arc;

use pyo3::prelude::*;
use rayon::prelude::*;
use ztensor::index::{Component, Data, Span};

use crate::errors::{OrRaise, to_python};
use crate::memory::Memory;
use crate::memory::array::Region;
use crate::reading::blocks::{self, Wanted};
use crate::reading::booleans;
use crate::work::Work;

/// What arrays over the memory must be like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terms {
    /// Borrow whatever can be borrowed.
    View,
    /// Borrow only what is aligned to its elements and has no negative strides: PyTorch assumes the first and refuses the second.
    AlignedView,
    /// Memory of its own.
    Copy,
}

/// A loaded component: a region, and how to walk over it where it is not contiguous.
pub(crate) struct Loaded<'py, 'a> {
    pub(crate) region: Region<'py>,
    pub(crate) strides: Option<(u64, &'a [i64])>,
}

/// Loads components; the result is in the order of `wanted`.
pub(crate) fn load<'py, 'a>(
    py: Python<'py>,
    reader: &Arc<ztensor::Reader>,
    wanted: &[Wanted<'a>],
    terms: Terms,
) -> PyResult<Vec<Loaded<'py, 'a>>> {
    let mut views: Vec<Option<MapView<'a>>> =
        wanted.iter().map(|wanted| in_map(reader, wanted.component, terms)).collect();
    drop_odd_booleans(py, reader, wanted, &mut views)?;
    let (borrowed, decoded): (Vec<_>, Vec<_>) =
        wanted.iter().zip(&views).partition(|(_, view)| view.is_some());
    verify(py, reader, borrowed.into_iter().map(|(wanted, _)| wanted))?;
    let decoded: Vec<&Wanted<'_>> = decoded.into_iter().map(|(wanted, _)| wanted).collect();
    let (blocks, places) = blocks::fill(py, reader, &decoded)?;

    let map = Memory::of_file(py, reader)?.into_bound(py);
    let blocks: Vec<Bound<'py, Memory>> = blocks
        .into_iter()
        .map(|block| Ok(Memory::of_block(py, block)?.into_bound(py)))
        .collect::<PyResult<_>>()?;
    let mut places = places.into_iter();
    let regions = wanted.iter().zip(views).map(|(wanted, view)| match view {
        Some(MapView { span, strides }) => {
            let region = Region::new(&map, span.file.0 as usize, span.offset, span.length)?;
            Some(Loaded { region, strides })
        }
        None => {
            let (block, offset) = places.next()?;
            let region = Region::new(blocks.get(block)?, 0, offset as u64, wanted.component.length)?;
            Some(Loaded { region, strides: None })
        }
    });
    regions
        .map(|region| {
            region.ok_or_else(|| to_python(&ztensor::Error::malformed("the data lies outside the file")))
        })
        .collect()
}

/// A component that lies plainly in a map.
struct MapView<'a> {
    span: Span,
    strides: Option<(u64, &'a [i64])>,
}

/// Whether a component needs no reading at all under these terms. Booleans do: somebody has to look whether they are any.
pub(crate) fn is_borrowed(reader: &ztensor::Reader, component: &Component, terms: Terms) -> bool {
    !booleans::are_booleans(&component.element) && in_map(reader, component, terms).is_some()
}

/// Gives up views of booleans that are neither 0 nor 1: copies of them are.
fn drop_odd_booleans(
    py: Python<'_>,
    reader: &ztensor::Reader,
    wanted: &[Wanted<'_>],
    views: &mut [Option<MapView<'_>>],
) -> PyResult<()> {
    let viewed = wanted
        .iter()
        .zip(views)
        .filter(|(wanted, view)| view.is_some() && booleans::are_booleans(&wanted.component.element));
    for (wanted, view) in viewed {
        let checked = py.work(|| reader.component_view(wanted.name, wanted.role)).or_raise()?;
        if !checked.is_some_and(|view| py.work(|| booleans::are_normal(view.bytes))) {
            *view = None;
        }
    }
    Ok(())
}

/// Where a component lies plainly in a map, if it does and the terms allow to borrow it.
fn in_map<'a>(reader: &ztensor::Reader, component: &'a Component, terms: Terms) -> Option<MapView<'a>> {
    let (data, strides) = match &component.data {
        Data::Strided(strided) => (&strided.inner, Some((strided.offset, strided.strides.as_slice()))),
        data => (data, None),
    };
    let Data::Raw(span) = *data else { return None };
    let address = reader.sources().get(span.file.0 as usize)?.map_address()?;
    let allowed = match terms {
        Terms::View => true,
        Terms::Copy => false,
        Terms::AlignedView => {
            let width = component.element.storage.width();
            let (first, steps) = strides.unwrap_or((0, &[]));
            let start = (address.addr() as u64).wrapping_add(span.offset).wrapping_add(first);
            start.is_multiple_of(width as u64)
                && steps.iter().all(|step| *step >= 0 && step % width as i64 == 0)
        }
    };
    allowed.then_some(MapView { span, strides })
}

/// Checks the stored checksums and the values of what is only borrowed; what is decoded is checked there.
fn verify<'a>(
    py: Python<'_>,
    reader: &ztensor::Reader,
    borrowed: impl Iterator<Item = &'a Wanted<'a>>,
) -> PyResult<()> {
    let checked: Vec<&Wanted<'_>> = borrowed.filter(|wanted| wanted.component.is_checked()).collect();
    if checked.is_empty() {
        return Ok(());
    }
    py.work(|| checked.par_iter().try_for_each(|wanted| reader.check_view(wanted.name, wanted.role)))
        .or_raise()
}
