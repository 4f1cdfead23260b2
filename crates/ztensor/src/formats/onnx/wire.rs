//! The protobuf wire format as a walk over byte ranges. Fields come out with the place of their bytes, so that tensor data is never
//! touched and lengths may be as large as the file; every range is checked against the message around it.

use std::cell::RefCell;

use crate::encoding::read_varint;
use crate::error::{Error, Result};
use crate::index::{FileId, Span};
use crate::source::{Ahead, Source};

/// Bytes that are read at once to begin with: tensors lie between what is read.
const FIRST: u64 = 64 << 10;

/// The longest encoding of a 64-bit varint.
const LONGEST_VARINT: u64 = 10;

/// The file below the messages.
pub(super) struct Wire<'a> {
    source: &'a Source,
    whole: Option<&'a [u8]>,
    ahead: RefCell<Ahead<'a>>,
}

impl<'a> Wire<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        let ahead = RefCell::new(Ahead::new(source, FIRST));
        Wire { source, whole: source.slice(0, source.len()), ahead }
    }

    /// The whole file as one message.
    pub(super) fn message(&'a self) -> Message<'a> {
        Message { wire: self, position: 0, end: self.source.len() }
    }

    /// The message in a range.
    pub(super) fn message_in(&'a self, span: Span) -> Message<'a> {
        Message { wire: self, position: span.offset, end: span.offset + span.length }
    }

    /// A copy of a text field.
    pub(super) fn text(&self, span: Span) -> Result<String> {
        let bytes = self.source.bytes(span.offset, span.length)?.into_owned();
        String::from_utf8(bytes)
            .map_err(|_| Error::malformed("a text field is not UTF-8").with_offset(span.offset))
    }

    /// Whether a text field says this.
    pub(super) fn says(&self, span: Span, text: &str) -> Result<bool> {
        Ok(span.length == text.len() as u64
            && *self.source.bytes(span.offset, span.length)? == *text.as_bytes())
    }

    /// The bytes of a range.
    pub(super) fn bytes(&self, span: Span) -> Result<std::borrow::Cow<'a, [u8]>> {
        self.source.bytes(span.offset, span.length)
    }

    /// One byte of the file, if it is that long.
    pub(super) fn byte(&self, offset: u64) -> Option<u8> {
        self.source.bytes(offset, 1).ok()?.first().copied()
    }

    /// A varint that starts at `position` and must end before `end`; with the position behind it.
    fn varint(&self, position: u64, end: u64) -> Result<(u64, u64)> {
        let length = LONGEST_VARINT.min(end - position);
        let found = match self.whole {
            // The range lies inside the file, whose length fits the address space because it is in it.
            Some(whole) => whole.get(position as usize..(position + length) as usize).and_then(read_varint),
            None => read_varint(self.ahead.borrow_mut().bytes(position, length)?),
        };
        match found {
            Some((value, taken)) => Ok((value, position + taken as u64)),
            None => {
                Err(Error::malformed("a varint is longer than 64 bits or than its message")
                    .with_offset(position))
            }
        }
    }
}

/// A walk over the fields of one message.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    wire: &'a Wire<'a>,
    position: u64,
    end: u64,
}

/// One field: its number, where its tag starts, and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub number: u32,
    pub start: u64,
    pub value: Value,
}

/// The value of a field and where its bytes lie.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Varint {
        value: u64,
        span: Span,
    },
    /// Four or eight bytes.
    Fixed(Span),
    /// Text, bytes, a message or packed values.
    Bytes(Span),
}

impl Message<'_> {
    /// Where the next field starts.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next field, or `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<Field>> {
        if self.position == self.end {
            return Ok(None);
        }
        let start = self.position;
        let (tag, after) = self.wire.varint(start, self.end)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number =
            number.ok_or_else(|| Error::malformed("a field number is out of range").with_offset(start))?;
        let value = match tag & 7 {
            0 => {
                let (value, end) = self.wire.varint(after, self.end)?;
                Value::Varint { value, span: self.take(after, end - after)? }
            }
            1 => Value::Fixed(self.take(after, 8)?),
            2 => {
                let (length, after) = self.wire.varint(after, self.end)?;
                Value::Bytes(self.take(after, length)?)
            }
            5 => Value::Fixed(self.take(after, 4)?),
            other => {
                return Err(Error::malformed(format!("field {number} has the unknown wire type {other}"))
                    .with_offset(start));
            }
        };
        Ok(Some(Field { number, start, value }))
    }

    /// A range of this message; the walk goes on behind it.
    fn take(&mut self, offset: u64, length: u64) -> Result<Span> {
        match offset.checked_add(length) {
            Some(end) if end <= self.end => {
                self.position = end;
                Ok(Span { file: FileId(0), offset, length })
            }
            _ if self.end == self.wire.source.len() => Err(Error::truncated(format!(
                "a field of {length} bytes is announced, but the file ends after {}",
                self.end - offset
            ))
            .with_offset(offset)),
            _ => Err(Error::malformed(format!("a field of {length} bytes runs past the message around it"))
                .with_offset(offset)),
        }
    }
}

impl Field {
    /// The range of a text, bytes or message field.
    pub(super) fn bytes(&self) -> Result<Span> {
        match self.value {
            Value::Bytes(span) => Ok(span),
            _ => Err(self.wrong_type("a length-delimited value")),
        }
    }

    /// The value of an integer field.
    pub(super) fn integer(&self) -> Result<u64> {
        match self.value {
            Value::Varint { value, .. } => Ok(value),
            _ => Err(self.wrong_type("an integer")),
        }
    }

    pub(super) fn wrong_type(&self, expected: &str) -> Error {
        Error::malformed(format!("field {} is not {expected}", self.number)).with_offset(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value)>> {
        let source = Source::from_bytes(bytes.to_vec());
        let wire = Wire::new(&source);
        let mut message = wire.message();
        let mut found = Vec::new();
        while let Some(field) = message.next()? {
            found.push((field.number, field.value));
        }
        Ok(found)
    }

    #[test]
    fn each_wire_type_is_located() {
        let found = fields(&[0x08, 0x96, 0x01, 0x12, 0x02, b'a', b'b', 0x1D, 1, 2, 3, 4]).unwrap();
        assert!(matches!(
            found[0],
            (1, Value::Varint { value: 150, span: Span { offset: 1, length: 2, .. } })
        ));
        assert!(matches!(found[1], (2, Value::Bytes(Span { offset: 5, length: 2, .. }))));
        assert!(matches!(found[2], (3, Value::Fixed(Span { offset: 8, length: 4, .. }))));
    }

    #[test]
    fn fields_that_leave_their_message_are_refused() {
        assert!(fields(&[0x12, 0x05, 0]).is_err());
        assert!(fields(&[0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]).is_err());
        assert!(fields(&[0x1D, 1, 2, 3]).is_err());
        assert!(fields(&[0x08, 0x80]).is_err());
        assert!(fields(&[0x00, 0x00]).is_err(), "field number zero");
        assert!(fields(&[0x0B]).is_err(), "groups");
    }
}
