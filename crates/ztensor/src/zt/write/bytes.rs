//! An array of bytes whose length is known only when its last byte has been written.

use super::Writer;
use super::input::Version;
use crate::error::Result;
use crate::formats::zt::MAGIC;
use crate::formats::zt::manifest::{self, Item};
use crate::formats::zt::read::ALIGNMENT;
use crate::index::{Component, FileId, Object, Span};
use crate::tensor::{Attributes, DType, Shape};

/// Bytes on their way into a file. Made by [`Writer::bytes`]; dropped unfinished, they leave no tensor behind.
pub(crate) struct ByteStream<'w> {
    writer: &'w mut Writer,
    name: &'static str,
    offset: u64,
}

impl Writer {
    /// Starts an array of bytes that grows until it is finished.
    pub(crate) fn bytes(&mut self, name: &'static str) -> Result<ByteStream<'_>> {
        debug_assert_eq!(self.version, Version::One);
        self.check_name(name)?;
        self.align(0, false)?;
        let offset = self.output.position();
        Ok(ByteStream { writer: self, name, offset })
    }
}

/// What comes before and after `length` bytes in a `.zt` file that holds these as its only object: for writers that send the bytes somewhere as they
/// come. The first part does not depend on the length.
pub fn enclose_bytes(name: &str, length: u64, attributes: &Attributes) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut front = MAGIC.to_vec();
    front.resize(ALIGNMENT as usize, 0);
    let span = Span { file: FileId(0), offset: ALIGNMENT, length };
    let object = Object::dense(Shape::from([length]), Component::raw(DType::U8, span));
    let items = std::iter::once((name, Item::Object(&object)));
    let mut back = manifest::encode(attributes, items, &[])?;
    let length = back.len() as u64;
    back.extend_from_slice(&length.to_le_bytes());
    back.extend_from_slice(MAGIC);
    Ok((front, back))
}

impl ByteStream<'_> {
    /// Writes the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.output.write(bytes).inspect_err(|_| self.writer.broken = true)
    }

    /// Ends the array.
    pub(crate) fn finish(self) {
        let length = self.writer.output.position() - self.offset;
        let span = Span { file: FileId(0), offset: self.offset, length };
        let object = Object::dense(Shape::from([length]), Component::raw(DType::U8, span));
        self.writer.objects.insert(self.name.to_owned(), object);
    }
}
