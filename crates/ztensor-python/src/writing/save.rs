//! Whole dictionaries of tensors into a file or into bytes, in one call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use ztensor::convert::FileKind;
use ztensor::formats::{pytorch, safetensors};
use ztensor::tree::Tree;
use ztensor::{Attributes, Checksum, Compression, Error, Kind, Source, TensorInput, Value, Writer};

use crate::attributes;
use crate::errors::{OrRaise, argument, to_python};
use crate::work::{Progress, Work};
use crate::writing::incoming::Incoming;
use crate::writing::storage::Words;

/// Bytes to write before Python may handle signals, so that Ctrl-C is not ignored for long.
const BATCH: usize = 256 << 20;

/// Writes NumPy arrays, PyTorch tensors and ztensor.Tensors to a file: .safetensors or .pt when the path ends so, .zt otherwise.
#[pyfunction]
#[pyo3(signature = (tensors, path, metadata=None, compression=None, *, codec=None, effort=None, level=None, checksum=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub(crate) fn save_file(
    tensors: &Bound<'_, PyDict>,
    path: PathBuf,
    metadata: Option<&Bound<'_, PyDict>>,
    compression: Option<&Bound<'_, PyAny>>,
    codec: Option<&str>,
    effort: Option<&str>,
    level: Option<i32>,
    checksum: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let py = tensors.py();
    let words = Words { codec, effort, level, checksum, alias: ("compression", compression) };
    let (compression, checksum) = (words.compression()?, words.checksum()?);
    let metadata = metadata.map(attributes::from_dict).transpose()?;
    let kind = FileKind::of(&path).or_raise()?;
    let incoming = collect(tensors)?;
    let progress = Progress::new(progress, incoming.iter().map(|tensor| tensor.byte_length() as u64).sum());
    if kind != FileKind::Zt {
        let extension = kind.extension();
        if compression != Compression::None {
            return Err(argument(format!("a {extension} file cannot be compressed; name it .zt")));
        }
        if checksum != Checksum::None {
            return Err(argument(format!("a {extension} file holds no checksums; name it .zt")));
        }
    }
    if kind == FileKind::Pytorch {
        let tree = tree_only(metadata.unwrap_or_default())?;
        return py.interruptible(progress, |advance| write_pytorch(&path, &incoming, tree.as_ref(), advance));
    }
    if kind == FileKind::Safetensors {
        let metadata = metadata.as_ref().map(text_only).transpose()?;
        incoming.iter().try_for_each(Incoming::check_plain)?;
        return py.interruptible(progress, |advance| {
            write_safetensors(&path, &incoming, metadata.as_deref(), advance)
        });
    }
    let mut writer = py.work(|| Writer::create(path)).or_raise()?;
    fill(py, &mut writer, &incoming, metadata.unwrap_or_default(), (compression, checksum), progress)?;
    py.work(|| writer.finish()).or_raise().map(drop)
}

/// Writes NumPy arrays, PyTorch tensors and ztensor.Tensors as the bytes of a .zt file.
#[pyfunction]
#[pyo3(signature = (tensors, metadata=None, compression=None, *, codec=None, effort=None, level=None, checksum=None))]
pub(crate) fn save<'py>(
    tensors: &Bound<'py, PyDict>,
    metadata: Option<&Bound<'_, PyDict>>,
    compression: Option<&Bound<'_, PyAny>>,
    codec: Option<&str>,
    effort: Option<&str>,
    level: Option<i32>,
    checksum: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = tensors.py();
    let words = Words { codec, effort, level, checksum, alias: ("compression", compression) };
    let storage = (words.compression()?, words.checksum()?);
    let metadata = metadata.map(attributes::from_dict).transpose()?.unwrap_or_default();
    let incoming = collect(tensors)?;
    let mut writer = Writer::in_memory().or_raise()?;
    fill(py, &mut writer, &incoming, metadata, storage, Progress::default())?;
    let bytes = py.work(|| writer.into_bytes()).or_raise()?;
    Ok(PyBytes::new(py, &bytes))
}

pub(crate) fn collect(tensors: &Bound<'_, PyDict>) -> PyResult<Vec<Incoming>> {
    let mut incoming = Vec::with_capacity(tensors.len());
    for (name, value) in tensors {
        let name = name.cast::<PyString>().map_err(|_| argument("tensor names must be str"))?;
        incoming.push(Incoming::any(name.to_str()?, &value)?);
    }
    Ok(incoming)
}

