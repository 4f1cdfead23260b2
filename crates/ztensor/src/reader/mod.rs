//! An opened file: its index and the sources behind it. Everything that hands out tensor bytes goes through
//! here, so that stored checksums are checked once, on first access, whatever the way in.

mod check;
mod data;
#[cfg(feature = "gguf")]
mod dequantize;

pub use data::{ComponentData, TensorData};

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

use crate::encoding::{self, View};
use crate::error::{Error, Hints, Kind, Result};
#[cfg(feature = "pytorch")]
use crate::formats::{Input, pytorch};
use crate::index::{
    ArchiveInfo, Component, Data, Format, Index, Object, Recovered, Skipped, Span, StoredBox,
};
use crate::limits::Limits;
use crate::source::Source;
use crate::source::assembly::Announcement;
use crate::tensor::{Attributes, Element, ElementType, Layout, Shape, Value};
use crate::tree::{self, Tree};

/// An opened model file of any format.
pub struct Reader {
    files: Vec<Arc<Source>>,
    index: Index,
    archived: Option<ArchiveInfo>,
    limits: Limits,
    /// Bytes that all tensors decode to together, those aside that are too large by themselves, and bytes
    /// that stand behind them.
    totals: OnceLock<(u64, u64)>,
    /// Components whose checksum has been found right; `None` when checks are switched off.
    verified: Option<Mutex<HashSet<(usize, usize)>>>,
}

impl Reader {
    pub(crate) fn new(
        files: Vec<Arc<Source>>,
        index: Index,
        archived: Option<ArchiveInfo>,
        limits: Limits,
        verify: bool,
    ) -> Self {
        let verified = verify.then(Mutex::default);
        Reader { files, index, archived, limits, totals: OnceLock::new(), verified }
    }

    /// The detected format.
    pub fn format(&self) -> Format {
        self.index.format
    }

    /// The index: everything that is known without reading tensor data.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The same, opened through an archive.
    pub(crate) fn with_archived(mut self, archived: Option<ArchiveInfo>) -> Reader {
        self.archived = archived;
        self
    }

    /// The index by itself.
    pub(crate) fn into_index(self) -> Index {
        self.index
    }

    /// The files behind the index, by `FileId`.
    pub fn sources(&self) -> &[Arc<Source>] {
        &self.files
    }

