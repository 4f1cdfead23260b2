//! Memory that arrays lie over: the map of an opened file, or blocks of our own for what is copied or
//! decoded. Blocks come straight from the operating system, without any pages: whoever fills them brings
//! these in (`z4ai::pages`).

pub(crate) mod array;
pub(crate) mod spare;

use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};
use pyo3::prelude::*;
use ztensor::{Error, Kind};

/// From this size on a block is kept for the next load when its arrays are gone.
const KEPT: usize = 4 << 20;

/// The object that keeps an array's memory alive; NumPy shows it as the array's `base`.
#[pyclass(frozen, module = "ztensor._native")]
pub(crate) struct Memory(Holder);

enum Holder {
    /// A mapped file, together with the others its reader opened.
    File(Arc<ztensor::Reader>),
    Block(Block),
}

impl Memory {
    /// The memory of an opened file's maps.
    pub(crate) fn of_file(py: Python<'_>, reader: &Arc<ztensor::Reader>) -> PyResult<Py<Memory>> {
        Py::new(py, Memory(Holder::File(Arc::clone(reader))))
    }

    /// Takes over a filled block.
    pub(crate) fn of_block(py: Python<'_>, block: Block) -> PyResult<Py<Memory>> {
        Py::new(py, Memory(Holder::Block(block)))
    }

    /// Start and length of the memory: of the block, or of the map of one of the reader's files.
    pub(crate) fn extent(&self, file: usize) -> Option<(*mut u8, usize)> {
        match &self.0 {
            Holder::File(reader) => {
                let source = reader.sources().get(file)?;
                Some((source.lend_map()?, usize::try_from(source.len()).ok()?))
            }
            Holder::Block(block) => block.0.as_ref().map(|map| (map.as_ptr().cast_mut(), map.len())),
        }
    }
}

/// Memory that is being filled, or lies under arrays. Until it is filled its content is arbitrary.
pub(crate) struct Block(Option<MmapMut>);

impl Block {
    /// Takes a spare block or asks the operating system for memory; a refusal is an error, not an abort.
    pub(crate) fn new(length: usize) -> ztensor::Result<Block> {
        if let Some(map) = spare::take(length) {
            return Ok(Block(Some(map)));
        }
        let map = MmapOptions::new().len(length.max(1)).map_anon().map_err(|cause| {
            Error::new(Kind::Limit, format!("not enough memory for {length} bytes")).with_cause(cause)
        })?;
        Ok(Block(Some(map)))
    }

    /// The memory that was filled.
    pub(crate) fn filled(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The memory to fill.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(map) = self.0.take_if(|map| map.len() >= KEPT) {
            spare::keep(map);
        }
    }
}
