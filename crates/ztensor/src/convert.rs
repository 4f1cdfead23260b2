//! From any readable file to `.zt`, `.safetensors` or `.pt`: tensors in file order, a window of them decoded side by side, bytes that several tensors share
//! written once, metadata carried over.

mod kind;
#[cfg(feature = "pytorch")]
mod pytorch;
mod trees;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use rayon::prelude::*;

pub use kind::FileKind;
#[cfg(feature = "pytorch")]
pub use pytorch::selected_to_pytorch;
pub use trees::{carried_tree, metadata_outside, unmentioned};

pub use crate::tensor::text_of;

use crate::error::{Error, Result};
use crate::index::{Component, Object, Span};
use crate::reader::{ComponentData, Reader, TensorData};
use crate::tensor::{Attributes, Compressed, DType, ElementType, Layout, Value};
use crate::tree::{self, Tree};
use crate::zt::{Checksum, Compression, TensorInput, Version, Writer};

/// Decoded bytes held in memory at a time.
const WINDOW: u64 = 256 << 20;

/// How tensors are stored in a `.zt` file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storage {
    /// How the bytes are stored.
    pub compression: Compression,
    /// Which checksum is stored with them.
    pub checksum: Checksum,
    /// Turn ggml blocks into dense elements on the way.
    pub dequantize: Option<Precision>,
    /// Turn floating-point elements into these (F64, F32, F16 or BF16), rounded to the nearest.
    pub dtype: Option<DType>,
}

/// Which tensors to take, under which names, in the order in which they are read.
pub type Selection<'a> = [(&'a str, Cow<'a, str>)];

/// All tensors of a file under their own names.
pub fn everything(reader: &Reader) -> Vec<(&str, Cow<'_, str>)> {
    file_order(reader).into_iter().map(|(name, _)| (name, Cow::Borrowed(name))).collect()
}

/// What dequantised elements become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Precision {
    F32,
    F16,
    BF16,
}

impl Precision {
    /// The element type.
    pub fn dtype(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::F16 => DType::F16,
            Precision::BF16 => DType::BF16,
        }
    }
}

/// Reads a tensor; blocks become dense elements where that is asked for and their type has values.
fn read_as_asked<'a>(reader: &'a Reader, name: &str, storage: Storage) -> Result<TensorData<'a>> {
    #[cfg(feature = "gguf")]
    if let Some(precision) = storage.dequantize
        && crate::formats::gguf::BlockType::of(&reader.object(name)?.layout).is_some()
    {
        let bytes = match precision {
            Precision::F32 => bytemuck::allocation::pod_collect_to_vec(&reader.dequantize_as::<f32>(name)?),
            Precision::F16 => {
                bytemuck::allocation::pod_collect_to_vec(&reader.dequantize_as::<half::f16>(name)?)
            }
            Precision::BF16 => {
                bytemuck::allocation::pod_collect_to_vec(&reader.dequantize_as::<half::bf16>(name)?)
            }
        };
        let component = ComponentData { element: precision.dtype().into(), bytes: Cow::Owned(bytes) };
        let mut tensor = TensorData {
            shape: reader.object(name)?.shape.clone(),
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: vec![("data".to_owned(), component)],
        };
        cast_tensor(&mut tensor, storage.dtype)?;
        return Ok(tensor);
    }
    let mut tensor = reader.read_object(name)?;
    cast_tensor(&mut tensor, storage.dtype)?;
    Ok(tensor)
}

/// Turns the floating-point values of a tensor into another type.
fn cast_tensor(tensor: &mut TensorData<'_>, target: Option<DType>) -> Result<()> {
    let Some(target) = target else { return Ok(()) };
    for (role, component) in &mut tensor.components {
        if is_cast(&component.element, role, &tensor.layout, target) {
            component.bytes = Cow::Owned(cast(&component.bytes, component.element.storage, target)?);
            component.element = target.into();
        }
    }
    Ok(())
}

