//! An opened file: its index and the sources behind it. Everything that hands out tensor bytes goes through here, so that stored checksums are
//! checked once, on first access, whatever the way in.

#[cfg(feature = "gguf")]
mod dequantize;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::encoding::{self, View};
use crate::error::{Error, Hints, Kind, Result};
use crate::index::{ArchiveInfo, Component, Format, Index, Object, Recovered, Skipped, Span};
use crate::limits::Limits;
use crate::source::Source;
use crate::source::assembly::Announcement;
use crate::sparse;
use crate::tensor::{Attributes, Element, ElementType, Layout, Shape};

/// An opened model file of any format.
pub struct Reader {
    files: Vec<Arc<Source>>,
    index: Index,
    archived: Option<ArchiveInfo>,
    limits: Limits,
    /// Bytes that all tensors decode to together, those aside that are too large by themselves, and bytes that stand behind them.
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

    /// Whether the file states metadata of its own. That may be empty in a safetensors file, which tells an empty map from none.
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
        let stored = |component: &Component| match component.data.only_span() {
            Some(span) => match self.files.get(span.file.0 as usize) {
                Some(file) => file.stored_length(span.offset, span.length),
                None => span.length,
            },
            None => component.data.stored_length(),
        };
        Ok(object.components.iter().map(|(_, component)| stored(component)).fold(0, u64::saturating_add))
    }

    /// How a tensor's values are stored, in one word: `raw`, `zstd`, `z4ai`, …; in an archive, how its piece is, and in a delta `delta`, or `in the
    /// base` where nothing changed.
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

    /// What is not finished, where a write to the file was interrupted or is going on: the file was then opened in its last complete state.
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

    /// Checks one component as [`Reader::component_view`] does; before [`Source::lend_map`] has given its memory away, there: its pages are then in
    /// place when views of it are used.
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

    /// Says which components will be read, about in this order: files that are fetched over a network are then downloaded ahead, within bounded
    /// memory, while others are decoded. Files on disk need no such word.
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

    /// Refuses a component whose decoding, or that of all tensors of the file, would be out of proportion to what is stored, as every way of reading
    /// does. For those who allocate memory first.
    pub fn check_proportion(&self, name: &str, role: &str) -> Result<()> {
        self.with_component(name, role, |_, component| self.check_decoded(component))
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

    /// Checks the indices of a sparse tensor: they lie inside its shape and row pointers rise, in every format; in version 2 of `.zt` no element
    /// occurs twice. Tensors of other layouts have nothing to check.
    pub fn check_sparse(&self, name: &str) -> Result<()> {
        let (_, object) = self.find(name)?;
        let once = self.index.format == Format::Zt && self.index.version == "2";
        sparse::check(object, once, |role| self.component_bytes(name, role))
            .map_err(|error| error.with_tensor(name))
    }

    /// Checks every stored checksum and decodes every component; returns the names of the tensors, and of the files beside the opened one, that
    /// fail, with the reasons.
    pub fn verify_all(&self) -> Vec<(String, Error)> {
        let checked: Vec<Option<(String, Error)>> = self
            .index
            .objects
            .par_iter()
            .map(|(name, object)| {
                let checked = object.components.iter().try_for_each(|(_, component)| {
                    self.check_decoded(component)?;
                    if component.checks_stored_bytes() {
                        encoding::verify(&self.files, component, None)?;
                    }
                    let bytes = encoding::bytes(&self.files, component)?;
                    if component.checks_stored_bytes() {
                        Ok(())
                    } else {
                        encoding::verify(&self.files, component, Some(&bytes))
                    }
                });
                let checked = checked.and_then(|()| self.check_sparse(name));
                checked.err().map(|error| (name.clone(), error.with_tensor(name)))
            })
            .collect();
        let mut failures: Vec<(String, Error)> = checked.into_iter().flatten().collect();
        failures.extend(self.index.file_digests.iter().filter_map(|(file, digest)| {
            let source = self.files.get(file.0 as usize)?;
            let whole = Span { file: *file, offset: 0, length: source.len() };
            let error = encoding::verify_span(&self.files, whole, digest).err()?;
            let name = source.path()?.file_name()?.to_string_lossy().into_owned();
            Some((name, error))
        }));
        failures
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

    /// Refuses to decode, or to copy, what looks like a bomb: a tensor that is out of proportion by itself, or any of a file whose other tensors are so
    /// together.
    fn check_decoded(&self, component: &Component) -> Result<()> {
        self.check_component(component)?;
        let (decoded, stored) = *self.totals.get_or_init(|| {
            let components = self.index.objects.values().flat_map(|object| &object.components);
            let sound = components.filter(|(_, component)| self.check_component(component).is_ok());
            (sound.map(|(_, component)| component.length).fold(0, u64::saturating_add), self.total_stored())
        });
        self.limits.check_decoded(decoded, stored)
    }

    /// The same for all bytes of the files, where they are put together from what an archive holds.
    pub(crate) fn check_sources(&self) -> Result<()> {
        let decoded = self.files.iter().map(|file| file.len()).fold(0, u64::saturating_add);
        self.limits.check_decoded(decoded, self.total_stored())
    }

    fn total_stored(&self) -> u64 {
        self.files.iter().map(|file| file.total_stored()).fold(0, u64::saturating_add)
    }

    fn check_component(&self, component: &Component) -> Result<()> {
        if component.length <= Limits::ALWAYS_DECODED.min(self.limits.decoded_bytes) {
            return Ok(());
        }
        let stored = match component.data.only_span() {
            Some(span) => match self.files.get(span.file.0 as usize) {
                Some(file) => file.weight(span.offset, span.length),
                None => span.length,
            },
            None => component.data.stored_length(),
        };
        self.limits.check_decoded(component.length, stored)
    }

    /// Checks a checksum over stored bytes before they are decoded: damage is then named as what it is.
    fn verify_stored(&self, position: (usize, usize), component: &Component) -> Result<()> {
        if component.checks_stored_bytes() { self.verify(position, component, None) } else { Ok(()) }
    }

    fn verify(&self, position: (usize, usize), component: &Component, decoded: Option<&[u8]>) -> Result<()> {
        let Some(verified) = self.verified.as_ref().filter(|_| component.is_checked()) else { return Ok(()) };
        if verified.lock().unwrap_or_else(PoisonError::into_inner).contains(&position) {
            return Ok(());
        }
        encoding::verify(&self.files, component, decoded)?;
        verified.lock().unwrap_or_else(PoisonError::into_inner).insert(position);
        Ok(())
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

/// A tensor of any layout, read.
#[derive(Clone, Debug)]
pub struct TensorData<'a> {
    /// The logical shape.
    pub shape: Shape,
    /// How the components make one tensor.
    pub layout: Layout,
    /// The object's own metadata.
    pub attributes: Attributes,
    /// The components with their roles.
    pub components: Vec<(String, ComponentData<'a>)>,
}

/// One component, read.
#[derive(Clone, Debug)]
pub struct ComponentData<'a> {
    /// What the elements are.
    pub element: ElementType,
    /// The elements: little-endian, row-major.
    pub bytes: Cow<'a, [u8]>,
}

impl TensorData<'_> {
    /// The component of a role.
    pub fn component(&self, role: &str) -> Option<&ComponentData<'_>> {
        self.components.iter().find(|(name, _)| name == role).map(|(_, component)| component)
    }

    /// The same tensor, independent of the file.
    pub fn into_owned(self) -> TensorData<'static> {
        let own = |component: ComponentData<'_>| ComponentData {
            element: component.element,
            bytes: Cow::Owned(component.bytes.into_owned()),
        };
        TensorData {
            shape: self.shape,
            layout: self.layout,
            attributes: self.attributes,
            components: self.components.into_iter().map(|(role, component)| (role, own(component))).collect(),
        }
    }
}

impl ComponentData<'_> {
    /// The elements as values of a Rust type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.element != ElementType::plain(T::DTYPE) {
            return Err(Error::mismatch(format!("the component holds {}, not {}", self.element, T::DTYPE)));
        }
        Ok(bytemuck::allocation::pod_collect_to_vec(&self.bytes))
    }
}