    /// Names and descriptions of all tensors.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = (&str, &Object)> {
        self.index.objects.iter().map(|(name, object)| (name.as_str(), object))
    }

    /// The tensor names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.index.objects.keys().map(String::as_str)
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.index.objects.len()
    }

    /// Whether the file has no tensors.
    pub fn is_empty(&self) -> bool {
        self.index.objects.is_empty()
    }

    /// Whether there is a tensor of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.index.objects.contains_key(name)
    }

    /// The file's own metadata.
    pub fn attributes(&self) -> &Attributes {
        &self.index.attributes
    }

    /// The tree of dicts, lists, values and tensors that the file holds: what a pickle is made of, or
    /// what the metadata of a `.zt` or `.safetensors` file say. `None` where there is none.
    pub fn tree(&self) -> Result<Option<Tree>> {
        if let Some(text) = self.index.attributes.get(tree::KEY).and_then(Value::as_text) {
            return Tree::parse(text).map(Some);
        }
        match (self.index.format, self.files.as_slice()) {
            #[cfg(feature = "pytorch")]
            (Format::Pytorch, [file]) => {
                let files = vec![(String::new(), Arc::clone(file))];
                let mut input = Input::of_files(files, self.limits.clone())?;
                let tree = pytorch::tree(&mut input)?;
                // A module that was pickled whole, or a program: there is nothing that would hold the tensors
                // together.
                Ok(tree.filter(|tree| !matches!(tree, Tree::Unread(_))))
            }
            _ => Ok(None),
        }
    }

    /// Whether the file states metadata of its own. That may be empty in a safetensors file, which tells an
    /// empty map from none.
    pub fn states_attributes(&self) -> bool {
        self.index.states_attributes || !self.index.attributes.is_empty()
    }

    /// What the archive says, where the file was opened through one.
    pub fn archived(&self) -> Option<&ArchiveInfo> {
        self.archived.as_ref()
    }

    /// Bytes that a tensor takes in the file; in an archive, those of its compressed pieces.
    pub fn stored_length(&self, name: &str) -> Result<u64> {
        let object = self.object(name)?;
        let in_file = |span: Span| match self.files.get(span.file.0 as usize) {
            Some(file) => file.stored_length(span.offset, span.length),
            None => span.length,
        };
        let stored = |component: &Component| match (component.data.only_span(), &component.data) {
            (Some(span), _) => in_file(span),
            (None, data @ Data::Boxes(_)) => {
                let mut length = 0u64;
                data.for_each_span(&mut |span| length = length.saturating_add(in_file(span)));
                length
            }
            (None, data) => data.stored_length(),
        };
        Ok(object.components.iter().map(|(_, component)| stored(component)).fold(0, u64::saturating_add))
    }

    /// How a tensor's values are stored, in one word: `raw`, `zstd`, `z4ai`, …; in an archive, how its piece
    /// is, and in a delta `delta`, or `in the base` where nothing changed.
    pub fn stored_encoding(&self, name: &str) -> Result<&'static str> {
        let Some(component) = self.object(name)?.principal() else { return Ok("raw") };
        let assembled = component
            .data
            .first_span()
            .and_then(|span| self.files.get(span.file.0 as usize)?.encoding(span.offset));
        Ok(match (component.data.encoding_name(), assembled) {
            ("raw", Some(inner)) => inner,
            (outer, _) => outer,
        })
    }

    /// How a tensor of an archive or a delta is computed from others, in a few words, if it is.
    pub fn stored_recipe(&self, name: &str) -> Result<Option<String>> {
        let span = self.object(name)?.principal().and_then(|component| component.data.first_span());
        Ok(span.and_then(|span| self.files.get(span.file.0 as usize)?.recipe(span.offset)))
    }

    /// A tensor's dimensions.
    pub fn shape(&self, name: &str) -> Result<&Shape> {
        Ok(&self.object(name)?.shape)
    }

    /// What a tensor's elements are, under the name that its users know: `float32`, `bfloat16`, `Q4_K`.
    ///
    /// ```
    /// # fn main() -> ztensor::Result<()> {
    /// # let folder = tempfile::tempdir()?; let path = folder.path().join("model.zt");
    /// # let mut writer = ztensor::Writer::create(&path)?; writer.add("weight", &[2, 2], &[1f32, 2.0, 3.0, 4.0])?; writer.finish()?;
    /// let reader = ztensor::open(&path)?;
    /// for name in reader.names() {
    ///     println!("{name} {} {}", reader.dtype(name)?, reader.shape(name)?); // weight float32 [2, 2]
    /// }
    /// # assert_eq!(reader.dtype("weight")?, "float32");
    /// # Ok(())
    /// # }
    /// ```
    pub fn dtype(&self, name: &str) -> Result<String> {
        Ok(self.object(name)?.dtype())
    }

    /// How a tensor is laid out: dense, sparse, or in blocks.
    pub fn layout(&self, name: &str) -> Result<&Layout> {
        Ok(&self.object(name)?.layout)
    }

    /// What the file holds but this library does not read, with reasons.
    pub fn skipped(&self) -> &[Skipped] {
        &self.index.skipped
    }

    /// What is not finished, where a write to the file was interrupted or is going on: the file was then
    /// opened in its last complete state.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.index.recovered.as_ref()
    }

    /// The description of one tensor.
    pub fn object(&self, name: &str) -> Result<&Object> {
        self.find(name).map(|(_, object)| object)
    }

    /// One component's elements: borrowed where they lie plainly in memory, decoded otherwise.
    pub fn component_bytes(&self, name: &str, role: &str) -> Result<Cow<'_, [u8]>> {
        self.with_component(name, role, |position, component| {
            if !encoding::is_lent(&self.files, component) {
                self.check_decoded(component)?;
            }
            self.verify_stored(position, component)?;
            let bytes = encoding::bytes(&self.files, component)?;
            self.verify(position, component, Some(&bytes))?;
            Ok(bytes)
        })
    }

    /// Borrows one component without copying; `None` where it has to be decoded.
    pub fn component_view(&self, name: &str, role: &str) -> Result<Option<View<'_>>> {
        self.with_component(name, role, |position, component| {
            let view = encoding::view(&self.files, component);
            if let Some(View { bytes, strides }) = view {
                self.verify(position, component, strides.is_none().then_some(bytes))?;
            }
            Ok(view)
        })
    }

    /// Checks one component as [`Reader::component_view`] does; before [`Source::lend_map`] has given its
    /// memory away, there: its pages are then in place when views of it are used.
    pub fn check_view(&self, name: &str, role: &str) -> Result<()> {
        self.with_component(name, role, |position, component| {
            let in_views = |bytes: &[u8]| self.verify(position, component, Some(bytes));
            if let Some(checked) = encoding::look_at_view(&self.files, component, in_views) {
                return checked;
            }
            let bytes = encoding::view(&self.files, component).filter(|view| view.strides.is_none());
            self.verify(position, component, bytes.map(|view| view.bytes))
        })
    }

    /// Decodes one component into a buffer of exactly its length.
    pub fn component_into(&self, name: &str, role: &str, out: &mut [u8]) -> Result<()> {
        self.with_component(name, role, |position, component| {
            self.check_decoded(component)?;
            self.verify_stored(position, component)?;
            encoding::read_into(&self.files, component, out)?;
            self.verify(position, component, Some(out))
        })
    }

    /// Decodes a part of one component: the bytes from `start` on, as many as the buffer takes.
    pub fn component_range_into(&self, name: &str, role: &str, start: u64, out: &mut [u8]) -> Result<()> {
        self.with_component(name, role, |position, component| {
            self.check_decoded(component)?;
            self.verify(position, component, None)?;
            encoding::range_into(&self.files, component, start, out)
        })
    }

    /// Decodes a region of a dense tensor: `lengths` elements in each dimension from `starts` on, row-major,
    /// into a buffer of exactly their length. Only what the region touches is read, as far as the encoding
    /// allows it.
    pub fn region_into(&self, name: &str, starts: &[u64], lengths: &[u64], out: &mut [u8]) -> Result<()> {
        self.dense(name)?;
        let shape = self.object(name)?.shape.clone();
        self.with_component(name, "data", |position, component| {
            let inside = starts.len() == shape.len()
                && lengths.len() == shape.len()
                && (starts.iter().zip(lengths).zip(shape.iter()))
                    .all(|((start, length), all)| start.checked_add(*length).is_some_and(|end| end <= *all));
            if !inside {
                let what = format!("the region of {lengths:?} at {starts:?} is not inside {shape}");
                return Err(Error::argument(what));
            }
            let width = component.element.bits().filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
            let width = width
                .ok_or_else(|| Error::unsupported(format!("regions of {} elements", component.element)))?;
            let needed = lengths.iter().product::<u64>() * width;
            if out.len() as u64 != needed {
                let what = format!("the destination has {} bytes, the region has {needed}", out.len());
                return Err(Error::mismatch(what));
            }
            self.check_decoded(component)?;
            self.verify(position, component, None)?;
            if let Data::Boxes(boxes) = &component.data {
                let all: Vec<&StoredBox> = boxes.boxes.iter().collect();
                return encoding::region_into(&self.files, &all, width, starts, lengths, out);
            }
            let offsets = Shape::new(vec![0; shape.len()]);
            let whole = StoredBox { offsets, sizes: shape.clone(), component: component.clone() };
            encoding::region_into(&self.files, &[&whole], width, starts, lengths, out)
        })
    }

    /// Says which components will be read, about in this order: files that are fetched over a network are
    /// then downloaded ahead, within bounded memory, while others are decoded. Files on disk need no such
    /// word.
    pub fn announce<'a>(&self, components: impl IntoIterator<Item = &'a Component>) {
        if !self.is_remote() {
            return;
        }
        let mut announcement = Announcement::default();
        components.into_iter().for_each(|component| self.add_spans(component, &mut announcement));
        announcement.send();
    }

    /// Whether bytes of the file, or of what it is made from, come over a network.
    pub fn is_remote(&self) -> bool {
        self.files.iter().any(|file| file.is_remote())
    }

    pub(crate) fn announce_component(&self, name: &str, role: &str, announcement: &mut Announcement) {
        let component = self.index.objects.get(name).and_then(|object| object.component(role));
        if let Some(component) = component {
            self.add_spans(component, announcement);
        }
    }

    fn add_spans(&self, component: &Component, announcement: &mut Announcement) {
        component.data.for_each_span(&mut |span| {
            if let Some(file) = self.files.get(span.file.0 as usize) {
                announcement.add(file, span.offset..span.offset + span.length);
            }
        });
    }

    /// The bytes of a dense tensor: little-endian, row-major.
    pub fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        self.dense(name)?;
        self.component_bytes(name, "data")
    }

    /// Copies a dense tensor's bytes into a buffer of exactly their length.
    pub fn read_into(&self, name: &str, out: &mut [u8]) -> Result<()> {
        self.dense(name)?;
        self.component_into(name, "data", out)
    }

    /// Borrows a dense tensor as a slice of elements, without copying.
    pub fn view_as<T: Element>(&self, name: &str) -> Result<&[T]> {
        self.typed::<T>(name)?;
        let error = |reason: &str| {
            Error::mismatch(format!("cannot borrow this tensor: {reason}"))
                .with_tensor(name)
                .with_hint("Use read_as for a copy.")
        };
        match self.component_view(name, "data")? {
            Some(View { bytes, strides: None }) => bytemuck::try_cast_slice(bytes)
                .map_err(|_| error("its bytes are not aligned for the element type")),
            Some(_) => Err(error("it is stored with strides")),
            None => Err(error("it is stored encoded")),
        }
    }

    /// Reads a dense tensor as elements.
    pub fn read_as<T: Element>(&self, name: &str) -> Result<Vec<T>> {
        let length = self.typed::<T>(name)?.length;
        self.check_proportion(name, "data")?;
        let count = usize::try_from(length).unwrap_or(usize::MAX) / size_of::<T>();
        let mut elements: Vec<T> = bytemuck::allocation::try_zeroed_vec(count)
            .map_err(|()| Error::new(Kind::Limit, format!("not enough memory for {length} bytes")))?;
        self.component_into(name, "data", bytemuck::cast_slice_mut(&mut elements))?;
        Ok(elements)
    }

    /// Reads a tensor of any layout with all its components, borrowing what lies plainly in memory.
    pub fn read_object(&self, name: &str) -> Result<TensorData<'_>> {
        let (_, object) = self.find(name)?;
        self.check_sparse(name)?;
        let mut components = Vec::with_capacity(object.components.len());
        for (role, component) in &object.components {
            let bytes = self.component_bytes(name, role)?;
            components.push((role.to_string(), ComponentData { element: component.element.clone(), bytes }));
        }
        Ok(TensorData {
            shape: object.shape.clone(),
            layout: object.layout.clone(),
            attributes: object.attributes.clone(),
            components,
        })
    }

    fn find(&self, name: &str) -> Result<(usize, &Object)> {
        match self.index.objects.get_full(name) {
            Some((position, _, object)) => Ok((position, object)),
            None => Err(self.no_such(name)),
        }
    }

    fn no_such(&self, name: &str) -> Error {
        if let Some(skipped) = self.index.skipped.iter().find(|skipped| skipped.name == name) {
            return Error::unsupported(format!("the file holds it, but it is not read: {}", skipped.reason))
                .with_tensor(name);
        }
        Error::new(Kind::NoSuchTensor, format!("the file has no tensor \"{name}\"")).with_hints(Hints::new(
            "`Reader::names` lists the names.",
            "List the names with keys().",
            "`ztensor info` lists the names.",
        ))
    }

    fn with_component<'a, R>(
        &'a self,
        name: &str,
        role: &str,
        action: impl FnOnce((usize, usize), &'a Component) -> Result<R>,
    ) -> Result<R> {
        let (position, object) = self.find(name)?;
        let found = object.components.iter().position(|(known, _)| known == role);
        let number = found.ok_or_else(|| {
            Error::new(
                Kind::NoSuchTensor,
                format!("there is no component \"{role}\" in a {} tensor", object.layout),
            )
            .with_tensor(name)
        })?;
        action((position, number), &object.components[number].1).map_err(|error| error.with_tensor(name))
    }

    fn dense(&self, name: &str) -> Result<&Component> {
        let object = self.object(name)?;
        match object.layout {
            Layout::Dense => object
                .component("data")
                .ok_or_else(|| Error::malformed("a dense tensor without data").with_tensor(name)),
            _ => Err(Error::mismatch(format!("this is a {} tensor, not a dense one", object.layout))
                .with_tensor(name)
                .with_hints(Hints::new(
                    "Use `Reader::read_object` for its components.",
                    "Use Reader.read for its components.",
                    "`ztensor cat --component` writes one of its components.",
                ))),
        }
    }

    fn typed<T: Element>(&self, name: &str) -> Result<&Component> {
        let component = self.dense(name)?;
        if component.element != ElementType::plain(T::DTYPE) {
            return Err(Error::mismatch(format!("the tensor holds {}, not {}", component.element, T::DTYPE))
                .with_tensor(name));
        }
        Ok(component)
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("format", &self.format())
            .field("tensors", &self.len())
            .field("files", &self.files)
            .finish()
    }
}
