//! `Reader`: an opened model file of any format.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString};
use ztensor::OpenOptions;
use ztensor::delta::Candidate;
use ztensor::source::Io;

use crate::attributes;
use crate::classes::archive_info;
use crate::classes::limits;
use crate::classes::limits::Limits;
use crate::classes::metadata::TensorMetadata;
use crate::errors::{OrRaise, argument};
use crate::network::with_options;
use crate::reading::arrays::{self, How, Names};
use crate::reading::destinations;
use crate::reading::destinations::Conversion;
use crate::reading::objects;
use crate::reading::quantized;
use crate::reading::regions;
use crate::remote;
use crate::torch::Torch;
use crate::work::Work;

/// Opens a model file of any format: .zt, .safetensors, .pt/.pth/.bin, .gguf, .npz/.npy, .onnx, .h5/.hdf5/.keras.
///
/// The content decides, not the name. Tensors are views of a private, copy-on-write memory map: they may be written to, the file
/// never changes, and they stay valid after the reader is gone. What is written shows in other views of the same reader; copy=True gives what
/// the file holds. io="read" reads instead of mapping, for files that may shrink while
/// they are open; verify=False skips the check of stored checksums. base is where the base of a delta is: a path of a file or folder, another
/// Reader, or a list of them. limits says what the file may cost. A folder opens as the one model in it. Files are named by path or URL;
/// storage_options has endpoints and keys for URLs.
#[pyclass(frozen, module = "ztensor")]
pub(crate) struct Reader {
    file: RwLock<Option<Arc<ztensor::Reader>>>,
}

impl Reader {
    /// Wraps an opened file; warns where a write to it is not finished.
    pub(crate) fn new(py: Python<'_>, file: ztensor::Reader) -> PyResult<Self> {
        if let Some(recovered) = file.recovered() {
            let path = file.sources().first().and_then(|source| source.path()).map(Path::as_os_str);
            py.import("ztensor._errors")?.call_method1("warn_of_recovered", (recovered.to_string(), path))?;
        }
        Ok(Reader { file: RwLock::new(Some(Arc::new(file))) })
    }