pub(crate) fn fill(
    py: Python<'_>,
    writer: &mut Writer,
    incoming: &[Incoming],
    metadata: Attributes,
    (compression, checksum): (Compression, Checksum),
    mut progress: Progress,
) -> PyResult<()> {
    metadata.into_iter().for_each(|(key, value)| writer.set_attribute(key, value));
    let mut rest = incoming;
    while !rest.is_empty() {
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len() && (count == 0 || bytes < BATCH) {
            bytes += rest[count].byte_length();
            count += 1;
        }
        let (batch, later) = rest.split_at(count);
        py.work(|| {
            let inputs: Vec<(&str, TensorInput<'_>)> =
                batch.iter().map(|tensor| (tensor.name.as_str(), tensor.input())).collect();
            writer.write_batch(&inputs, compression, checksum)
        })
        .or_raise()?;
        py.check_signals()?;
        progress.advance(py, bytes as u64)?;
        rest = later;
    }
    Ok(())
}

/// The file that tensors make and its extension: .safetensors over their own memory, or .zt for what .safetensors cannot say.
pub(crate) fn source(tensors: &Bound<'_, PyDict>) -> PyResult<(&'static str, Source)> {
    let incoming = collect(tensors)?;
    let plain = incoming.iter().all(|tensor| tensor.check_plain().is_ok());
    if plain && safetensors::layout(entries(&incoming), None).is_ok() {
        return Ok(("safetensors", safetensors_source(tensors, None)?));
    }
    let py = tensors.py();
    let mut writer = Writer::in_memory().or_raise()?;
    let storage = (Compression::None, Checksum::None);
    fill(py, &mut writer, &incoming, Attributes::new(), storage, Progress::default())?;
    Ok(("zt", Source::from_bytes(py.work(|| writer.into_bytes()).or_raise()?)))
}

/// The .safetensors file that tensors would make, over their own memory.
pub(crate) fn safetensors_source(
    tensors: &Bound<'_, PyDict>,
    metadata: Option<&Bound<'_, PyDict>>,
) -> PyResult<Source> {
    let metadata = metadata.map(attributes::from_dict).transpose()?;
    let (metadata, incoming) = (metadata.as_ref().map(text_only).transpose()?, collect(tensors)?);
    incoming.iter().try_for_each(Incoming::check_plain)?;
    let (front, order) = safetensors::layout(entries(&incoming), metadata.as_deref()).or_raise()?;
    let order: Vec<String> = order.into_iter().map(|entry| entry.name.to_owned()).collect();
    let mut by_name: HashMap<String, Incoming> =
        incoming.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
    let mut parts: Vec<Box<dyn AsRef<[u8]> + Send + Sync>> = vec![Box::new(front)];
    for name in order {
        parts.extend(by_name.remove(&name).map(|tensor| Box::new(tensor) as Box<_>));
    }
    Source::from_parts(parts).or_raise()
}

fn write_safetensors(
    path: &std::path::Path,
    incoming: &[Incoming],
    metadata: Option<&[(String, String)]>,
    advance: &mut dyn FnMut(u64) -> ztensor::Result<()>,
) -> ztensor::Result<()> {
    let mut data = data_of(incoming);
    let read = |name: &str| {
        let bytes = data(name)?;
        advance(bytes.len() as u64)?;
        Ok(bytes)
    };
    safetensors::write(path, entries(incoming), metadata, read).map(drop)
}

fn write_pytorch(
    path: &std::path::Path,
    incoming: &[Incoming],
    tree: Option<&Tree>,
    advance: &mut dyn FnMut(u64) -> ztensor::Result<()>,
) -> ztensor::Result<()> {
    let mut storages = 0..;
    let inputs: Vec<(&str, TensorInput<'_>)> =
        incoming.iter().map(|tensor| (tensor.name.as_str(), tensor.input())).collect();
    let mut data: HashMap<usize, &[u8]> = HashMap::new();
    let mut entries = Vec::with_capacity(inputs.len());
    for (name, input) in &inputs {
        let mut parts = Vec::with_capacity(input.components.len());
        for (role, element, bytes) in &input.components {
            let storage = storages.next().unwrap_or_default();
            data.insert(storage, bytes);
            let (role, length) = (Cow::Borrowed(role.as_ref()), bytes.len() as u64);
            parts.push(pytorch::WritePart { role, element: element.clone(), length, storage });
        }
        entries.push(pytorch::WriteEntry {
            name: Cow::Borrowed(*name),
            shape: input.shape.clone(),
            layout: input.layout.clone(),
            attributes: input.attributes.clone(),
            parts,
        });
    }
    pytorch::write(path, &entries, tree, |_, part| {
        let bytes = data.get(&part.storage).copied().unwrap_or_default();
        advance(bytes.len() as u64)?;
        Ok(Cow::Borrowed(bytes))
    })
    .map(drop)
}

/// The tree among metadata for a .pt file, which has no place for others.
fn tree_only(mut metadata: Attributes) -> PyResult<Option<Tree>> {
    let text = metadata.shift_remove(ztensor::tree::KEY);
    if let Some((key, _)) = metadata.first() {
        let error = Error::argument(format!("a .pt file has no place for metadata such as \"{key}\""))
            .with_hint("Make it a part of the tree, or name the file .zt.");
        return Err(to_python(&error));
    }
    text.as_ref().and_then(Value::as_text).map(Tree::parse).transpose().or_raise()
}

/// What the safetensors writer is told of the tensors.
pub(crate) fn entries<'a>(incoming: &'a [Incoming]) -> Vec<safetensors::WriteEntry<'a>> {
    let entry = |tensor: &'a Incoming| {
        let (element, bytes) = tensor.data()?;
        Some(safetensors::WriteEntry {
            name: &tensor.name,
            element: element.clone(),
            shape: tensor.shape.clone(),
            length: bytes.len() as u64,
        })
    };
    incoming.iter().filter_map(entry).collect()
}

/// The bytes of tensors by name.
fn data_of<'a>(incoming: &'a [Incoming]) -> impl FnMut(&str) -> ztensor::Result<Cow<'a, [u8]>> {
    let data: HashMap<&str, &'a [u8]> =
        incoming.iter().filter_map(|tensor| Some((tensor.name.as_str(), tensor.data()?.1))).collect();
    move |name| match data.get(name) {
        Some(bytes) => Ok(Cow::Borrowed(*bytes)),
        None => Err(Error::new(Kind::NoSuchTensor, format!("no tensor \"{name}\""))),
    }
}

/// Metadata that is text.
pub(crate) fn texts(metadata: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    text_only(&attributes::from_dict(metadata)?)
}

fn text_only(metadata: &Attributes) -> PyResult<Vec<(String, String)>> {
    metadata
        .iter()
        .map(|(key, value)| match value.as_text() {
            Some(text) => Ok((key.clone(), text.to_owned())),
            None => Err(to_python(&Error::argument(format!(
                "safetensors metadata is text only, but \"{key}\" is not text"
            )))),
        })
        .collect()
}
