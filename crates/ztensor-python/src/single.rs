//! Tensors that are one array: dense ones, and blocks of bytes such as ggml's, raw or as the numbers they stand for.

use std::sync::Arc;

use pyo3::prelude::*;
use ztensor::formats::gguf::BlockType;
use ztensor::index::{Component, Object};
use ztensor::{DType, ElementType, Layout};

use crate::array::Region;
use crate::errors::{OrRaise, argument, mismatch};
use crate::load::{Loaded, Terms, Wanted, load};
use crate::memory::{Block, Memory};
use crate::packed;
use crate::work::Work;

/// A tensor that is one array.
pub(crate) struct Single<'a> {
    pub(crate) name: &'a str,
    pub(crate) component: &'a Component,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<usize>,
    /// Whether the component holds blocks that are to be turned into numbers.
    dequantized: bool,
}

impl<'a> Single<'a> {
    /// An object as one array. With `dequantize`, ggml blocks are the numbers they stand for, otherwise rows of bytes.
    pub(crate) fn of(name: &'a str, object: &'a Object, dequantize: bool) -> PyResult<Single<'a>> {
        let refuse = |what: String| {
            let hint = match object.layout {
                Layout::SparseCsr | Layout::SparseCoo => {
                    "Reader.read gives its components, Reader.read_torch and ztensor.torch a sparse torch.Tensor."
                }
                _ => "Reader.read gives its components.",
            };
            mismatch(name, format!("{what}, which is not one array"), hint)
        };
        let component = match (&object.layout, object.components.as_slice()) {
            (Layout::Dense | Layout::Other(_), [(role, component)]) if role == "data" => component,
            (layout, _) => return Err(refuse(format!("this is a {layout} tensor"))),
        };
        let too_large = || refuse(format!("the shape {} is larger than the address space", object.shape));
        let shape = object.shape.to_usize().ok_or_else(too_large)?;
        let single = |element, shape, dequantized| Single { name, component, element, shape, dequantized };
        if object.layout == Layout::Dense {
            if component.element.bits().is_none() {
                return Err(refuse(format!(
                    "its elements are of the unknown type \"{}\"",
                    component.element
                )));
            }
            return Ok(single(component.element.clone(), shape, false));
        }
        if dequantize && BlockType::of(&object.layout).is_some() {
            return Ok(single(DType::F32.into(), shape, true));
        }
        let element = ElementType::plain(component.element.storage);
        let shape = block_shape(&shape, component.length / element.storage.width() as u64);
        Ok(single(element, shape, false))
    }

    /// The component to load.
    pub(crate) fn wanted(&self) -> Wanted<'a> {
        Wanted { name: self.name, role: "data", component: self.component }
    }

    /// Loads tensors, to be taken one by one in the same order. Packed elements are loaded only where they are wanted `packed`.
    pub(crate) fn load<'py, 's>(
        py: Python<'py>,
        reader: &Arc<ztensor::Reader>,
        singles: impl Iterator<Item = &'s Single<'a>>,
        terms: Terms,
        packed: bool,
    ) -> PyResult<LoadedSingles<'py, 'a>>
    where
        'a: 's,
    {
        let plain =
            |single: &&Single<'_>| !single.dequantized && (packed || !packed::is_packed(&single.element));
        let wanted: Vec<Wanted<'a>> = singles.filter(plain).map(Single::wanted).collect();
        let loaded = load(py, reader, &wanted, terms)?.into_iter();
        Ok(LoadedSingles { py, reader: Arc::clone(reader), loaded })
    }
}

/// Loaded tensors.
pub(crate) struct LoadedSingles<'py, 'a> {
    py: Python<'py>,
    reader: Arc<ztensor::Reader>,
    loaded: std::vec::IntoIter<Loaded<'py, 'a>>,
}

impl<'py, 'a> LoadedSingles<'py, 'a> {
    /// The next tensor's memory.
    pub(crate) fn next(&mut self, single: &Single<'a>) -> PyResult<Loaded<'py, 'a>> {
        if single.dequantized {
            return self.dequantized(single);
        }
        self.loaded.next().ok_or_else(|| argument("nothing was read"))
    }

    fn dequantized(&self, single: &Single<'a>) -> PyResult<Loaded<'py, 'a>> {
        let too_large = || argument("the numbers do not fit the address space");
        let count = single.shape.iter().try_fold(1usize, |count, &dimension| count.checked_mul(dimension));
        let length = count.and_then(|count| count.checked_mul(size_of::<f32>())).ok_or_else(too_large)?;
        let mut block = Block::new(length).or_raise()?;
        if let Some(memory) = block.bytes().get_mut(..length) {
            let numbers: &mut [f32] = bytemuck::try_cast_slice_mut(memory).map_err(|_| too_large())?;
            let (reader, name) = (&*self.reader, single.name);
            self.py.work(|| reader.dequantize_into(name, numbers)).or_raise()?;
            self.py.check_signals()?;
        }
        let memory = Memory::of_block(self.py, block)?.into_bound(self.py);
        let region = Region::new(&memory, 0, 0, length as u64).ok_or_else(too_large)?;
        Ok(Loaded { region, strides: None })
    }
}

/// Blocks keep the rows of the tensor they encode; where rows are not whole, they are one run.
fn block_shape(shape: &[usize], units: u64) -> Vec<usize> {
    let units = usize::try_from(units).unwrap_or(usize::MAX);
    let mut shape = shape.to_vec();
    let last = shape.pop();
    let rows = shape.iter().try_fold(1usize, |rows, &dimension| rows.checked_mul(dimension));
    match (last, rows) {
        (Some(_), Some(rows)) if rows > 0 && units.is_multiple_of(rows) => {
            shape.push(units / rows);
            shape
        }
        _ => vec![units],
    }
}
