//! An array of bytes whose length is known only when its last byte has been written.

use super::Writer;
use super::input::Version;
use crate::error::Result;
use crate::index::{Component, FileId, Object, Span};
use crate::tensor::{DType, Shape};

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
