//! One tensor on its way into a file: a dense one with options, or one whose bytes come in pieces.

use super::Writer;
use super::input::{Checksum, Compression, TensorInput, Version};
use crate::encoding::{Hasher, check_content};
use crate::error::{Error, Result};
use crate::formats::zt::v2;
use crate::index::{Component, Content, Coverage, Digest, FileId, Object, Span};
use crate::tensor::{ElementType, Layout, Shape, Value};

/// A dense tensor about to be written. Made by [`Writer::add_with`].
#[must_use = "call write()"]
pub struct TensorWrite<'w> {
    pub(super) writer: &'w mut Writer,
    pub(super) name: &'w str,
    pub(super) tensor: TensorInput<'w>,
    pub(super) compression: Compression,
    pub(super) checksum: Checksum,
}

impl TensorWrite<'_> {
    /// How its bytes are stored.
    pub fn compress(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Which checksum is stored with it.
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }

    /// An attribute of the object.
    pub fn attribute(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.tensor.attributes.insert(key.to_owned(), value.into());
        self
    }

    /// Writes it.
    pub fn write(self) -> Result<()> {
        self.writer.write_object(self.name, &self.tensor, self.compression, self.checksum)
    }
}

/// A dense tensor whose bytes come in pieces. Made by [`Writer::stream`]; dropped unfinished, it leaves no tensor behind.
pub struct TensorStream<'w> {
    pub(super) writer: &'w mut Writer,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) element: ElementType,
    pub(super) length: u64,
    pub(super) offset: u64,
    pub(super) hasher: Option<Hasher>,
}

impl TensorStream<'_> {
    /// Stores a checksum; to be called before the first piece.
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.hasher = match (self.writer.version, checksum) {
            // Version 2 has no crc32c; its everyday digest takes its place.
            (Version::Two, Checksum::Crc32c) => Some(Hasher::xxh3()),
            _ => checksum.hasher(),
        };
        self
    }

    /// Writes the next piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        let written = self.writer.output.position() - self.offset;
        if written + piece.len() as u64 > self.length {
            return Err(Error::mismatch(format!(
                "more than the {} bytes of shape {}",
                self.length, self.shape
            ))
            .with_tensor(&self.name));
        }
        self.check_content(written, piece)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
        self.writer.output.write(piece).inspect_err(|_| self.writer.broken = true)
    }

    /// Version 2 has rules about values; a piece that breaks them is not written.
    fn check_content(&self, written: u64, piece: &[u8]) -> Result<()> {
        let content = match self.writer.version {
            Version::One => Content::Any,
            Version::Two => v2::content(&Layout::Dense, &self.shape, &self.element),
        };
        if content == Content::HalfByteLeft && written + (piece.len() as u64) < self.length {
            return Ok(());
        }
        check_content(content, written, piece)
            .map_err(|error| Error::argument(error.message()).with_tensor(&self.name))
    }

    /// Ends the tensor; all its bytes must have been written.
    pub fn finish(self) -> Result<()> {
        let written = self.writer.output.position() - self.offset;
        if written != self.length {
            return Err(Error::mismatch(format!("{written} of {} bytes were written", self.length))
                .with_tensor(&self.name));
        }
        let mut component =
            Component::raw(self.element, Span { file: FileId(0), offset: self.offset, length: self.length });
        component.digest =
            self.hasher.map(|hasher| Digest { value: hasher.finish(), over: Coverage::Stored });
        self.writer.objects.insert(self.name, Object::dense(self.shape, component));
        Ok(())
    }
}