/// Whether a component holds floating-point values of another type than the wanted one.
fn is_cast(element: &ElementType, role: &str, layout: &Layout, target: DType) -> bool {
    let sparse = *layout == Layout::SparseCoo || Compressed::of(layout).is_some();
    let values = (*layout == Layout::Dense && role == "data") || (sparse && role == "values");
    values && element.logical.is_none() && is_float(element.storage) && element.storage != target
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

/// Adds every tensor of a file to a writer. `progress` is told the bytes of tensors that are done, and of the parts of large ones.
pub fn copy_into(
    writer: &mut Writer,
    reader: &Reader,
    storage: Storage,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    for (key, value) in reader.attributes() {
        writer.set_attribute(key.clone(), value.clone());
    }
    copy_tensors(writer, reader, &everything(reader), storage, progress)
}

/// Adds some tensors of a file to a writer, under other names where asked, with the file's metadata and a tree. `progress` is told the bytes as
/// [`copy_into`] tells them.
pub fn copy_selected(
    writer: &mut Writer,
    reader: &Reader,
    selection: &Selection<'_>,
    tree: Option<&Tree>,
    storage: Storage,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    for (key, value) in reader.attributes().iter().filter(|(key, _)| *key != tree::KEY) {
        writer.set_attribute(key.clone(), value.clone());
    }
    if let Some(tree) = tree {
        writer.set_attribute(tree::KEY.to_owned(), Value::from(tree.text()));
    }
    copy_tensors(writer, reader, selection, storage, progress)
}

fn copy_tensors(
    writer: &mut Writer,
    reader: &Reader,
    selection: &Selection<'_>,
    storage: Storage,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut tied: HashMap<TieKey, String> = HashMap::new();
    let mut order = selection
        .iter()
        .map(|(name, new)| Ok((*name, new.as_ref(), reader.object(name)?)))
        .collect::<Result<Vec<_>>>()?;
    if writer.version() == Version::Two {
        // Canonical files are sorted by name.
        order.sort_by_key(|(_, new, _)| *new);
    }
    let mut rest = &order[..];
    while !rest.is_empty() {
        let (window, later) = rest.split_at(window_length(rest));
        let decoded: Vec<_> = window
            .par_iter()
            .map(|(name, _, _)| read_as_asked(reader, name, storage))
            .collect::<Result<_>>()?;
        let mut batch: Vec<(&str, TensorInput<'_>)> = Vec::new();
        let mut links: Vec<(&str, String)> = Vec::new();
        for ((_, name, object), data) in window.iter().zip(&decoded) {
            if let Some(key) = tie_key(object) {
                if let Some(first) = tied.get(&key) {
                    links.push((name, first.clone()));
                    continue;
                }
                tied.insert(key, (*name).to_owned());
            }
            let components = data.components.iter();
            batch.push((
                name,
                TensorInput {
                    shape: data.shape.clone(),
                    layout: data.layout.clone(),
                    attributes: data.attributes.clone(),
                    components: components
                        .map(|(role, c)| (Cow::Borrowed(role.as_str()), c.element.clone(), &*c.bytes))
                        .collect(),
                },
            ));
        }
        let total: u64 = window.iter().map(|(_, _, object)| object.decoded_length()).sum();
        let mut told = 0;
        let mut tell = |bytes: u64| {
            let bytes = bytes.min(total - told);
            told += bytes;
            progress(bytes);
        };
        match &batch[..] {
            // A large tensor is alone in its window.
            [(name, tensor)] => {
                writer.write_watched(name, tensor, storage.compression, storage.checksum, &mut tell)?;
            }
            _ => writer.write_batch(&batch, storage.compression, storage.checksum)?,
        }
        links.iter().try_for_each(|(name, first)| writer.add_tied(name, first))?;
        tell(u64::MAX);
        rest = later;
    }
    Ok(())
}

/// Writes a file as safetensors. Layouts it cannot hold are refused by name.
#[cfg(feature = "safetensors")]
pub fn to_safetensors(
    reader: &Reader,
    names: &[&str],
    path: &Path,
    dequantize: Option<Precision>,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let selection: Vec<_> = names.iter().map(|name| (*name, Cow::Borrowed(*name))).collect();
    let storage = Storage { dequantize, ..Storage::default() };
    let tree = if reader.attributes().contains_key(tree::KEY) { reader.tree()? } else { None };
    selected_to_safetensors(reader, &selection, tree.as_ref(), path, storage, progress)
}

/// Writes some tensors of a file as safetensors, under other names where asked. Compression and checksums are not its to give.
#[cfg(feature = "safetensors")]
pub fn selected_to_safetensors(
    reader: &Reader,
    selection: &Selection<'_>,
    tree: Option<&Tree>,
    path: &Path,
    storage: Storage,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let attributes = reader.attributes().iter().filter(|(key, _)| *key != tree::KEY);
    let mut metadata: Vec<(String, String)> =
        attributes.map(|(key, value)| (key.clone(), text_of(value))).collect();
    metadata.extend(tree.map(|tree| (tree::KEY.to_owned(), tree.text())));
    let metadata = (tree.is_some() || reader.states_attributes()).then_some(metadata.as_slice());
    safetensors_with_metadata(reader, selection, path, storage, metadata, progress)
}

/// Writes some tensors of a file as safetensors with metadata of its own.
#[cfg(feature = "safetensors")]
pub fn safetensors_with_metadata(
    reader: &Reader,
    selection: &Selection<'_>,
    path: &Path,
    storage: Storage,
    metadata: Option<&[(String, String)]>,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    use crate::formats::safetensors::{WriteEntry, check_layout, write};

    let mut entries = Vec::with_capacity(selection.len());
    for (name, new) in selection {
        let object = reader.object(name)?;
        let (element, length) = match (blocks_of(object), storage.dequantize) {
            (true, Some(precision)) => {
                let element = ElementType::plain(storage.dtype.unwrap_or(precision.dtype()));
                let length = object.shape.elements().and_then(|count| element.byte_length(count));
                (element, length.ok_or_else(|| Error::malformed("the shape overflows").with_tensor(name))?)
            }
            _ => {
                check_layout(name, &object.layout)?;
                let component = object
                    .component("data")
                    .ok_or_else(|| Error::malformed("a dense tensor without data").with_tensor(name))?;
                match storage.dtype {
                    Some(target) if is_cast(&component.element, "data", &object.layout, target) => {
                        let count = component.length / component.element.storage.width() as u64;
                        (ElementType::plain(target), count.saturating_mul(target.width() as u64))
                    }
                    _ => (component.element.clone(), component.length),
                }
            }
        };
        entries.push(WriteEntry { name: new, element, shape: object.shape.clone(), length });
    }
    let old: HashMap<&str, &str> = selection.iter().map(|(name, new)| (new.as_ref(), *name)).collect();
    write(path, entries, metadata, |name| {
        let mut tensor = read_as_asked(reader, old.get(name).copied().unwrap_or(name), storage)?;
        let bytes = tensor.components.pop().map(|(_, component)| component.bytes).unwrap_or_default();
        progress(bytes.len() as u64);
        Ok(bytes)
    })
}

/// Floating-point elements as those of another type, rounded to the nearest, ties to even; from F64 to the short types by way of F32, as PyTorch
/// has it.
pub fn cast(bytes: &[u8], from: DType, to: DType) -> Result<Vec<u8>> {
    /// Elements that are worth a thread.
    const PIECE: usize = 1 << 16;
    if !is_float(from) || !is_float(to) {
        return Err(Error::argument(format!(
            "{} and {} are not both floats",
            from.long_name(),
            to.long_name()
        )));
    }
    let (narrow, wide) = (from.width(), to.width());
    let mut out = vec![0; bytes.len() / narrow * wide];
    out.par_chunks_mut(PIECE * wide).zip(bytes.par_chunks(PIECE * narrow)).for_each(|(out, bytes)| {
        if (from, to) == (DType::F64, DType::F64) {
            out.copy_from_slice(bytes);
            return;
        }
        if (from, to) == (DType::F64, DType::F32) || to != DType::F64 {
            let singles = singles(bytes, from);
            match to {
                DType::F16 => put(out, singles.iter().map(|value| half::f16::from_f32(*value).to_le_bytes())),
                DType::BF16 => {
                    put(out, singles.iter().map(|value| half::bf16::from_f32(*value).to_le_bytes()))
                }
                _ => put(out, singles.iter().map(|value| value.to_le_bytes())),
            }
        } else {
            put(out, singles(bytes, from).iter().map(|value| f64::from(*value).to_le_bytes()));
        }
    });
    Ok(out)
}

/// Elements of any type as F32.
fn singles(bytes: &[u8], from: DType) -> Vec<f32> {
    match from {
        DType::F64 => bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect(),
        DType::F16 => {
            bytes.as_chunks().0.iter().map(|bytes| half::f16::from_le_bytes(*bytes).to_f32()).collect()
        }
        DType::BF16 => {
            bytes.as_chunks().0.iter().map(|bytes| half::bf16::from_le_bytes(*bytes).to_f32()).collect()
        }
        _ => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
    }
}

fn put<const N: usize>(out: &mut [u8], values: impl Iterator<Item = [u8; N]>) {
    for (place, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
        *place = value;
    }
}

/// Whether a tensor is made of ggml blocks.
fn blocks_of(object: &Object) -> bool {
    matches!(&object.layout, Layout::Other(name) if name.starts_with("gguf."))
}

/// The names of all tensors in the order of their bytes, so that a file is read from front to back.
pub fn file_order(reader: &Reader) -> Vec<(&str, &Object)> {
    let mut order: Vec<_> = reader.objects().collect();
    order.sort_by_key(|(_, object)| object.principal().and_then(|component| component.data.first_span()));
    order
}

fn window_length(objects: &[(&str, &str, &Object)]) -> usize {
    let mut total = 0;
    let fits = |(_, _, object): &&(&str, &str, &Object)| {
        total += object.decoded_length();
        total <= WINDOW
    };
    objects.iter().take_while(fits).count().max(1)
}

/// Two tensors with equal keys have the same bytes, type, shape and attributes-free layout.
type TieKey = (Layout, Vec<u64>, Vec<(String, String, Span)>);

fn tie_key(object: &Object) -> Option<TieKey> {
    let part = |(role, component): &(Cow<'static, str>, Component)| {
        let plain = matches!(component.data.encoding_name(), "raw" | "zstd" | "z4ai" | "deflate");
        let span = component.data.only_span().filter(|span| plain && span.length > 0)?;
        Some((role.to_string(), component.element.to_string(), span))
    };
    if !object.attributes.is_empty() {
        return None;
    }
    let parts = object.components.iter().map(part).collect::<Option<Vec<_>>>()?;
    Some((object.layout.clone(), object.shape.to_vec(), parts))
}
