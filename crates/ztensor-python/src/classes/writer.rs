//! `Writer`: makes `.zt` files, tensor by tensor.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ztensor::convert::FileKind;
use ztensor::{Error, Version};

use crate::attributes;
use crate::classes::tensor::PyTensor;
use crate::errors::{OrRaise, argument, to_python};
use crate::work::Work;
use crate::writing::incoming::Incoming;
use crate::writing::storage::Words;

/// Creates a .zt file, with compression and checksum chosen per tensor.
///
/// Nothing appears under the path before finish(); as a context manager, the file is finished at the end and discarded when an
/// exception leaves the block.
#[pyclass(frozen, module = "ztensor")]
pub(crate) struct Writer(Mutex<State>);

enum State {
    Open(Box<ztensor::Writer>),
    Finished,
    Discarded,
}

impl Writer {
    fn new(writer: ztensor::Writer) -> Self {
        Writer(Mutex::new(State::Open(Box::new(writer))))
    }

    fn put(&self, py: Python<'_>, tensor: &Incoming, words: &Words<'_, '_>) -> PyResult<()> {
        let (compression, checksum) = (words.compression()?, words.checksum()?);
        py.work(|| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *state {
                State::Open(writer) => {
                    writer.write_object(&tensor.name, &tensor.input(), compression, checksum).or_raise()
                }
                State::Finished => Err(argument("the file is finished; Writer.append adds tensors to it")),
                State::Discarded => Err(argument("the file was discarded")),
            }
        })
    }

    fn take(&self, then: State) -> State {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), then)
    }
}

#[pymethods]
impl Writer {
    /// version: the generation of the container, 1 (every 1.2 reader opens it) or 2 (canonical when tensors come sorted by name and uncompressed).
    #[new]
    #[pyo3(signature = (path, *, version=1))]
    fn create(py: Python<'_>, path: PathBuf, version: u32) -> PyResult<Self> {
        if FileKind::of(&path).or_raise()? != FileKind::Zt {
            let hint =
                "ztensor.numpy.save_file and ztensor.torch.save_file write .safetensors and .pt files.";
            let error = Error::argument("Writer makes .zt files").with_path(&path).with_hint(hint);
            return Err(to_python(&error));
        }
        let version = match version {
            1 => Version::One,
            2 => Version::Two,
            other => return Err(argument(format!("versions 1 and 2 are written, not {other}"))),
        };
        py.work(|| ztensor::Writer::create_version(path, version)).or_raise().map(Writer::new)
    }

    /// Opens an existing .zt file for more tensors. What it holds is kept, also when the process dies in the middle.
    #[staticmethod]
    fn append(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.work(|| ztensor::Writer::append(path)).or_raise().map(Writer::new)
    }

    /// Writes a ztensor.Tensor of any format.
    #[pyo3(signature = (name, tensor, *, compress=None, checksum="none", codec=None, effort=None, level=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python method")]
    fn write(
        &self,
        py: Python<'_>,
        name: &str,
        tensor: &Bound<'_, PyTensor>,
        compress: Option<&Bound<'_, PyAny>>,
        checksum: Option<&str>,
        codec: Option<&str>,
        effort: Option<&str>,
        level: Option<i32>,
    ) -> PyResult<()> {
        let words = Words { codec, effort, level, checksum, alias: ("compress", compress) };
        self.put(py, &Incoming::object(name, tensor)?, &words)
    }

    /// Writes a dense tensor from a NumPy array; a ztensor.Tensor, as readers give it, is written as it is.
    ///
    /// codec: None stores it raw, "z4ai" is the codec for weights, "zstd" the general one. effort: "fast", "default" or "max", for z4ai. level: 1 to
    /// 22, for zstd. checksum: "none", "crc32c" or "sha256". compress is the older word: True is zstd, a number a zstd level, a text a codec or an
    /// effort.
    #[pyo3(signature = (name, data, *, compress=None, checksum="none", codec=None, effort=None, level=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python method")]
    fn write_numpy(
        &self,
        py: Python<'_>,
        name: &str,
        data: &Bound<'_, PyAny>,
        compress: Option<&Bound<'_, PyAny>>,
        checksum: Option<&str>,
        codec: Option<&str>,
        effort: Option<&str>,
        level: Option<i32>,
    ) -> PyResult<()> {
        let words = Words { codec, effort, level, checksum, alias: ("compress", compress) };
        self.put(py, &Incoming::numpy(name, data)?, &words)
    }

    /// Writes a dense tensor from a torch.Tensor, wherever it is and however it is strided.
    #[pyo3(signature = (name, data, *, compress=None, checksum="none", codec=None, effort=None, level=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python method")]
    fn write_torch(
        &self,
        py: Python<'_>,
        name: &str,
        data: &Bound<'_, PyAny>,
        compress: Option<&Bound<'_, PyAny>>,
        checksum: Option<&str>,
        codec: Option<&str>,
        effort: Option<&str>,
        level: Option<i32>,
    ) -> PyResult<()> {
        let words = Words { codec, effort, level, checksum, alias: ("compress", compress) };
        self.put(py, &Incoming::torch(name, data)?, &words)
    }

    /// The same as write_numpy.
    #[pyo3(signature = (name, data, compress=None, checksum="none", *, codec=None, effort=None, level=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python method")]
    fn add(
        &self,
        py: Python<'_>,
        name: &str,
        data: &Bound<'_, PyAny>,
        compress: Option<&Bound<'_, PyAny>>,
        checksum: Option<&str>,
        codec: Option<&str>,
        effort: Option<&str>,
        level: Option<i32>,
    ) -> PyResult<()> {
        let words = Words { codec, effort, level, checksum, alias: ("compress", compress) };
        self.put(py, &Incoming::numpy(name, data)?, &words)
    }

    /// Sets metadata of the file; Reader.file_metadata reads it.
    fn set_metadata(&self, metadata: &Bound<'_, PyDict>) -> PyResult<()> {
        let metadata = attributes::from_dict(metadata)?;
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open(writer) => {
                metadata.into_iter().for_each(|(key, value)| writer.set_attribute(key, value));
                Ok(())
            }
            State::Finished | State::Discarded => Err(argument("the file is no longer open")),
        }
    }

    /// Writes the manifest and puts the file in place. Returns its size in bytes.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        match self.take(State::Finished) {
            State::Open(writer) => py.work(|| writer.finish()).or_raise(),
            State::Finished => Err(argument("the file is already finished")),
            State::Discarded => {
                self.take(State::Discarded);
                Err(argument("the file was discarded"))
            }
        }
    }

    /// Gives up the file: nothing appears under its path, and a file that was appended to stays as it was.
    fn discard(&self) {
        self.take(State::Discarded);
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let open = matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Open(_));
        if exception.iter().any(|part| !part.is_none()) {
            self.discard();
        } else if open {
            self.finish(py)?;
        }
        Ok(())
    }

    fn __repr__(&self) -> &'static str {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open(_) => "<ztensor.Writer (open)>",
            State::Finished => "<ztensor.Writer (finished)>",
            State::Discarded => "<ztensor.Writer (discarded)>",
        }
    }
}
