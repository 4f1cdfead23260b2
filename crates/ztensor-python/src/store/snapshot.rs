//! `Snapshot`: tensors as they were at one moment, in memory that is used again for the next moment. A program goes on as soon as they are copied; the store
//! takes them from here.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use z4ai::pages;
use ztensor::formats::safetensors;
use ztensor::{Compression, Error, Kind, Source, Writer};

use crate::errors::{OrRaise, argument};
use crate::memory::Block;
use crate::work::{Progress, Work};
use crate::writing::incoming::Incoming;
use crate::writing::save;

/// Bytes that one thread copies at a time: a tensor of a gigabyte is copied by all of them, and one of a few bytes costs no more than it weighs.
const CHUNK: usize = 4 << 20;

/// Tensors as they were at one moment: the bytes of the file that holds them.
#[pyclass(frozen, module = "ztensor._native")]
pub(crate) struct Snapshot {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bytes: Arc<Memory>,
    /// How many of them are used; memory is not given back, because the next state is as large.
    length: usize,
    name: &'static str,
}

/// Memory for a state.
enum Memory {
    Block(Block),
    /// A file that was written in one piece.
    File(Vec<u8>),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::File(Vec::new())
    }
}

impl Memory {
    fn new(length: usize) -> ztensor::Result<Memory> {
        let mut block = Block::new(length)?;
        pages::bring_all(block.bytes());
        Ok(Memory::Block(block))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Block(block) => block.filled(),
            Memory::File(bytes) => bytes,
        }
    }

    /// Its bytes to be written to, if there are so many.
    fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        match self {
            Memory::Block(block) => block.bytes().get_mut(..length),
            Memory::File(bytes) => bytes.get_mut(..length),
        }
    }
}

/// The used part of a buffer, as a source holds it.
struct Used {
    bytes: Arc<Memory>,
    length: usize,
}

impl AsRef<[u8]> for Used {
    fn as_ref(&self) -> &[u8] {
        self.bytes.bytes().get(..self.length).unwrap_or_default()
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new() -> Snapshot {
        Snapshot { held: Mutex::default() }
    }

    /// Copies tensors. What was held before is gone.
    fn take(&self, tensors: &Bound<'_, PyDict>, metadata: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = tensors.py();
        let incoming = save::collect(tensors)?;
        let texts = save::texts(metadata)?;
        let plain = incoming.iter().all(|tensor| tensor.check_plain().is_ok());
        let laid_out = match plain {
            true => safetensors::layout(save::entries(&incoming), Some(&texts)).ok(),
            false => None,
        };
        // Taken out of the lock, which nobody may wait for with the interpreter's.
        let mut held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        match laid_out {
            Some((front, order)) => {
                let names: Vec<&str> = order.iter().map(|entry| entry.name).collect();
                py.work(|| held.copy(&front, &names, &incoming)).or_raise()?;
                held.name = "state.safetensors";
            }
            // What .safetensors cannot say goes into .zt, which is written in one piece.
            None => {
                let mut writer = Writer::in_memory().or_raise()?;
                let attributes = crate::attributes::from_dict(metadata)?;
                let storage = (Compression::None, ztensor::Checksum::None);
                save::fill(py, &mut writer, &incoming, attributes, storage, Progress::default())?;
                let bytes = py.work(|| writer.into_bytes()).or_raise()?;
                held.length = bytes.len();
                held.bytes = Arc::new(Memory::File(bytes));
                held.name = "state.zt";
            }
        }
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }

    /// Bytes of the file that holds the tensors.
    #[getter]
    fn nbytes(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).length
    }
}

impl Snapshot {
    /// The file that holds the tensors, and its name.
    pub(super) fn file(&self) -> PyResult<(String, Arc<Source>)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.length == 0 {
            return Err(argument("the snapshot is empty"));
        }
        let used = Used { bytes: Arc::clone(&held.bytes), length: held.length };
        Ok((held.name.to_owned(), Arc::new(Source::from_bytes(used))))
    }
}

impl Held {
    /// Copies a file's front and the tensors behind it, on all cores.
    fn copy(&mut self, front: &[u8], names: &[&str], incoming: &[Incoming]) -> ztensor::Result<()> {
        let by_name: std::collections::HashMap<&str, &[u8]> =
            incoming.iter().filter_map(|tensor| Some((tensor.name.as_str(), tensor.data()?.1))).collect();
        let missing = |name: &str| Error::new(Kind::NoSuchTensor, format!("no tensor \"{name}\""));
        let mut parts: Vec<&[u8]> = vec![front];
        for name in names {
            parts.push(by_name.get(name).copied().ok_or_else(|| missing(name))?);
        }
        let length = parts.iter().map(|part| part.len()).sum();
        self.length = 0;
        // Memory that the store still reads from is left to it.
        if Arc::get_mut(&mut self.bytes).is_none_or(|memory| memory.room(length).is_none()) {
            self.bytes = Arc::new(Memory::new(length)?);
        }
        let room = Arc::get_mut(&mut self.bytes).and_then(|memory| memory.room(length));
        let mut rest = room.ok_or_else(|| Error::argument("the snapshot is in use"))?;
        let mut copies = Vec::new();
        for part in parts.iter().flat_map(|part| part.chunks(CHUNK)) {
            let (here, later) = rest.split_at_mut(part.len());
            copies.push((here, part));
            rest = later;
        }
        copies.into_par_iter().for_each(|(here, part)| here.copy_from_slice(part));
        self.length = length;
        Ok(())
    }
}
