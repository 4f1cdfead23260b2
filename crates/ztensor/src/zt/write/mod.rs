//! The 1.2 writer. Tensors are written one after the other as they come, larger than memory if need be; the
//! manifest follows at the end. Nothing appears under the target's name before [`Writer::finish`].

mod bytes;
mod encode;
mod input;
mod one;
mod place;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use indexmap::IndexMap;
use rayon::prelude::*;

pub use bytes::enclose_bytes;
pub use input::{Checksum, Compression, TensorInput, Version};
pub use one::{TensorStream, TensorWrite};
pub(super) use place::alignment;

use encode::encode;

use super::append::Append;
use crate::error::{Error, Kind, Result};
use crate::formats::zt::manifest::{self, Item};
use crate::formats::zt::{MAGIC, v2};
use crate::index::{DigestValue, Object, Span};
use crate::output::Output;
use crate::tensor::{Attributes, Element, ElementType, Layout, Shape, Value};

/// Decoded bytes that are compressed side by side before they are written.
const WINDOW: u64 = 64 << 20;

/// Writes a `.zt` file.
///
/// ```
/// # fn main() -> ztensor::Result<()> {
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("model.zt");
/// use ztensor::{Checksum, Compression, Reader, Writer};
///
/// let mut writer = Writer::create(&path)?;
/// writer.add("bias", &[3], &[0.5f32, 1.0, 1.5])?;
/// writer.add_with("weight", &[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])
///     .compress(Compression::Zstd(3))
///     .checksum(Checksum::Crc32c)
///     .write()?;
/// writer.finish()?;
///
/// let reader = Reader::open(&path)?;
/// assert_eq!(reader.view_as::<f32>("bias")?, [0.5, 1.0, 1.5]);
/// assert_eq!(reader.read_as::<f32>("weight")?[5], 6.0);
/// # Ok(())
/// # }
/// ```
pub struct Writer {
    output: Output,
    objects: IndexMap<String, Object>,
    attributes: Attributes,
    /// What an append keeps of the file that was there before.
    before: Option<Append>,
    durable: bool,
    version: Version,
    /// Version 2 stores equal bytes once: blobs by length and digest.
    known: HashMap<(u64, DigestValue), Vec<Span>>,
    /// Set when a write failed: the file cannot be finished any more.
    broken: bool,
}

impl Writer {
    /// Starts a new file. What is there under the name stays until [`Writer::finish`].
    pub fn create(path: impl AsRef<Path>) -> Result<Writer> {
        Writer::start(Output::create(path.as_ref())?, Version::One)
    }

    /// Starts a new file of a chosen generation.
    pub fn create_version(path: impl AsRef<Path>, version: Version) -> Result<Writer> {
        Writer::start(Output::create(path.as_ref())?, version)
    }

    /// Starts a file in memory; [`Writer::into_bytes`] ends it.
    pub fn in_memory() -> Result<Writer> {
        Writer::start(Output::memory(), Version::One)
    }

    /// Starts a file of a chosen generation in memory.
    pub fn in_memory_version(version: Version) -> Result<Writer> {
        Writer::start(Output::memory(), version)
    }

    /// Opens an existing file for more tensors. Who opens it before [`Writer::finish`] gets the old state,
    /// also when this process is killed; what an interrupted earlier write left behind is cut off first.
    pub fn append(path: impl AsRef<Path>) -> Result<Writer> {
        let (output, attributes, before) = Append::open(path.as_ref())?;
        Ok(Writer { attributes, before: Some(before), durable: true, ..Writer::over(output, Version::One) })
    }

    fn start(mut output: Output, version: Version) -> Result<Writer> {
        output.write(match version {
            Version::One => MAGIC,
            Version::Two => v2::MAGIC,
        })?;
        Ok(Writer::over(output, version))
    }

    fn over(output: Output, version: Version) -> Writer {
        Writer {
            output,
            objects: IndexMap::new(),
            attributes: Attributes::new(),
            before: None,
            durable: false,
            version,
            known: HashMap::new(),
            broken: false,
        }
    }

    /// The generation that is written.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the bytes must have reached the disk when [`Writer::finish`] returns. Always so when an
    /// existing file is replaced or appended to; for a new file the default is to leave it to the operating
    /// system.
    pub fn durable(&mut self, durable: bool) {
        self.durable = durable || self.before.is_some();
    }

