//! Tensors that are one array: dense ones, and ggml blocks where the numbers they stand for are asked for.

use std::sync::Arc;

use pyo3::prelude::*;
use ztensor::formats::gguf::BlockType;
use ztensor::index::{Component, Object};
use ztensor::{DType, ElementType, Layout};

use crate::element;
use crate::errors::{argument, mismatch};
use crate::reading::blocks::Wanted;
use crate::reading::load::{Loaded, Terms, load};
use crate::reading::packed;
use crate::reading::quantized::{self, Blocks};
use crate::reading::sparse;

/// A tensor that is one array.
pub(crate) struct Single<'a> {
    pub(crate) name: &'a str,
    pub(crate) component: &'a Component,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<usize>,
    /// The blocks that the component holds, to be turned into numbers.
    pub(crate) blocks: Option<BlockType>,
}

impl<'a> Single<'a> {
    /// An object as one array. With `dequantize`, ggml blocks are the numbers they stand for; otherwise they are no array, because an array of
    /// their bytes would have another type and shape than the tensor.
    pub(crate) fn of(name: &'a str, object: &'a Object, dequantize: Option<DType>) -> PyResult<Single<'a>> {
        let blocks = BlockType::of(&object.layout);
        let refuse = |what: String| {
            let hint = match &object.layout {
                layout if sparse::is_sparse(layout) => {
                    "Reader.read gives its components, Reader.read_torch and ztensor.torch a sparse torch.Tensor."
                }
                layout if blocks.is_some() || quantized::is_torch(layout) => {
                    "dequantize=True gives the numbers it stands for, Reader.read its blocks."
                }
                _ => "Reader.read gives its components.",
            };
            mismatch(name, format!("{what}, which is not one array"), hint)
        };
        let component = match (&object.layout, object.components.as_slice()) {
            (Layout::Dense, [(role, component)]) if role == "data" => component,
            (_, [(role, component)]) if role == "data" && blocks.is_some() && dequantize.is_some() => {
                component
            }
            (layout, _) => return Err(refuse(format!("this is a {layout} tensor"))),
        };
        let too_large = || refuse(format!("the shape {} is larger than the address space", object.shape));
        let shape = object.shape.to_usize().ok_or_else(too_large)?;
        let element = match (blocks, dequantize) {
            (Some(_), Some(precision)) => precision.into(),
            _ if component.element.bits().is_none() => {
                let what = format!("its elements are of the unknown type \"{}\"", component.element);
                return Err(refuse(what));
            }
            _ => component.element.clone(),
        };
        Ok(Single { name, component, element, shape, blocks })
    }

    /// The component to load.
    pub(crate) fn wanted(&self) -> Wanted<'a> {
        Wanted { name: self.name, role: "data", component: self.component }
    }

    /// The tensor as a NumPy array; one of packed elements is none.
    pub(crate) fn array<'py>(
        &self,
        py: Python<'py>,
        reader: &Arc<ztensor::Reader>,
        copy: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let terms = if copy { Terms::Copy } else { Terms::View };
        let Loaded { region, strides } =
            Single::load(py, reader, std::iter::once(self), terms, false)?.next(self)?;
        region.array(&element::descriptor(py, &self.element)?, &self.shape, strides)
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
            |single: &&Single<'_>| single.blocks.is_none() && (packed || !packed::is_packed(&single.element));
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
        if single.blocks.is_some() {
            let blocks = Blocks::InFile(&self.reader, single.name);
            let region = blocks.numbers(self.py, single.element.storage, &single.shape)?;
            return Ok(Loaded { region, strides: None });
        }
        self.loaded.next().ok_or_else(|| argument("nothing was read"))
    }
}