    /// The file, unless the reader was closed.
    pub(crate) fn file(&self) -> PyResult<Arc<ztensor::Reader>> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.clone().ok_or_else(|| argument("the reader is closed"))
    }

    /// Opens a file as the constructor does.
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python class")]
    pub(crate) fn open(
        py: Python<'_>,
        path: PathBuf,
        io: &str,
        verify: bool,
        base: Option<&Bound<'_, PyAny>>,
        keep_open: bool,
        limits: Option<&Bound<'_, Limits>>,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let storage = remote::options(storage_options)?;
        let options = OpenOptions {
            io: Io::parse(io).or_raise()?,
            keep_open,
            lends_views: true,
            skip_checksums: !verify,
            bases: candidates(base)?,
            ..OpenOptions::within(&limits::given(limits))
        };
        let remote = ztensor::source::is_url(&path);
        let open = || with_options(storage, || options.open(path));
        Reader::new(py, py.working(remote, open)?)
    }
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, io="auto", verify=true, *, base=None, keep_open=false, limits=None, storage_options=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python class")]
    fn from_path(
        py: Python<'_>,
        path: PathBuf,
        io: &str,
        verify: bool,
        base: Option<&Bound<'_, PyAny>>,
        keep_open: bool,
        limits: Option<&Bound<'_, Limits>>,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Reader::open(py, path, io, verify, base, keep_open, limits, storage_options)
    }

    /// Opens a file that is already in memory. Tensors are copied out of it.
    #[staticmethod]
    #[pyo3(signature = (data, verify=true, *, base=None, limits=None))]
    fn from_bytes(
        py: Python<'_>,
        data: pyo3::pybacked::PyBackedBytes,
        verify: bool,
        base: Option<&Bound<'_, PyAny>>,
        limits: Option<&Bound<'_, Limits>>,
    ) -> PyResult<Self> {
        let bases = candidates(base)?;
        let limits = limits::given(limits);
        let options = OpenOptions { skip_checksums: !verify, bases, ..OpenOptions::within(&limits) };
        Reader::new(py, py.work(|| options.open_bytes(data)).or_raise()?)
    }

    /// The names of all tensors.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let file = self.file()?;
        PyList::new(py, file.names())
    }

    /// The detected format: "zt", "safetensors", "pickle", "gguf", "npz", "onnx" or "hdf5".
    #[getter]
    fn format(&self) -> PyResult<&'static str> {
        Ok(self.file()?.format().name())
    }

    /// What the archive or delta says, where the file was opened through one: format, length and sha256 of the original, stored bytes,
    /// and the base of a delta. None for other files.
    #[getter]
    fn archive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.file()?.archived().map(|info| archive_info::info(py, info)).transpose()
    }

    /// Bytes that a tensor takes in the file; in an archive, those of its compressed form.
    fn stored_length(&self, name: &str) -> PyResult<u64> {
        self.file()?.stored_length(name).or_raise()
    }

    /// The file's own metadata.
    #[getter]
    fn file_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        attributes::to_dict(py, self.file()?.attributes())
    }

    /// The text of the tree that the file holds, which load_tree loads; None where there is none.
    fn tree(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let file = self.file()?;
        py.work(|| file.tree().map(|tree| tree.map(|tree| tree.text()))).or_raise()
    }

    /// What the file holds but cannot be read, with the reasons.
    fn skipped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for skipped in self.file()?.skipped() {
            match skipped.is_code {
                true => {
                    let reason = format!("{}; ztensor.scan(path) tells all of it", skipped.reason);
                    dict.set_item(&skipped.name, reason)?;
                }
                false => dict.set_item(&skipped.name, &skipped.reason)?,
            }
        }
        Ok(dict)
    }

    /// What is not finished, where a write to the file was interrupted or is going on and the file was opened in its last complete state: "edit"
    /// ("append", "replace", "repair") and "unfinished_bytes". None for files that are complete.
    #[getter]
    fn recovered<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let file = self.file()?;
        let Some(recovered) = file.recovered() else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("edit", recovered.edit.name())?;
        dict.set_item("unfinished_bytes", recovered.unfinished)?;
        Ok(Some(dict))
    }

    /// Metadata of one tensor, or of a list of tensors, without reading them.
    fn metadata<'py>(&self, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        let file = self.file()?;
        let of = |name: &str| Ok(Bound::new(py, TensorMetadata::new(&file, name)?)?.into_any());
        match Names::from(name)? {
            Names::One(name) => of(name.to_str()?),
            Names::Many(names) => {
                let all: Vec<Bound<'py, PyAny>> =
                    names.iter().map(|name| of(name.to_str()?)).collect::<PyResult<_>>()?;
                Ok(PyList::new(py, all)?.into_any())
            }
        }
    }

    /// Reads one tensor as a ztensor.Tensor, or a list of tensors as a dict of them; any layout.
    ///
    /// dequantize: True or a dtype gives ggml blocks as dense tensors of the numbers they stand for.
    #[pyo3(signature = (name, *, copy=false, dequantize=None))]
    fn read<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        copy: bool,
        dequantize: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        let names = Names::from(name)?;
        let tensors =
            objects::read(py, &self.file()?, &names.texts()?, copy, quantized::precision(dequantize)?)?;
        names.answer(py, tensors)
    }

    /// Reads one dense tensor as a NumPy array, or a list of tensors as a dict of arrays.
    ///
    /// dequantize: True or a dtype gives ggml blocks as the numbers they stand for; otherwise they are refused, or, with objects=True, given as
    /// ztensor.Tensor like everything else that is not one array.
    #[pyo3(signature = (name, *, copy=false, dequantize=None, objects=false))]
    fn read_numpy<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        copy: bool,
        dequantize: Option<&Bound<'py, PyAny>>,
        objects: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        let names = Names::from(name)?;
        let how = How { copy, dequantize: quantized::precision(dequantize)?, objects };
        let arrays = arrays::numpy_arrays(py, &self.file()?, &names.texts()?, how)?;
        names.answer(py, arrays)
    }

    /// The same as read_numpy of a list.
    #[pyo3(signature = (names, *, copy=false))]
    fn read_tensors<'py>(&self, names: &Bound<'py, PyAny>, copy: bool) -> PyResult<Bound<'py, PyAny>> {
        if names.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("names must be a list of str"));
        }
        self.read_numpy(names, copy, None, false)
    }

    /// Reads one tensor as a torch.Tensor, or a list of tensors as a dict of them. device is what torch.device takes, or a GPU's number.
    ///
    /// dequantize: True or a dtype gives ggml blocks as the numbers they stand for; otherwise they are refused, or, with objects=True, given as
    /// ztensor.Tensor like everything else that PyTorch has no tensor for.
    #[pyo3(
        signature = (name, *, copy=false, device=None, dequantize=None, objects=false),
        text_signature = "($self, name, *, copy=False, device='cpu', dequantize=None, objects=False)"
    )]
    fn read_torch<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        copy: bool,
        device: Option<&Bound<'py, PyAny>>,
        dequantize: Option<&Bound<'py, PyAny>>,
        objects: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        let names = Names::from(name)?;
        let torch = Torch::new(py, device)?;
        let how = How { copy, dequantize: quantized::precision(dequantize)?, objects };
        let tensors = arrays::torch_tensors(py, &torch, &self.file()?, &names.texts()?, how)?;
        names.answer(py, tensors)
    }

    /// Reads a part of a dense tensor as a NumPy array: slices is what one would write between the brackets of array[...].
    #[pyo3(signature = (name, slices, *, dequantize=None))]
    fn read_slice<'py>(
        &self,
        name: &str,
        slices: &Bound<'py, PyAny>,
        dequantize: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        arrays::numpy_slice(&self.file()?, name, slices, quantized::precision(dequantize)?)
    }

    /// Reads regions of dense tensors into PyTorch tensors: each is a name, the first element and the number of elements in each dimension, and a
    /// contiguous CPU tensor of just that shape and type.
    fn read_regions(&self, py: Python<'_>, regions: Vec<regions::Region<'_>>) -> PyResult<()> {
        regions::fill(py, &self.file()?, &regions)
    }

    /// Copies a tensor into an array or tensor of the same shape and type, on any device; or, given a dict, each tensor into its own.
    ///
    /// cast=True converts elements to the destination's type; otherwise another type is an error.
    #[pyo3(signature = (name, dst=None, *, cast=false, dequantize=None))]
    fn read_into<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        dst: Option<Bound<'py, PyAny>>,
        cast: bool,
        dequantize: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let file = self.file()?;
        let conversion = Conversion { cast, dequantize: quantized::precision(dequantize)? };
        if let Ok(targets) = name.cast::<PyDict>() {
            if dst.is_some() {
                return Err(PyTypeError::new_err("a dict names the destinations; dst is for a single name"));
            }
            let names: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)> = targets
                .iter()
                .map(|(name, target)| Ok((name.cast_into::<PyString>()?, target)))
                .collect::<PyResult<_>>()?;
            let targets: Vec<(&str, Bound<'py, PyAny>)> = names
                .iter()
                .map(|(name, target)| Ok((name.to_str()?, target.clone())))
                .collect::<PyResult<_>>()?;
            return destinations::fill(name.py(), &file, &targets, conversion);
        }
        let text = name.cast::<PyString>()?;
        let dst = dst.ok_or_else(|| PyTypeError::new_err("dst is needed when name is a str"))?;
        destinations::fill(name.py(), &file, &[(text.to_str()?, dst)], conversion)
    }

    /// The tensors in the order of keys(), each as a ztensor.Tensor that is read when it is first used.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let file = self.file()?;
        file.names().map(|name| objects::lazy(py, &file, name)).collect()
    }

    /// Names and tensors, as keys() and values() have them.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let file = self.file()?;
        file.names().map(|name| Ok((name.to_owned(), objects::lazy(py, &file, name)?))).collect()
    }

    /// The tensor of a name, or the default where there is none.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.__contains__(name)? { self.__getitem__(name).map(Some) } else { Ok(default) }
    }

    /// Closes the reader. Tensors that were read stay valid.
    pub(crate) fn close(&self) {
        self.file.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __getitem__<'py>(&self, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let name = name.cast::<PyString>().map_err(|_| PyTypeError::new_err("tensor names are str"))?;
        objects::lazy(name.py(), &self.file()?, name.to_str()?)
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        match name.cast::<PyString>() {
            Ok(name) => Ok(self.file()?.contains(name.to_str()?)),
            Err(_) => Ok(false),
        }
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.file()?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        match &*file {
            Some(file) => format!("<ztensor.Reader [{}, {} tensor(s)]>", file.format(), file.len()),
            None => "<ztensor.Reader [closed]>".to_owned(),
        }
    }
}

/// Where bases are looked for: a path, a Reader, or several of them.
pub(crate) fn candidates(base: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Candidate>> {
    let Some(base) = base else { return Ok(Vec::new()) };
    if let Ok(one) = candidate(base) {
        return Ok(vec![one]);
    }
    let several = base.try_iter().map_err(|_| neither())?;
    several.map(|one| candidate(&one?)).collect()
}

fn candidate(base: &Bound<'_, PyAny>) -> PyResult<Candidate> {
    if let Ok(reader) = base.cast::<Reader>() {
        return reader.get().file().map(Candidate::from);
    }
    base.extract::<PathBuf>().map(Candidate::from).map_err(|_| neither())
}

fn neither() -> PyErr {
    argument("base is neither a path nor a Reader, nor a list of them")
}