    /// The metadata of the file so far.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Removes a piece of metadata.
    pub fn remove_attribute(&mut self, key: &str) {
        self.attributes.shift_remove(key);
    }

    /// Sets an attribute of the file.
    pub fn set_attribute(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.attributes.insert(key.into(), value.into());
    }

    /// Adds a dense tensor as it is.
    pub fn add<T: Element>(&mut self, name: &str, shape: &[u64], elements: &[T]) -> Result<()> {
        self.add_with(name, shape, elements).write()
    }

    /// Adds a dense tensor with compression or a checksum.
    pub fn add_with<'w, T: Element>(
        &'w mut self,
        name: &'w str,
        shape: &[u64],
        elements: &'w [T],
    ) -> TensorWrite<'w> {
        let tensor = TensorInput::dense(Shape::from(shape), T::DTYPE, bytemuck::cast_slice(elements));
        TensorWrite { writer: self, name, tensor, compression: Compression::None, checksum: Checksum::None }
    }

    /// Adds a matrix in compressed sparse rows.
    pub fn add_csr<T: Element>(
        &mut self,
        name: &str,
        shape: [u64; 2],
        values: &[T],
        indices: &[u64],
        indptr: &[u64],
    ) -> Result<()> {
        let components = vec![
            (Cow::Borrowed("values"), T::DTYPE.into(), bytemuck::cast_slice(values)),
            (Cow::Borrowed("indices"), u64::DTYPE.into(), bytemuck::cast_slice(indices)),
            (Cow::Borrowed("indptr"), u64::DTYPE.into(), bytemuck::cast_slice(indptr)),
        ];
        let tensor = TensorInput {
            shape: shape.into(),
            layout: Layout::SparseCsr,
            attributes: Attributes::new(),
            components,
        };
        self.write_object(name, &tensor, Compression::None, Checksum::None)
    }

    /// Adds a tensor in coordinate form: `coords` holds all coordinates of dimension 0, then of dimension 1,
    /// and so on.
    pub fn add_coo<T: Element>(
        &mut self,
        name: &str,
        shape: &[u64],
        values: &[T],
        coords: &[u64],
    ) -> Result<()> {
        let components = vec![
            (Cow::Borrowed("values"), T::DTYPE.into(), bytemuck::cast_slice(values)),
            (Cow::Borrowed("coords"), u64::DTYPE.into(), bytemuck::cast_slice(coords)),
        ];
        let tensor = TensorInput {
            shape: shape.into(),
            layout: Layout::SparseCoo,
            attributes: Attributes::new(),
            components,
        };
        self.write_object(name, &tensor, Compression::None, Checksum::None)
    }

    /// Adds a tensor of any layout.
    pub fn write_object(
        &mut self,
        name: &str,
        tensor: &TensorInput<'_>,
        compression: Compression,
        checksum: Checksum,
    ) -> Result<()> {
        self.write_watched(name, tensor, compression, checksum, &mut |_| {})
    }

    /// Adds many tensors; compression works on several of them at once.
    pub fn write_batch(
        &mut self,
        tensors: &[(&str, TensorInput<'_>)],
        compression: Compression,
        checksum: Checksum,
    ) -> Result<()> {
        self.objects.reserve(tensors.len());
        if compression == Compression::None {
            return tensors
                .iter()
                .try_for_each(|(name, tensor)| self.write_object(name, tensor, compression, checksum));
        }
        let version = self.version;
        let mut rest = tensors;
        while !rest.is_empty() {
            let (mut count, mut total) = (0, 0);
            while count < rest.len() && (count == 0 || total < WINDOW) {
                total += rest[count].1.byte_length();
                count += 1;
            }
            let (window, later) = rest.split_at(count);
            let encoded: Vec<_> = window
                .par_iter()
                .map(|(name, tensor)| {
                    encode(tensor, compression, version, &mut |_| {}).map_err(|error| error.with_tensor(name))
                })
                .collect::<Result<_>>()?;
            for ((name, tensor), encoded) in window.iter().zip(encoded) {
                self.check_name(name)?;
                self.store(name, tensor, encoded, checksum, &mut |_| {})?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Adds a tensor; `progress` is told the bytes of its parts as they are done.
    pub(crate) fn write_watched(
        &mut self,
        name: &str,
        tensor: &TensorInput<'_>,
        compression: Compression,
        checksum: Checksum,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        self.check_name(name)?;
        let encoded = encode(tensor, compression, self.version, progress);
        self.store(name, tensor, encoded.map_err(|error| error.with_tensor(name))?, checksum, progress)
    }

    /// Adds a second name for a tensor written before; its bytes are stored once.
    pub fn add_tied(&mut self, name: &str, existing: &str) -> Result<()> {
        self.check_name(name)?;
        let object = self.objects.get(existing).cloned();
        let object = object.ok_or_else(|| {
            Error::new(Kind::NoSuchTensor, format!("no tensor \"{existing}\" was written before"))
        })?;
        self.objects.insert(name.to_owned(), object);
        Ok(())
    }

    /// Starts a dense tensor whose bytes come in pieces; it may be larger than memory.
    pub fn stream(
        &mut self,
        name: &str,
        shape: &[u64],
        element: impl Into<ElementType>,
    ) -> Result<TensorStream<'_>> {
        self.check_name(name)?;
        let (shape, element) = (Shape::from(shape), element.into());
        let length = shape.elements().and_then(|count| element.byte_length(count));
        let length = length.ok_or_else(|| {
            Error::argument(format!("shape {shape} of {element} has no size")).with_tensor(name)
        })?;
        self.align(length, true)?;
        let offset = self.output.position();
        Ok(TensorStream { name: name.to_owned(), shape, element, length, offset, hasher: None, writer: self })
    }

    /// Writes manifest and footer and puts the file in place. Returns its size. Where another file has taken
    /// the place of one that was appended to, that is an error, and the result is kept beside it.
    pub fn finish(mut self) -> Result<u64> {
        self.output.owner().check()?;
        if self.before.is_some() {
            // The blobs are on the disk before a manifest that refers to them.
            self.output.sync()?;
        }
        self.write_tail()?;
        let size = self.output.position();
        match self.before {
            Some(before) => before.commit(self.output)?,
            None => self.output.publish(self.durable)?,
        }
        Ok(size)
    }

    /// Ends a file in memory.
    pub fn into_bytes(mut self) -> Result<Vec<u8>> {
        self.write_tail()?;
        Ok(self.output.into_memory())
    }

    fn write_tail(&mut self) -> Result<()> {
        if self.broken {
            return Err(Error::argument("an earlier write failed, so the file cannot be finished"));
        }
        if self.version == Version::Two {
            self.output.align(v2::CANONICAL_ALIGNMENT)?;
            let offset = self.output.position();
            let objects = self.objects.iter().map(|(name, object)| (name.as_str(), object));
            let manifest = v2::encode(&self.attributes, objects)?;
            self.output.write(&manifest)?;
            return self.output.write(&v2::footer(offset, &manifest));
        }
        let manifest = {
            let own = self.objects.iter().map(|(name, object)| (name.as_str(), Item::Object(object)));
            match &self.before {
                None => manifest::encode(&self.attributes, own, &[])?,
                Some(before) => {
                    let items: Vec<_> = before.items().chain(own).collect();
                    manifest::encode(&self.attributes, items.into_iter(), before.unknown())?
                }
            }
        };
        self.output.write(&manifest)?;
        self.output.write(&(manifest.len() as u64).to_le_bytes())?;
        self.output.write(MAGIC)
    }

    fn check_name(&self, name: &str) -> Result<()> {
        self.output.owner().check()?;
        if self.broken {
            return Err(Error::argument("an earlier write failed, so nothing more can be written"));
        }
        if self.objects.contains_key(name) || self.before.as_ref().is_some_and(|before| before.contains(name))
        {
            return Err(
                Error::new(Kind::Duplicate, "a tensor of this name was already written").with_tensor(name)
            );
        }
        Ok(())
    }

    /// Adds an object whose components are already placed.
    pub(super) fn insert_placed(&mut self, name: &str, object: Object) {
        self.objects.insert(name.to_owned(), object);
    }
}
